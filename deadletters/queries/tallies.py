"""Dead letters put together by what they have in common: a type, a reason, a destination, a stream, a build, a subject.

Nothing counts them by these, so that a million letters are never looked through: types and reasons are stepped through
by their indexes and counted among the newest of each, subjects have counts of their own, the rest is counted in the
newest letters of all. What a number does not reach is said.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection

from deadletters.models import SubjectCount
from deadletters.models.letters import TYPE_PREFIX
from deadletters.queries import counts
from deadletters.words.errors import BadFilter
from deadletters.words.filters import GroupFilter, LetterFilter, reason_name
from queues.words.redaction import mask_text

NEWEST = 10_000
"""How many of the newest letters are put together by what no index finds."""
OF_EACH = 500
"""How many of the newest letters of each type, and of each reason, are counted."""
MAX_VALUES = 200
SHOWN = 50
"""Values that a page shows."""

OPEN = 0


@dataclass(frozen=True, kw_only=True)
class Tally:
    """Letters that have one thing in common.

    `value`: what, as filters write it, "" = they have none. `filters`: exactly these letters, None where the list's
    filter cannot name them. `is_capped`: there are more than were counted. `subject`: its type and id, if it is one.
    """

    value: str
    filters: LetterFilter | None
    open: int
    total: int
    newest_at: datetime | None
    oldest_at: datetime | None
    is_capped: bool = False
    subject: tuple[str, str] | None = None


@dataclass(frozen=True, kw_only=True)
class Tallies:
    """The values in their order. `looked_at`: only in so many of the newest letters was counted, None = in all."""

    rows: Sequence[Tally]
    looked_at: int | None = None
    of_each: int | None = None
    more: int = 0


@dataclass(frozen=True, kw_only=True)
class _Found:
    """One value as it was read; the filter of its letters is made only of those that are shown."""

    value: str
    open: int
    total: int
    newest_at: datetime | None
    oldest_at: datetime | None
    subject: tuple[str, str] | None = None


@dataclass(frozen=True, kw_only=True)
class _Read:
    """All values that were read; `of_each` and `looked_at`: as of Tallies, also where that was enough."""

    found: Sequence[_Found]
    looked_at: int | None = None
    of_each: int | None = None
    more: int = 0


def tallies(filters: GroupFilter) -> Tallies:
    """Return letters by what the filter names, those whose value contains its text, in its order."""
    read = _READ[filters.by](filters)
    wanted = filters.q.lower()
    found = [each for each in read.found if not wanted or wanted in mask_text(each.value).lower()]
    found.sort(key=_ORDERS[filters.sort], reverse=True)
    rows = [_tally(filters.by, each, cap=read.of_each) for each in found[:SHOWN]]
    return Tallies(
        rows=rows,
        looked_at=read.looked_at,
        of_each=read.of_each if any(row.is_capped for row in rows) else None,
        more=max(len(found) - SHOWN, 0) + read.more,
    )


_ORDERS: Mapping[str, Callable[[_Found], Any]] = {
    "last_seen": lambda each: (each.newest_at.timestamp() if each.newest_at else 0.0, each.value),
    "open": lambda each: (each.open, each.total, each.value),
    "total": lambda each: (each.total, each.open, each.value),
}

_VALUE = {"type": f"left(l.message_type, {TYPE_PREFIX})", "reason": "l.failure_reason"}

_STEPPED = """
WITH RECURSIVE steps AS (
    (SELECT {value} AS value FROM wh_dead_letters l WHERE l.superseded_by IS NULL ORDER BY {value} LIMIT 1)
    UNION ALL
    SELECT (SELECT {value} FROM wh_dead_letters l
             WHERE l.superseded_by IS NULL AND {value} > s.value ORDER BY {value} LIMIT 1)
      FROM steps s WHERE s.value IS NOT NULL
), known AS (SELECT s.value FROM steps s WHERE s.value IS NOT NULL LIMIT %(values)s)
SELECT k.value, n.open, n.total, n.newest_at, o.dead_lettered_at
  FROM known k
 CROSS JOIN LATERAL (
       SELECT count(*) FILTER (WHERE e.recovery_status = 0) AS open, count(*) AS total,
              max(e.dead_lettered_at) AS newest_at
         FROM (SELECT l.recovery_status, l.dead_lettered_at FROM wh_dead_letters l
                WHERE {value} = k.value AND l.superseded_by IS NULL
                ORDER BY l.dead_lettered_at DESC, l.dead_letter_id DESC LIMIT %(of_each)s) e) n
 CROSS JOIN LATERAL (
       SELECT l.dead_lettered_at FROM wh_dead_letters l
        WHERE {value} = k.value AND l.superseded_by IS NULL
        ORDER BY l.dead_lettered_at, l.dead_letter_id LIMIT 1) o
"""


def _stepped(filters: GroupFilter) -> _Read:
    """Step through the values of an index; one more than MAX_VALUES says that there are more."""
    with connection.cursor() as cursor:
        cursor.execute(_STEPPED.format(value=_VALUE[filters.by]), {"values": MAX_VALUES + 1, "of_each": OF_EACH + 1})
        found = [_found(filters.by, row) for row in cursor.fetchall()]
    return _Read(found=found[:MAX_VALUES], of_each=OF_EACH, more=max(len(found) - MAX_VALUES, 0))


_COLUMN = {"destination": "l.destination", "stream": "l.stream_id", "generation": "l.generation"}

_NEWEST = """
WITH newest AS MATERIALIZED (
    SELECT {column} AS value, l.recovery_status, l.dead_lettered_at FROM wh_dead_letters l
     WHERE l.superseded_by IS NULL ORDER BY l.dead_lettered_at DESC, l.dead_letter_id DESC LIMIT %(newest)s)
SELECT n.value, count(*) FILTER (WHERE n.recovery_status = 0) AS open, count(*) AS total,
       max(n.dead_lettered_at) AS newest_at, min(n.dead_lettered_at), (SELECT count(*) FROM newest)
  FROM newest n WHERE %(q)s = '' OR strpos(lower(n.value::text), %(q)s) > 0
 GROUP BY 1 ORDER BY {order} LIMIT %(values)s
"""
_SQL_ORDERS = {"last_seen": "4 DESC, 1", "open": "2 DESC, 3 DESC, 1", "total": "3 DESC, 2 DESC, 1"}


def _in_newest(filters: GroupFilter) -> _Read:
    sql = _NEWEST.format(column=_COLUMN[filters.by], order=_SQL_ORDERS[filters.sort])
    with connection.cursor() as cursor:
        cursor.execute(sql, {"newest": NEWEST, "q": filters.q.lower(), "values": MAX_VALUES + 1})
        rows = cursor.fetchall()
    found = [_found(filters.by, row[:5]) for row in rows[:MAX_VALUES]]
    is_cut = bool(rows) and rows[0][5] >= NEWEST
    return _Read(found=found, looked_at=NEWEST if is_cut else None, more=len(rows) - len(found))


def _of_subjects(_filters: GroupFilter) -> _Read:
    """Take the subjects that most open letters are about, by their counts."""
    most = SubjectCount.objects.filter(recovery_status=OPEN, n__gt=0).order_by("-n")
    known = list(most.values_list("subject_key", "type", "id", "last_seen_at")[: MAX_VALUES + 1])
    numbers = counts.of_subjects(key for key, *_ in known)
    found = [
        _Found(
            value=f"{kind}:{identity}",
            subject=(kind, identity),
            open=numbers.get(key, {}).get(OPEN, 0),
            total=sum(numbers.get(key, {}).values()),
            newest_at=seen_at,
            oldest_at=None,
        )
        for key, kind, identity, seen_at in known[:MAX_VALUES]
    ]
    return _Read(found=found, more=len(known) - len(found))


_READ: Mapping[str, Callable[[GroupFilter], _Read]] = {
    "type": _stepped,
    "reason": _stepped,
    "destination": _in_newest,
    "subject": _of_subjects,
    "stream": _in_newest,
    "generation": _in_newest,
}


def _tally(by: str, found: _Found, *, cap: int | None) -> Tally:
    return Tally(
        value=found.value,
        filters=_filter(by, found),
        open=found.open,
        total=found.total if cap is None else min(found.total, cap),
        newest_at=found.newest_at,
        oldest_at=found.oldest_at,
        is_capped=cap is not None and found.total > cap,
        subject=found.subject,
    )


def _filter(by: str, found: _Found) -> LetterFilter | None:
    """Return the filter that finds exactly the letters with a value; None: none does, or one would tell a secret."""
    value = found.value
    is_cut = (by == "type" and len(value) >= TYPE_PREFIX) or (found.subject is not None and ":" in found.subject[0])
    if not value or is_cut or value != value.strip() or mask_text(value) != value:
        return None
    try:
        return LetterFilter.parse({by: value})
    except BadFilter:
        return None


def _found(by: str, row: Sequence[Any]) -> _Found:
    value, open_, total, newest_at, oldest_at = row
    return _Found(value=_text(by, value), open=open_, total=total, newest_at=newest_at, oldest_at=oldest_at)


def _text(by: str, value: Any) -> str:
    if value is None:
        return ""
    return reason_name(value) if by == "reason" else str(value)
