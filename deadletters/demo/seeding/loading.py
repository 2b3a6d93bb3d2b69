"""Writes made-up letters: set-based, a transaction for each batch, through the tables and triggers of all letters."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from deadletters import counting
from deadletters.demo.seeding.faults import SeededFault, seeded_faults, steady_number
from deadletters.demo.seeding.oddities import ODD_SUBJECTS, odd_bodies
from deadletters.models import DeadLetter

HERE = Path(__file__).parent
BATCH = 20_000
SPAN = timedelta(days=30)
BUILDS = [f"shop-{number}" for number in range(140, 152)]
"""The builds on which the letters died, each for a part of the span."""

CHOICES = 64
"""Room between the choices of two seeds."""
WORK_MEM = "128MB"
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
    """Say whether letters of this seed are there."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT md5('letter:' || %s || ':1')::uuid", [plan.seed * CHOICES])
        first: UUID = cursor.fetchone()[0]
    return DeadLetter.objects.filter(dead_letter_id=first).exists()


def load(plan: Plan, *, said: Callable[[int], None]) -> None:
    """Write the letters of a plan; `said` is called with their number after each batch."""
    _prepare(seeded_faults(plan.groups, seed=plan.seed))
    values = _values(plan)
    for first in range(1, plan.count + 1, BATCH):
        last = min(first + BATCH - 1, plan.count)
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL work_mem = '{WORK_MEM}'; SET LOCAL synchronous_commit = off")
            for name in ("letters", "after"):
                cursor.execute((HERE / f"{name}.sql").read_text(), {**values, "first": first, "last": last})
        said(last)


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
