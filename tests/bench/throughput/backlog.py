"""What two million waiting messages cost: the rate, what is left of the table, memory, and doing nothing at all."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from django.db import connection

from queues.words.sources import INBOX
from tests.bench.answering import ROOT
from tests.bench.harness import Bench
from tests.bench.throughput.benches import CORES, Scale
from tests.bench.throughput.rows import fill
from tests.bench.throughput.workers import Drained, environment, workers

MIB = 1024 * 1024


def drain_backlog(scale: Scale) -> Iterator[Bench]:
    """Yield the benches of a backlog, in their order: each measures something of what the first one did."""
    backlog = _Backlog(scale)
    few = partial(backlog.rate, scale.messages)
    yield _once("drain_backlog", "messages/s", scale.backlog, lambda: backlog.rate(scale.backlog), few=few)
    yield _once("drain_backlog_table", "bytes", scale.backlog, lambda: backlog.left[0], full=lambda: backlog.full[0])
    yield _once("drain_backlog_indexes", "bytes", scale.backlog, lambda: backlog.left[1], full=lambda: backlog.full[1])
    yield _once("drain_backlog_memory", "bytes", scale.backlog, lambda: backlog.peak_bytes)
    yield _once("drain_backlog_memory_1mib", "bytes", scale.large, lambda: backlog.drained(scale.large, MIB).peak_bytes)
    yield _once("drain_backlog_idle", "s/min", 1, lambda: _idle(scale))


def _once(name: str, unit: str, n: int, ours, **others) -> Bench:
    return Bench(name=name, unit=unit, n=n, ours=ours, others=others, repeats=1, cores=CORES, is_warm=True)


class _Backlog:
    """A backlog that was drained; sizes in bytes: of the table with its bodies, and of its indexes."""

    full = left = 0.0, 0.0
    peak_bytes = 0.0

    def __init__(self, scale: Scale) -> None:
        self._scale = scale

    def rate(self, messages: int) -> float:
        """Drain so many by a worker that has drained before, and note what that took."""
        drained = self.drained(messages)
        if messages == self._scale.backlog:
            self.peak_bytes = drained.peak_bytes
        return drained.messages / drained.seconds

    def drained(self, messages: int, text: int = 176) -> Drained:
        with workers() as one:
            fill(INBOX, min(messages, self._scale.messages))
            one.run(INBOX, min(messages, self._scale.messages))
            fill(INBOX, messages, text=text)
            full = _sizes()
            drained = one.run(INBOX, messages)
        if messages == self._scale.backlog:
            self.full, self.left = full, _sizes()
        return drained


def _sizes() -> tuple[float, float]:
    with connection.cursor() as cursor:
        cursor.execute("VACUUM wh_inbox")
        cursor.execute("SELECT pg_table_size('wh_inbox'), pg_indexes_size('wh_inbox')")
        table, indexes = cursor.fetchone()
    return table, indexes


def _idle(scale: Scale) -> float:
    """Return the seconds of processor time that a drainer takes in a minute in which nothing is due."""
    fill(INBOX, 0)
    command = [sys.executable, "manage.py", "drain", "all"]
    process = subprocess.Popen(command, env=environment(), cwd=ROOT, stdout=subprocess.DEVNULL)
    try:
        time.sleep(scale.started_seconds)
        before = _processor_seconds(process.pid)
        time.sleep(scale.idle_seconds)
        return (_processor_seconds(process.pid) - before) / scale.idle_seconds * 60
    finally:
        process.terminate()
        process.wait()


def _processor_seconds(process_id: int) -> float:
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
