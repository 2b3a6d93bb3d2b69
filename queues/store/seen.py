"""Ids that were chosen by senders and have been seen."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import connection

PAGE = 1_000


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One id, and when it was first seen."""

    first_seen_at: datetime
    message_id: UUID


_OLDER = """
SELECT first_seen_at, message_id FROM wh_message_deduplication
 WHERE first_seen_at < clock_timestamp() - make_interval(days => %s) AND (first_seen_at, message_id) > (%s, %s)
 ORDER BY first_seen_at, message_id LIMIT %s
"""
_FORGET = """
DELETE FROM wh_message_deduplication d
 WHERE d.message_id = ANY (%s) AND NOT EXISTS (SELECT FROM wh_inbox w WHERE w.message_id = d.message_id)
"""


def older(days: int, *, after: Seen | None) -> list[Seen]:
    """Return a page of the ids seen more than `days` ago, oldest first, behind the one given."""
    start = ("-infinity", UUID(int=0)) if after is None else (after.first_seen_at, after.message_id)
    with connection.cursor() as cursor:
        cursor.execute(_OLDER, [days, *start, PAGE])
        return [Seen(first_seen_at=at, message_id=message_id) for at, message_id in cursor.fetchall()]


def forget(message_ids: Sequence[UUID]) -> int:
    """Forget those of the ids that no message of the inbox has; return how many."""
    with connection.cursor() as cursor:
        cursor.execute(_FORGET, [list(message_ids)])
        return int(cursor.rowcount)
