"""`manage.py drain inbox|outbox|perspectives|all`: a drainer in the foreground."""

import signal
import threading
from argparse import ArgumentParser
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import structlog
from django.core.management.base import BaseCommand
from django.db import InterfaceError, OperationalError, connection

from queues.conf import conf
from queues.drainer import drain
from queues.store import flows, partitions
from queues.transports.kombu import close_all
from queues.words.outcomes import OutcomeKind
from queues.words.sources import INBOX, OUTBOX, PERSPECTIVES

log = structlog.get_logger(__name__)

ENDING = (signal.SIGINT, signal.SIGTERM)
LONGEST_PAUSE_SECONDS = 60.0

SOURCES = {
    "all": (PERSPECTIVES, OUTBOX, INBOX),
    "inbox": (INBOX,),
    "outbox": (OUTBOX,),
    "perspectives": (PERSPECTIVES,),
}


class Command(BaseCommand):
    help = "Run due messages here until a signal ends it; with --until-empty, until nothing is due."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("source", choices=sorted(SOURCES))
        parser.add_argument("--until-empty", action="store_true", help="end when nothing is due")

    def handle(self, *args: Any, **options: Any) -> None:
        """Drain; a first SIGINT or SIGTERM lets the running message finish and gives the rest back, a second one kills.

        Without --until-empty a database that is away is waited for, with a growing pause of at most a minute.
        """
        partitions.make_ahead(conf().delivery_log_months_ahead)
        self.stop = _stop_on_signal()
        self.counts: defaultdict[str, Counter[OutcomeKind]] = defaultdict(Counter)
        try:
            self._run(SOURCES[options["source"]], is_patient=not options["until_empty"])
        finally:
            close_all()
        self._summarise(SOURCES[options["source"]])

    def _run(self, sources: Sequence[str], *, is_patient: bool) -> None:
        """Drain the sources in turn until asked to stop, or, if impatient, until nothing is due."""
        failures = 0
        while not self.stop.is_set():
            try:
                handled = sum(self._drain(source) for source in sources)
            except (OperationalError, InterfaceError) as exc:
                if not is_patient:
                    raise
                failures += 1
                self._wait_for_database(exc, failures)
                continue
            failures = 0
            if not handled and not is_patient:
                break
            if not handled:
                self.stop.wait(conf().tick_seconds)

    def _drain(self, source: str) -> int:
        """Drain a source until nothing is due or it is the others' turn; return the number of messages."""
        report = drain(source, seconds=conf().drain_seconds, stopping=self.stop.is_set)
        self.counts[source].update(report.counts)
        if report.messages:
            flows.fold(at_most=flows.FOLD_ROWS)
        return report.messages

    def _wait_for_database(self, exc: Exception, failures: int) -> None:
        pause = min(2.0 ** (failures - 1), LONGEST_PAUSE_SECONDS)
        log.warning("database_away", pause_seconds=pause, error=str(exc)[:200])
        connection.close()
        self.stop.wait(pause)

    def _summarise(self, sources: Sequence[str]) -> None:
        for source in sources:
            counts = self.counts[source]
            kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(counts.items()))
            self.stdout.write(f"{source}: {counts.total()} messages" + (f" ({kinds})" if kinds else ""))


def _stop_on_signal() -> threading.Event:
    """Return an event that the first SIGINT or SIGTERM sets; the next one has its usual effect."""
    stop = threading.Event()

    def ask(*_: object) -> None:
        stop.set()
        for number in ENDING:
            signal.signal(number, signal.SIG_DFL)

    for number in ENDING:
        signal.signal(number, ask)
    return stop
