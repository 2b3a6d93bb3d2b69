"""Reads of subjects: what dead letters are about, and how many are about each.

Lists are ordered by open letters as far as the counts are folded; the numbers shown are exact.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Q, QuerySet
from django.db.models.functions import Left

from deadletters.models import RecoveryStatus, SubjectCount
from deadletters.queries import counts
from deadletters.words.filters import CountCursor, SubjectFilter

LOOKED_AT = 20_000
"""How many subjects, those with most open letters, are looked through for the beginning of an id."""

TYPE_PREFIX = 100
"""Characters of a subject's type that are indexed."""

MAX_TYPES = 50
TOP = 5

_STEPS = """
WITH RECURSIVE types AS (
    (SELECT left(type, %(prefix)s) AS type FROM subject_counts WHERE n > 0 ORDER BY left(type, %(prefix)s) LIMIT 1)
    UNION ALL
    SELECT (SELECT left(c.type, %(prefix)s) FROM subject_counts c
             WHERE c.n > 0 AND left(c.type, %(prefix)s) > t.type ORDER BY left(c.type, %(prefix)s) LIMIT 1)
      FROM types t WHERE t.type IS NOT NULL
)
"""
"""The types that letters are about, found by stepping through their index."""

TYPES = (
    _STEPS  # noqa: S608 - both are our own
    + """
SELECT top.subject_key, top.type, top.id
  FROM (SELECT type FROM types WHERE type IS NOT NULL LIMIT %(types)s) t
 CROSS JOIN LATERAL (
       SELECT c.subject_key, c.type, c.id, c.n FROM subject_counts c
        WHERE left(c.type, %(prefix)s) = t.type AND c.recovery_status = 0 AND c.n > 0
        ORDER BY c.n DESC LIMIT %(top)s) top
"""
)
"""The types that have open letters, each with its first subjects."""

_EXACT = (
    _STEPS  # noqa: S608 - both are our own
    + """
SELECT dead_letter_subject_key(t.type, %(id)s), t.type
  FROM (SELECT type FROM types WHERE type IS NOT NULL AND length(type) < %(prefix)s
         UNION SELECT %(type)s WHERE %(type)s <> '' LIMIT %(types)s) t
 WHERE %(type)s IN ('', t.type)
"""
)
"""The keys that a whole id has in each type."""


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

    A whole id comes first, and is found however few letters are about it.
    """
    found = _beginning(filters) if filters.q else _most(filters)
    shown = found[: filters.size]
    last = shown[-1] if len(found) > filters.size else None
    exact = [] if filters.after else _exact(filters)
    rows = _rows([*exact, *((key, kind, identity) for key, kind, identity, _ in shown)])
    return Page(
        rows=[row for row in rows if row.total],
        next=CountCursor(count=last[3], id=last[0]) if last else None,
        cut_short=bool(filters.q) and _of_type(filters.type)[LOOKED_AT : LOOKED_AT + 1].exists(),
    )


_Found = Sequence[tuple[UUID, str, str, int]]
"""Subjects as (key, type, id, number of open letters as far as that is folded)."""


def _most(filters: SubjectFilter) -> _Found:
    ordered = _after(_of_type(filters.type), filters.after).order_by("-n", "subject_key")
    return list(ordered.values_list("subject_key", "type", "id", "n")[: filters.size + 1])


_BEGINNING = """
SELECT t.subject_key, t.type, t.id, t.n
  FROM (SELECT c.subject_key, c.type, c.id, c.n FROM subject_counts c
         WHERE c.recovery_status = 0 AND c.n > 0
           AND (%(type)s = '' OR left(c.type, %(prefix)s) = left(%(type)s, %(prefix)s) AND c.type = %(type)s)
         ORDER BY c.n DESC LIMIT %(looked_at)s) t
 WHERE starts_with(t.id, %(q)s) AND t.id <> %(q)s
   AND (%(n)s::bigint IS NULL OR t.n < %(n)s OR t.n = %(n)s AND t.subject_key > %(key)s)
 ORDER BY t.n DESC, t.subject_key LIMIT %(limit)s
"""
"""Looked through in order, so that a page ends where it is full."""


def _beginning(filters: SubjectFilter) -> _Found:
    wanted: dict[str, Any] = {
        "type": filters.type,
        "q": filters.q,
        "n": filters.after.count if filters.after else None,
        "key": filters.after.id if filters.after else None,
        "prefix": TYPE_PREFIX,
        "looked_at": LOOKED_AT,
        "limit": filters.size + 1,
    }
    with connection.cursor() as cursor:
        cursor.execute(_BEGINNING, wanted)
        return [(UUID(str(key)), kind, identity, n) for key, kind, identity, n in cursor.fetchall()]


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


def _exact(filters: SubjectFilter) -> Sequence[tuple[UUID, str, str]]:
    """Return the subjects that have the text as their whole id, of all types or of one; of some no letter may be."""
    if not filters.q:
        return []
    limits = {"prefix": TYPE_PREFIX, "types": MAX_TYPES}
    with connection.cursor() as cursor:
        cursor.execute(_EXACT, {"id": filters.q, "type": filters.type, **limits})
        return [(UUID(str(key)), kind, filters.q) for key, kind in cursor.fetchall()]


def _rows(found: Iterable[tuple[UUID, str, str]]) -> Sequence[Row]:
    known = list(found)
    numbers = counts.of_subjects(key for key, _, _ in known)
    return [Row(key=key, type=kind, id=identity, by_status=numbers.get(key, {})) for key, kind, identity in known]
