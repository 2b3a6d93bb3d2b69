"""Circuits of destinations as they are stored. Source: `sql/circuits_v1.sql`."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection


@dataclass(frozen=True, kw_only=True)
class Note:
    """What publishing to one destination came to: failures in a row, 0 = the last message was published.

    wait: how long the other side asked for, nothing = it did not say.
    """

    destination: str
    failures: int
    wait: timedelta
    error: str


@dataclass(frozen=True, kw_only=True)
class Change:
    """A circuit that changed; `retry_at` is set unless it is closed."""

    destination: str
    state: str
    retry_at: datetime | None


def note(
    notes: Sequence[Note], *, failures_to_open: int, base: timedelta, factor: float, cap: timedelta
) -> list[Change]:
    """Open circuits that failed often enough, for a doubling time; close those that work. Return what changed."""
    arguments: list[Any] = [json.dumps([_row(one) for one in notes]), failures_to_open, base, factor, cap]
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM note_destinations(%s, %s, %s, %s, %s)", arguments)
        return [Change(destination=name, state=state, retry_at=retry_at) for name, state, retry_at in cursor.fetchall()]


def _row(one: Note) -> dict[str, object]:
    return {
        "name": one.destination,
        "failures": one.failures,
        "wait_ms": round(one.wait / timedelta(milliseconds=1)),
        "error": one.error,
    }
