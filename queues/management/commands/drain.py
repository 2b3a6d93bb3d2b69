"""`manage.py drain inbox|outbox|perspectives|all`: a drainer in the foreground."""

import signal
import threading
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from queues.conf import conf
from queues.drainer import drain
from queues.store import flows, partitions
from queues.words.sources import INBOX, OUTBOX, PERSPECTIVES

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
        """Drain; a first SIGINT or SIGTERM lets the running message finish and gives the rest back."""
        partitions.make_ahead(conf().delivery_log_months_ahead)
        stop = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        while True:
            handled = sum(self._drain(source, stop) for source in SOURCES[options["source"]])
            if stop.is_set() or (options["until_empty"] and not handled):
                return
            if not handled:
                stop.wait(conf().tick_seconds)

    def _drain(self, source: str, stop: threading.Event) -> int:
        """Drain a source until nothing is due or it is the others' turn; return the number of messages."""
        report = drain(source, seconds=conf().drain_seconds, stopping=stop.is_set)
        if report.messages:
            flows.fold(at_most=flows.FOLD_ROWS)
        for kind, count in sorted(report.counts.items()):
            self.stdout.write(f"{kind}: {count}")
        return report.messages
