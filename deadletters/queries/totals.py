"""How many letters a filter finds, exactly, out of the tables that count them; not every filter has one."""

from collections.abc import Mapping
from dataclasses import dataclass

from django.db import connection

from deadletters.models import RecoveryStatus
from deadletters.words.filters import STATUSES, LetterFilter

SENDABLE = (RecoveryStatus.PENDING, RecoveryStatus.HELD)
"""States of letters that a recovery can send."""
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

    is_capped: there are more than were counted.
    """

    n: int
    sendable: int
    is_capped: bool = False

    @property
    def may_send(self) -> bool:
        """Whether any can be sent, as far as is known."""
        return self.is_capped or self.sendable > 0


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
