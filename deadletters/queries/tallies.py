"""Dead letters put together by what they have in common: a type, a reason, a destination, a stream, a build, a subject.

Nothing counts them by these, so that a million letters are never looked through: types and reasons are stepped through
by their indexes and counted among the newest of each, subjects have counts of their own, the rest is counted in the
newest letters of all. What a number does not reach is said.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import md5
from typing import Any
from uuid import UUID

from django.db import connection

from deadletters.models.letters import TYPE_PREFIX
from deadletters.queries import counts
from deadletters.words.errors import BadFilter
from deadletters.words.filters import CountCursor, Cursor, GroupFilter, LetterFilter, reason_name
from queues.words.redaction import mask_text

NEWEST = 10_000
"""How many of the newest letters are put together by what no index finds."""
OF_EACH = 500
"""How many of the newest letters of each type, and of each reason, are counted."""
STEPPED = 2_000
"""How many types, and reasons, are known by their newest letter."""
RANKED = 100
"""How many of them, those that died last, are counted and put in order by number."""
SUBJECTS = 3_000
"""How many subjects, those with most open letters, are put in order."""

OPEN = 0

_Place = tuple[datetime | int, UUID]
"""Where a value stands in an order: its time or its number, then its key."""


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
    """A page of the values in their order.

    `looked_at`: only in so many of the newest letters was counted, None = in all; `of_each`: in so many of each value.
    `among`: only so many values were put in order, those that died last or that most open letters are about.
    """

    rows: Sequence[Tally]
    next: Cursor | CountCursor | None = None
    looked_at: int | None = None
    of_each: int | None = None
    among: int | None = None


@dataclass(frozen=True, kw_only=True)
class _Found:
    """One value as it was read; the filter of its letters is made only of those that are shown."""

    value: str
    key: UUID
    open: int
    total: int
    newest_at: datetime | None
    oldest_at: datetime | None = None
    subject: tuple[str, str] | None = None


@dataclass(frozen=True, kw_only=True)
class _Read:
    """The values of a page and one more, in their order; the numbers as of Tallies, also where that was enough."""

    found: Sequence[_Found]
    looked_at: int | None = None
    of_each: int | None = None
    among: int | None = None


def tallies(filters: GroupFilter) -> Tallies:
    """Return a page of letters by what the filter names, those whose value contains its text, in its order."""
    read = _READ[filters.by](filters)
    shown = read.found[: filters.size]
    said = [each for each in shown if _says(each.value, filters.q)]
    exact = _exactly(said) if filters.by == "subject" else said
    rows = [_tally(filters.by, each, cap=read.of_each) for each in exact]
    return Tallies(
        rows=rows,
        next=_cursor(shown[-1], filters) if len(read.found) > filters.size else None,
        looked_at=read.looked_at,
        of_each=read.of_each if any(row.is_capped for row in rows) else None,
        among=read.among,
    )


def _says(value: str, text: str) -> bool:
    """Say whether a value contains a text as it is shown: what is masked is not found."""
    return not text or text.lower() in mask_text(value).lower()


_LONG_AGO = datetime(1, 1, 2, tzinfo=UTC)
_PLACES: Mapping[str, Callable[[_Found], _Place]] = {
    "last_seen": lambda each: (each.newest_at or _LONG_AGO, each.key),
    "open": lambda each: (each.open, each.key),
    "total": lambda each: (each.total, each.key),
}


def _cursor(last: _Found, filters: GroupFilter) -> Cursor | CountCursor:
    at, key = _PLACES[filters.sort](last)
    return Cursor(at=at, id=key) if isinstance(at, datetime) else CountCursor(count=at, id=key)


def _after(filters: GroupFilter) -> _Place | None:
    match filters.after:
        case Cursor(at=at, id=key):
            return at, key
        case CountCursor(count=n, id=key):
            return n, key
    return None


def _page(found: Iterable[_Found], filters: GroupFilter) -> Sequence[_Found]:
    """Put values in order and return those of the page, and one more."""
    place_of: Callable[[_Found], Any] = _PLACES[filters.sort]
    after: Any = _after(filters)
    said = (each for each in found if _says(each.value, filters.q))
    later = (each for each in said if after is None or place_of(each) < after)
    return sorted(later, key=place_of, reverse=True)[: filters.size + 1]


_VALUE = {"type": f"left(l.message_type, {TYPE_PREFIX})", "reason": "l.failure_reason"}
_ARRAY = {"type": "text[]", "reason": "int[]"}

_STEPS = """
WITH RECURSIVE steps AS (
    (SELECT {value} AS value FROM wh_dead_letters l WHERE l.superseded_by IS NULL ORDER BY {value} LIMIT 1)
    UNION ALL
    SELECT (SELECT {value} FROM wh_dead_letters l
             WHERE l.superseded_by IS NULL AND {value} > s.value ORDER BY {value} LIMIT 1)
      FROM steps s WHERE s.value IS NOT NULL
), known AS (SELECT s.value FROM steps s WHERE s.value IS NOT NULL LIMIT %(values)s)
SELECT k.value, 0, 0, n.dead_lettered_at, NULL
  FROM known k
 CROSS JOIN LATERAL (
       SELECT l.dead_lettered_at FROM wh_dead_letters l WHERE {value} = k.value AND l.superseded_by IS NULL
        ORDER BY l.dead_lettered_at DESC, l.dead_letter_id DESC LIMIT 1) n
"""
"""The values of an index, found by stepping through it, each with its newest letter."""

_COUNTS = """
SELECT k.value, n.open, n.total, n.newest_at, o.dead_lettered_at
  FROM unnest(%(values)s::{array}) k (value)
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
    """Order by time before anything is counted; by number only those that died last, for each has to be counted."""
    rows = _rows(_STEPS.format(value=_VALUE[filters.by]), values=STEPPED + 1)
    last = sorted(rows[:STEPPED], key=lambda row: row[3], reverse=True)
    if filters.sort != "last_seen":
        counted = _counted(filters.by, [value for value, *_ in last[:RANKED]])
        return _Read(found=_page(counted, filters), of_each=OF_EACH, among=RANKED if len(last) > RANKED else None)
    raw = {_text(filters.by, row[0]): row[0] for row in last}
    shown = _page((_found(filters.by, row) for row in last), filters)
    counted = _counted(filters.by, [raw[each.value] for each in shown])
    return _Read(found=_page(counted, filters), of_each=OF_EACH, among=STEPPED if len(rows) > STEPPED else None)


def _counted(by: str, values: Sequence[Any]) -> Sequence[_Found]:
    sql = _COUNTS.format(value=_VALUE[by], array=_ARRAY[by])
    return [_found(by, row) for row in _rows(sql, values=list(values), of_each=OF_EACH + 1)]


_COLUMN = {"destination": "l.destination", "stream": "l.stream_id", "build": "l.generation"}

_NEWEST = """
WITH newest AS MATERIALIZED (
    SELECT coalesce({column}::text, '') AS value, l.recovery_status, l.dead_lettered_at FROM wh_dead_letters l
     WHERE l.superseded_by IS NULL ORDER BY l.dead_lettered_at DESC, l.dead_letter_id DESC LIMIT %(newest)s
), known AS (
    SELECT n.value, count(*) FILTER (WHERE n.recovery_status = 0) AS open, count(*) AS total,
           max(n.dead_lettered_at) AS last_seen, min(n.dead_lettered_at) AS oldest, md5(n.value)::uuid AS key
      FROM newest n WHERE %(q)s = '' OR strpos(lower(n.value), %(q)s) > 0
     GROUP BY n.value)
SELECT k.value, k.open, k.total, k.last_seen, k.oldest, (SELECT count(*) FROM newest)
  FROM known k
 WHERE %(at)s::{kind} IS NULL OR (k.{sort}, k.key) < (%(at)s::{kind}, %(key)s::uuid)
 ORDER BY k.{sort} DESC, k.key DESC LIMIT %(limit)s
"""
_KIND = {"last_seen": "timestamptz", "open": "bigint", "total": "bigint"}


def _in_newest(filters: GroupFilter) -> _Read:
    sql = _NEWEST.format(column=_COLUMN[filters.by], sort=filters.sort, kind=_KIND[filters.sort])
    rows = _rows(sql, newest=NEWEST, **_wanted(filters))
    is_cut = bool(rows) and rows[0][5] >= NEWEST
    return _Read(found=[_found(filters.by, row[:5]) for row in rows], looked_at=NEWEST if is_cut else None)


_SUBJECTS = """
WITH most AS MATERIALIZED (
    SELECT c.subject_key AS key, c.type, c.id, c.n AS open, c.last_seen_at AS last_seen FROM subject_counts c
     WHERE c.recovery_status = 0 AND c.n > 0 ORDER BY c.n DESC LIMIT %(most)s
), known AS (
    SELECT m.*, {total} AS total FROM most m
     WHERE %(q)s = '' OR strpos(lower(m.type || ':' || m.id), %(q)s) > 0)
SELECT k.key, k.type, k.id, k.open, k.total, k.last_seen, (SELECT count(*) FROM most)
  FROM known k
 WHERE %(at)s::{kind} IS NULL OR (k.{sort}, k.key) < (%(at)s::{kind}, %(key)s::uuid)
 ORDER BY k.{sort} DESC, k.key DESC LIMIT %(limit)s
"""
_OF_ALL_STATES = "(SELECT sum(s.n)::bigint FROM subject_counts s WHERE s.subject_key = m.key)"


def _of_subjects(filters: GroupFilter) -> _Read:
    """Take the subjects that most open letters are about, in order as far as their counts are folded."""
    total = _OF_ALL_STATES if filters.sort == "total" else "0::bigint"
    sql = _SUBJECTS.format(sort=filters.sort, kind=_KIND[filters.sort], total=total)
    rows = _rows(sql, most=SUBJECTS + 1, **_wanted(filters))
    found = [
        _Found(value=f"{of}:{name}", subject=(of, name), key=key, open=n, total=total, newest_at=seen_at)
        for key, of, name, n, total, seen_at, _ in rows
    ]
    return _Read(found=found, among=SUBJECTS if rows and rows[0][6] > SUBJECTS else None)


def _exactly(found: Sequence[_Found]) -> Sequence[_Found]:
    """Return subjects with their numbers, those that are not folded among them."""
    numbers = counts.of_subjects(each.key for each in found)
    known = [(each, numbers.get(each.key, {})) for each in found]
    return [replace(each, open=n.get(OPEN, 0), total=sum(n.values())) for each, n in known]


def _wanted(filters: GroupFilter) -> dict[str, Any]:
    at, key = _after(filters) or (None, None)
    return {"q": filters.q.lower(), "at": at, "key": key, "limit": filters.size + 1}


def _rows(sql: str, **parameters: Any) -> Sequence[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall())


_READ: Mapping[str, Callable[[GroupFilter], _Read]] = {
    "type": _stepped,
    "reason": _stepped,
    "destination": _in_newest,
    "subject": _of_subjects,
    "stream": _in_newest,
    "build": _in_newest,
}
_NAMED = {"build": "generation"}
"""What the list's filter calls a grouping, where that is another word."""


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
        return LetterFilter.parse({_NAMED.get(by, by): value})
    except BadFilter:
        return None


def _found(by: str, row: Sequence[Any]) -> _Found:
    value, open_, total, newest_at, oldest_at = row
    text = _text(by, value)
    key = UUID(md5(text.encode(), usedforsecurity=False).hexdigest())
    return _Found(value=text, key=key, open=open_, total=total, newest_at=newest_at, oldest_at=oldest_at)


def _text(by: str, value: Any) -> str:
    return reason_name(value) if by == "reason" else str(value)
