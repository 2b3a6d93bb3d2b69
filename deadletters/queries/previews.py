"""Reads of what a frozen run would send: its letters by type, place, age and stream, and which would not go.

Each read looks at MAX_ITEMS of the run's letters at most, in its order, by its index, and is a region of its own, which
takes PART_SECONDS at most.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any
from uuid import UUID

from django.db import connection

from deadletters.models import DeadLetter, ItemState, RecoveryItem
from deadletters.queries import letters

MAX_ITEMS = 100_000
"""Letters of a run that a preview looks at."""
PART_SECONDS = 3
"""Seconds that one part of a preview may take."""
MAX_KINDS = 1_000
"""Different (source, type, target) of a run that are told apart."""
SAMPLES = 5
SAMPLED_FROM = 500
"""First letters of a run out of which the samples are chosen."""

ITEMS = """
WITH items AS MATERIALIZED (
    SELECT i.dead_letter_id, i.place, i.stream_id, i.life, i.row_version
      FROM recovery_items i WHERE i.run_id = %(run)s AND i.state = 'waiting' ORDER BY i.place LIMIT %(cap)s)
"""
"""The letters that a run would send; `parameters` fills it."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """How many letters of a run are of a source, of a type, for a target: a destination, a perspective or none."""

    source: str
    type: str
    target: str
    n: int


@dataclass(frozen=True, kw_only=True)
class Age:
    """How many letters died not longer ago than `name` says, and longer than the one before it says."""

    name: str
    n: int


@dataclass(frozen=True, kw_only=True)
class Ages:
    """Letters by age; the times of the oldest and of the newest death, None without letters."""

    ages: Sequence[Age]
    oldest: datetime | None
    newest: datetime | None


@dataclass(frozen=True, kw_only=True)
class Streams:
    """How many streams the letters are of, and how many letters are of none; the biggest stream and its letters."""

    streams: int
    without: int
    biggest: UUID | None
    biggest_n: int


@dataclass(frozen=True, kw_only=True)
class Unsendable:
    """How many of the waiting letters would be skipped: changed since they were frozen, or held by a person."""

    changed: int
    held: int


def parameters(run_id: UUID) -> dict[str, Any]:
    return {"run": run_id, "cap": MAX_ITEMS}


def rows(sql: str, run_id: UUID, **more: Any) -> Sequence[tuple[Any, ...]]:
    """Return the rows of a statement that begins with ITEMS."""
    with connection.cursor() as cursor:
        cursor.execute(ITEMS + sql, {**parameters(run_id), **more})
        return list(cursor.fetchall())


def is_cut(run_id: UUID) -> bool:
    """Say whether more letters wait than a preview looks at."""
    waiting = RecoveryItem.objects.filter(run=run_id, state=ItemState.WAITING).order_by("place")
    return waiting.values("place")[MAX_ITEMS : MAX_ITEMS + 1].exists()


def kinds(run_id: UUID) -> Sequence[Kind]:
    """Return the letters by source, type and target, most letters first; MAX_KINDS + 1 at most."""
    found = rows(
        """
        SELECT l.source_table, left(l.message_type, 500), left(coalesce(l.destination, l.perspective_name, ''), 500),
               count(*)
          FROM items i JOIN wh_dead_letters l ON l.dead_letter_id = i.dead_letter_id
         GROUP BY 1, 2, 3 ORDER BY 4 DESC, 1, 2, 3 LIMIT %(kinds)s
        """,
        run_id,
        kinds=MAX_KINDS + 1,
    )
    return [Kind(source=source, type=kind, target=target, n=n) for source, kind, target, n in found]


_AGES = (("1 hour", 3_600), ("1 day", 86_400), ("7 days", 604_800), ("30 days", 2_592_000))
"""Ages with the seconds up to which they go; what is older is "longer"."""


def ages(run_id: UUID, now: datetime) -> Ages:
    """Return the letters by how long ago they died."""
    limits = [-(10**12), *(limit for _, limit in _AGES)]
    counted = ", ".join(f"count(*) FILTER (WHERE age > {low} AND age <= {high})" for low, high in pairwise(limits))
    ((oldest, newest, more, *numbers),) = rows(
        f"""
        SELECT min(at), max(at), count(*) FILTER (WHERE age > {_AGES[-1][1]}), {counted}
          FROM (SELECT l.dead_lettered_at AS at, extract(epoch FROM %(now)s - l.dead_lettered_at) AS age
                  FROM items i JOIN wh_dead_letters l ON l.dead_letter_id = i.dead_letter_id) a
        """,  # noqa: S608 - numbers of this module
        run_id,
        now=now,
    )
    told = [Age(name=name, n=n) for (name, _), n in zip(_AGES, numbers, strict=True)]
    return Ages(ages=[*told, Age(name="longer", n=more)], oldest=oldest, newest=newest)


def streams(run_id: UUID) -> Streams:
    """Return how many streams the letters are of."""
    ((number, without, biggest, biggest_n),) = rows(
        """
        SELECT count(*) FILTER (WHERE stream_id IS NOT NULL),
               coalesce(sum(n) FILTER (WHERE stream_id IS NULL), 0)::bigint,
               (array_agg(stream_id ORDER BY n DESC, stream_id) FILTER (WHERE stream_id IS NOT NULL))[1],
               coalesce(max(n) FILTER (WHERE stream_id IS NOT NULL), 0)
          FROM (SELECT stream_id, count(*) AS n FROM items GROUP BY 1) s
        """,
        run_id,
    )
    return Streams(streams=number, without=without, biggest=biggest, biggest_n=biggest_n)


def unsendable(run_id: UUID) -> Unsendable:
    """Return how many of the letters that wait would not be sent as they are now."""
    ((changed, held),) = rows(
        """
        SELECT count(*) FILTER (WHERE is_changed), count(*) FILTER (WHERE NOT is_changed AND is_held)
          FROM (SELECT (l.life, l.row_version) IS DISTINCT FROM (i.life, i.row_version) AS is_changed,
                       l.operator_disposition = 2 AS is_held
                  FROM items i LEFT JOIN wh_dead_letters l ON l.dead_letter_id = i.dead_letter_id) c
        """,
        run_id,
    )
    return Unsendable(changed=changed, held=held)


def samples(run_id: UUID) -> Sequence[DeadLetter]:
    """Return SAMPLES letters of as many different types and targets as there are, in the order of the run."""
    found = rows(
        """
        SELECT dead_letter_id
          FROM (SELECT i.dead_letter_id, i.place, row_number() OVER (
                       PARTITION BY l.source_table, l.message_type, l.destination, l.perspective_name ORDER BY i.place
                       ) AS nth
                  FROM (SELECT * FROM items ORDER BY place LIMIT %(first)s) i
                  JOIN wh_dead_letters l ON l.dead_letter_id = i.dead_letter_id) s
         ORDER BY nth, place LIMIT %(samples)s
        """,
        run_id,
        first=SAMPLED_FROM,
        samples=SAMPLES,
    )
    ids = [letter_id for (letter_id,) in found]
    known = letters.briefly(ids)
    return [known[letter_id] for letter_id in ids if letter_id in known]
