"""One soak: messages sent, workers killed while they drain them, and what is found afterwards."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.db import connection

from queues.stats import depths
from queues.store.flows import flows
from queues.transports.consumers import open_consumer
from queues.wakeups import send_wakeup
from queues.words.sources import SOURCES
from tests.bench.soak.findings import faults, find
from tests.bench.soak.messages import DESTINATION, Sent, messages, send
from tests.bench.soak.workers import CELERY, Workers

POLL_SECONDS = 0.1
TICK_SECONDS = 1


class NotEmpty(Exception):
    """The database has messages already, so that nothing could be said of the sums."""


@dataclass
class Soak:
    """`count` messages and those who drain them, to whom `folder` is SOAK_FOLDER and `broker` SOAK_BROKER."""

    count: int
    workers: Workers
    folder: Path
    deadline_seconds: float
    broker: str = ""

    def run(self, is_time_to_kill: Callable[[], bool]) -> dict[str, Any]:
        """Return what there is to tell; `faults` is empty when all is well."""
        self._prepare()
        sent = list(messages(self.count))
        send(sent)
        started = time.monotonic()
        self.workers.start()
        try:
            in_time = self._drain(sent, is_time_to_kill, started + self.deadline_seconds)
        finally:
            self.workers.stop()
        seconds = time.monotonic() - started
        found = find(self.folder)
        wrong = [] if in_time else [f"not drained in {self.deadline_seconds:g} seconds"]
        return {
            "messages": self.count,
            "drained_in_seconds": round(seconds, 1),
            "kills": self.workers.kills,
            "deaths": self.workers.deaths,
            **found.as_json(),
            "faults": [*wrong, *faults(sent, found)],
        }

    @staticmethod
    def _effects() -> int:
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM soak_effects")
            return int(cursor.fetchone()[0])

    @staticmethod
    def every_seconds(seconds: float) -> Callable[[], bool]:
        """Return what says yes each time that so many seconds have passed since it was first asked."""
        last: float | None = None

        def is_time() -> bool:
            nonlocal last
            now = time.monotonic()
            last = now if last is None else last
            if now - last < seconds:
                return False
            last = now
            return True

        return is_time

    @staticmethod
    def every_messages(number: int) -> Callable[[], bool]:
        """Return what says yes each time that so many more messages were done."""
        last = 0

        def is_time() -> bool:
            nonlocal last
            done = sum(flow.succeeded + flow.died for flow in flows().values())
            if done - last < number:
                return False
            last = done
            return True

        return is_time

    def _prepare(self) -> None:
        if any(flow.sent for flow in flows().values()):
            raise NotEmpty
        if self.broker:
            open_consumer(self.broker, DESTINATION).close()  # declares the queue: to publish where none is would fail
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE IF EXISTS soak_effects")
            cursor.execute(
                "CREATE TABLE soak_effects (id bigint GENERATED ALWAYS AS IDENTITY, source text, stream text,"
                " number integer)"
            )

    def _drain(self, sent: Sequence[Sent], is_time_to_kill: Callable[[], bool], until: float) -> bool:
        """Kill and keep alive until nothing is left, here or at a broker; False = too late."""
        is_time_to_tick = self.every_seconds(TICK_SECONDS)
        done = sum(message.has_effect for message in sent)
        while any(depths().values()) or self._effects() < done:
            if time.monotonic() > until:
                return False
            self.workers.keep_alive()
            if CELERY in self.workers.commands and is_time_to_tick():
                for source in SOURCES:
                    send_wakeup(source)
            if is_time_to_kill():
                self.workers.kill_one()
            time.sleep(POLL_SECONDS)
        return True
