"""How many letters a filter finds, and how many of them can be sent: of a table that counts them, or counted."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import connection
from django.db.models import Count, Q, QuerySet

from deadletters.models import DeadLetter, RecoveryStatus
from deadletters.queries import letters
from deadletters.queries.letterrows import Row
from deadletters.words.filters import STATUSES, LetterFilter

SENDABLE = (RecoveryStatus.PENDING, RecoveryStatus.HELD)
"""States of letters that a recovery can send."""
_SENDABLE = Q(recovery_status__in=SENDABLE)
AMONG = 1_000
"""Letters up to which those are counted that a recovery can send."""

_COUNTED = {"status", "source", "disposition"}
_TOTAL = """
SELECT coalesce(sum(n), 0)::bigint, coalesce(sum(n) FILTER (WHERE recovery_status IN (0, 2)), 0)::bigint
  FROM (SELECT source_table, recovery_status, operator_disposition, n FROM group_counts
        UNION ALL
        SELECT source_table, recovery_status, operator_disposition, n FROM group_deltas) c
 WHERE (%(status)s::int IS NULL OR recovery_status = %(status)s)
   AND (%(source)s::text IS NULL OR source_table = %(source)s)
   AND (%(disposition)s::int IS NULL OR operator_disposition = %(disposition)s)
"""


@dataclass(frozen=True, kw_only=True)
class Total:
    """How many letters match, and how many of them a recovery can send: the open and the held ones.

    is_capped: there are more than were counted. Not `is_sure`: as many can be sent at most.
    """

    n: int
    sendable: int
    is_capped: bool = False
    is_sure: bool = True

    @property
    def may_send(self) -> bool:
        """Whether any can be sent, as far as is known."""
        return self.sendable > 0


def total(filters: LetterFilter, *, now: datetime, exactly: bool = False) -> Total:
    """Return how many letters match: of a kept count, else of what is counted up to COUNT_CAP, or to the end."""
    known = counted(filters)
    if known is not None:
        return known
    parts = letters.matching(filters, now)
    if letters.is_looked_through(filters) and not exactly:
        return _looked_at(parts)
    n = sum(part.count() for part in parts) if exactly else letters.count_of(parts)
    sendable = _sendable(parts, filters, n)
    is_capped = not exactly and n > letters.COUNT_CAP
    return Total(n=n, sendable=n if sendable is None else sendable, is_capped=is_capped, is_sure=sendable is not None)


def _looked_at(parts: Iterable[QuerySet[DeadLetter]]) -> Total:
    """Count letters of which each is looked at anyway, with those that can be sent."""
    n, sendable = 0, 0
    for part in parts:
        statuses = part.values("recovery_status")[: letters.COUNT_CAP + 1 - n]
        found = statuses.aggregate(n=Count("*"), sendable=Count("recovery_status", filter=_SENDABLE))
        n, sendable = n + found["n"], sendable + found["sendable"]
    return Total(n=n, sendable=sendable, is_capped=n > letters.COUNT_CAP)


def _sendable(parts: Sequence[QuerySet[DeadLetter]], filters: LetterFilter, n: int) -> int | None:
    """Return how many of n letters can be sent: by their state, or where they are few by looking; None = not known.

    Counting needs no more than an index, while a look at the state of each is as dear as reading it.
    """
    if filters.status:
        return n if STATUSES[filters.status] in SENDABLE else 0
    if n > AMONG:
        return None
    return letters.count_of([part.filter(_SENDABLE) for part in parts], AMONG) if n else 0


_HAS_SOURCE = """
SELECT EXISTS (SELECT FROM group_counts WHERE source_table = %(source)s)
    OR EXISTS (SELECT FROM group_deltas WHERE source_table = %(source)s)
"""


def has_source(source_table: str) -> bool:
    """Say whether a letter of a source was ever counted."""
    with connection.cursor() as cursor:
        cursor.execute(_HAS_SOURCE, {"source": source_table})
        return bool(cursor.fetchone()[0])


def of_rows(rows: Iterable[Row]) -> Total:
    """Return the total of rows that are all that match."""
    return of_statuses(Counter(row.letter.recovery_status for row in rows))


def of_statuses(by_status: Mapping[int, int]) -> Total:
    """Return the total of letters that are counted by recovery status."""
    return Total(n=sum(by_status.values()), sendable=sum(by_status.get(status, 0) for status in SENDABLE))


def counted(filters: LetterFilter) -> Total | None:
    """Return how many letters a filter finds that names no more than a state, a source and a decision.

    None: of such letters no count is kept.
    """
    if filters.is_of_other_sources or not {name for name, _ in filters.parts()} <= _COUNTED:
        return None
    wanted = {
        "status": STATUSES.get(filters.status),
        "source": filters.source_table,
        "disposition": filters.disposition_number,
    }
    with connection.cursor() as cursor:
        cursor.execute(_TOTAL, wanted)
        n, sendable = cursor.fetchone()
        return Total(n=n, sendable=sendable)
