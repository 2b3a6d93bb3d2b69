"""Reads of subjects: what dead letters are about, and how many are about each.

Lists are ordered by open letters as far as the counts are folded; the numbers shown are exact.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import connection
from django.db.models import Q, QuerySet
from django.db.models.functions import Left

from deadletters.models import DeadLetter, RecoveryStatus, SubjectCount
from deadletters.queries import counts, letters, timeline
from deadletters.queries.letters import subject_key
from deadletters.words.filters import CountCursor, Cursor, SubjectFilter

LOOKED_AT = 20_000
"""How many subjects, those with most open letters, are looked through for the beginning of an id."""

TYPE_PREFIX = 100
"""Characters of a subject's type that are indexed."""

MAX_TYPES = 50
TOP = 5
LETTERS = 50
RECENT = 200
"""How many of a subject's newest letters its streams and deaths are taken from."""

TYPES = """
WITH RECURSIVE types AS (
    (SELECT left(type, %(prefix)s) AS type FROM subject_counts WHERE n > 0 ORDER BY left(type, %(prefix)s) LIMIT 1)
    UNION ALL
    SELECT (SELECT left(c.type, %(prefix)s) FROM subject_counts c
             WHERE c.n > 0 AND left(c.type, %(prefix)s) > t.type ORDER BY left(c.type, %(prefix)s) LIMIT 1)
      FROM types t WHERE t.type IS NOT NULL
)
SELECT top.subject_key, top.type, top.id
  FROM (SELECT type FROM types WHERE type IS NOT NULL LIMIT %(types)s) t
 CROSS JOIN LATERAL (
       SELECT c.subject_key, c.type, c.id, c.n FROM subject_counts c
        WHERE left(c.type, %(prefix)s) = t.type AND c.recovery_status = 0 AND c.n > 0
        ORDER BY c.n DESC LIMIT %(top)s) top
"""
"""The types that have open letters, found by stepping through their index, each with its first subjects."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One subject with the number of letters about it, by recovery status; what is 0 is missing."""

    key: UUID
    type: str
    id: str
    by_status: Mapping[int, int]

    @property
    def open(self) -> int:
        return self.by_status.get(RecoveryStatus.PENDING, 0)

    @property
    def total(self) -> int:
        return sum(self.by_status.values())


@dataclass(frozen=True, kw_only=True)
class TopOfType:
    """A type of subjects with those that most open letters are about."""

    type: str
    rows: Sequence[Row]


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page of the list. `cut_short`: only LOOKED_AT subjects were looked through."""

    rows: Sequence[Row]
    next: CountCursor | None
    cut_short: bool


@dataclass(frozen=True, kw_only=True)
class Subject:
    """One subject: its counts, a page of the letters about it, and what is seen in the newest of them."""

    row: Row
    letters: Sequence[letters.Row]
    next: Cursor | None
    streams: Sequence[tuple[UUID, int]]
    deaths: timeline.Timeline


def top_of_types() -> Sequence[TopOfType]:
    """Return up to MAX_TYPES types in use with their TOP subjects, the type with most open letters about one first."""
    with connection.cursor() as cursor:
        cursor.execute(TYPES, {"prefix": TYPE_PREFIX, "types": MAX_TYPES, "top": TOP})
        found = [(UUID(str(key)), kind, identity) for key, kind, identity in cursor.fetchall()]
    rows: dict[str, list[Row]] = {}
    for row in _rows(found):
        rows.setdefault(row.type, []).append(row)
    types = [TopOfType(type=kind, rows=found_rows) for kind, found_rows in rows.items()]
    return sorted(types, key=lambda of_type: (-max(row.open for row in of_type.rows), of_type.type))


def page(filters: SubjectFilter) -> Page:
    """Return the subjects of a type or with ids that begin with a text, most open letters first.

    A whole id of a given type is found however few letters are about it.
    """
    matching = _matching(filters)
    ordered = _after(matching, filters.after).order_by("-n", "subject_key")[: filters.size + 1]
    found = list(ordered.values_list("subject_key", "type", "id", "n"))
    shown = found[: filters.size]
    last = shown[-1] if len(found) > filters.size else None
    rows = _rows([(key, kind, identity) for key, kind, identity, _ in shown])
    return Page(
        rows=[*_exactly(filters, rows), *rows],
        next=CountCursor(count=last[3], id=last[0]) if last else None,
        cut_short=bool(filters.q) and _of_type(filters.type)[LOOKED_AT : LOOKED_AT + 1].exists(),
    )


def get(kind: str, identity: str, after: Cursor | None = None) -> Subject:
    """Return a subject, with nothing in it if no letter is about it."""
    (row,) = _rows([(subject_key(kind, identity), kind, identity)])
    recent = letters.newest_about(kind, identity, RECENT, after)
    shown = recent[:LETTERS]
    ids = [found.letter.dead_letter_id for found in recent]
    return Subject(
        row=row,
        letters=shown,
        next=letters.place_of(shown[-1]) if len(recent) > LETTERS else None,
        streams=_streams(ids),
        deaths=timeline.of_deaths(ids),
    )


def _matching(filters: SubjectFilter) -> QuerySet[SubjectCount]:
    subjects = _of_type(filters.type)
    if not filters.q:
        return subjects
    most = subjects.order_by("-n").values("subject_key")[:LOOKED_AT]
    return _open().filter(subject_key__in=most, id__startswith=filters.q)


def _of_type(kind: str) -> QuerySet[SubjectCount]:
    if not kind:
        return _open()
    prefixed = _open().annotate(type_prefix=Left("type", TYPE_PREFIX))
    return prefixed.filter(type_prefix=kind[:TYPE_PREFIX], type=kind)


def _open() -> QuerySet[SubjectCount]:
    return SubjectCount.objects.filter(recovery_status=RecoveryStatus.PENDING, n__gt=0)


def _after(subjects: QuerySet[SubjectCount], cursor: CountCursor | None) -> QuerySet[SubjectCount]:
    if cursor is None:
        return subjects
    later = Q(n=cursor.count, subject_key__gt=cursor.id) | Q(n__lt=cursor.count)
    return subjects.filter(later, n__lte=cursor.count)


def _exactly(filters: SubjectFilter, rows: Sequence[Row]) -> Sequence[Row]:
    if not (filters.type and filters.q) or filters.after:
        return []
    found = _rows([(subject_key(filters.type, filters.q), filters.type, filters.q)])
    return [row for row in found if row.total and row.key not in {shown.key for shown in rows}]


def _rows(found: Iterable[tuple[UUID, str, str]]) -> Sequence[Row]:
    known = list(found)
    numbers = counts.of_subjects(key for key, _, _ in known)
    return [Row(key=key, type=kind, id=identity, by_status=numbers.get(key, {})) for key, kind, identity in known]


def _streams(letter_ids: Sequence[UUID]) -> Sequence[tuple[UUID, int]]:
    """Return the streams of letters with how many are of each, most first."""
    streams = DeadLetter.objects.filter(pk__in=letter_ids).values_list("stream_id", flat=True)
    return Counter(stream for stream in streams if stream is not None).most_common(20)
