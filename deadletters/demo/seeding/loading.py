"""Writes made-up letters: set-based, a transaction for each batch, through the tables and triggers of all letters."""

from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from threading import Lock
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from deadletters import counting
from deadletters.demo.seeding.faults import SeededFault, seeded_faults, steady_number
from deadletters.demo.seeding.oddities import ODD_SUBJECTS, odd_bodies
from deadletters.models import DeadLetter

HERE = Path(__file__).parent
BATCH = 20_000
CONNECTIONS = 2
SPAN = timedelta(days=30)
BUILDS = [f"shop-{number}" for number in range(140, 152)]
"""The builds on which the letters died, each for a part of the span."""

CHOICES = 64
"""Room between the choices of two seeds."""
WORK_MEM = "128MB"
FIRST_ID = "SELECT pg_temp.letter_id(1, %(count)s, %(salt)s, %(until)s, %(span)s)"
INSERT_FAULT = "INSERT INTO seed_faults VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
TABLES = "wh_dead_letters, dead_letter_deaths, dead_letter_subjects, group_counts, group_hours, subject_counts, notes"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is to be written. `until`: the time of the last death; the same plan always gives the same letters."""

    count: int
    groups: int
    subjects: int
    seed: int
    until: datetime


def is_written(plan: Plan) -> bool:
    """Say whether the letters of this plan are there."""
    _prepare([])
    with connection.cursor() as cursor:
        cursor.execute(FIRST_ID, _values(plan))
        first: UUID = cursor.fetchone()[0]
    return DeadLetter.objects.filter(dead_letter_id=first).exists()


def load(plan: Plan, *, said: Callable[[int], None]) -> None:
    """Write the letters of a plan, on several connections at once; `said` is told how many are done."""
    work = _Work(plan=plan, firsts=deque(range(1, plan.count + 1, BATCH)), said=said)
    if len(work.firsts) == 1:
        work.write()
    else:
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            writers = [pool.submit(work.write_and_close) for _ in range(CONNECTIONS)]
            try:
                for writer in writers:
                    writer.result()
            finally:
                work.firsts.clear()  # after a fault, or an interruption, nobody begins another batch
    _prepare([])
    with transaction.atomic():
        _execute("recovering", _values(plan))


@dataclass
class _Work:
    """What the writers share. `firsts`: what the batches that are left begin with."""

    plan: Plan
    firsts: deque[int]
    said: Callable[[int], None]
    done: int = 0
    lock: Lock = field(default_factory=Lock)

    def write(self) -> None:
        """Write batches as long as there are any."""
        _prepare(seeded_faults(self.plan.groups, seed=self.plan.seed))
        values = _values(self.plan)
        while first := self._next():
            last = min(first + BATCH - 1, self.plan.count)
            with transaction.atomic():
                _execute("letters", {**values, "first": first, "last": last})
            with self.lock:
                self.done += last - first + 1
                self.said(self.done)

    def write_and_close(self) -> None:
        try:
            self.write()
        finally:
            connection.close()

    def _next(self) -> int | None:
        try:
            return self.firsts.popleft()
        except IndexError:
            return None


def _execute(name: str, values: Mapping[str, Any]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL work_mem = '{WORK_MEM}'; SET LOCAL jit = off; SET LOCAL synchronous_commit = off")
        cursor.execute((HERE / f"{name}.sql").read_text(), values)


def fold() -> int:
    """Fold all that waits and name every new group; return how many changes there were."""
    folded = 0
    while eaten := counting.fold():
        folded += eaten
    while counting.name_new_groups():
        pass
    return folded


def analyse() -> None:
    """Let the planner know of the rows: it would read the tables as if they were small."""
    with connection.cursor() as cursor:
        cursor.execute(f"ANALYZE {TABLES}")


def _prepare(faults: list[SeededFault]) -> None:
    rows = [_row(seeded) for seeded in faults]
    bodies = [(number, body.json, body.raw, body.size) for number, body in enumerate(odd_bodies())]
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute((HERE / "prepare.sql").read_text())
        cursor.executemany(INSERT_FAULT, rows)
        cursor.executemany("INSERT INTO seed_bodies VALUES (%s, %s::jsonb, %s, %s)", bodies)
        cursor.execute("ANALYZE seed_faults, seed_bodies")


def _row(seeded: SeededFault) -> tuple[Any, ...]:
    fault = seeded.fault
    where = (fault.source, fault.message_type, fault.destination, fault.perspective)
    why = (str(fault.cause), int(fault.reason), fault.attempts, fault.error)
    return (seeded.number, *where, *why, seeded.fingerprint, seeded.version, seeded.ends, seeded.begins)


def _values(plan: Plan) -> dict[str, Any]:
    return {
        "count": plan.count,
        "groups": plan.groups,
        "subjects": plan.subjects,
        "salt": plan.seed * CHOICES,
        "stride": max(plan.count // plan.groups, 1),
        "steady": steady_number(plan.groups),
        "until": plan.until,
        "span": SPAN,
        "builds": BUILDS,
        "bodies": len(odd_bodies()),
        "odd_subjects": list(ODD_SUBJECTS),
    }
