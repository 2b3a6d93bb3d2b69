"""Reads of what the schedule recovered lately."""

from collections.abc import Sequence
from datetime import datetime

from django.db import connection

from deadletters.words.policies import BREAKER_SCANS, BREAKER_TIME, Scan


def latest_scans(*, before: datetime) -> Sequence[Scan]:
    """Return the latest scans that recovered something by a policy and began before a time, the latest first.

    The runs of one scan share the time at which it began.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT r.starts_at, sum(jsonb_array_length(r.scope -> 'letters')), sum(r.fresh_count) FROM recovery_runs r"
            " WHERE r.kind = 'schedule' AND r.fresh_count IS NOT NULL AND r.created_at > %s AND r.starts_at < %s"
            " GROUP BY r.starts_at ORDER BY r.starts_at DESC LIMIT %s",
            [before - 2 * BREAKER_TIME, before, BREAKER_SCANS],
        )
        return [Scan(began_at=began_at, letters=letters, fresh=fresh) for began_at, letters, fresh in cursor.fetchall()]
