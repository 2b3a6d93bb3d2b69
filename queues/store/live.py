"""What an operator does to waiting messages and their streams. Every function is one statement of `queues/sql`."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from django.db import connection

from queues.words.sources import STOPPED_UNTIL

MAX_STREAMS_WOKEN = 10_000
"""Streams that a resumed pause lets drainers look at at once; the others follow within half a minute."""


class Stopped(StrEnum):
    """What `stop` did. REVOKED: it was claimed, and the claim's work is rolled back when it reports."""

    STOPPED = "stopped"
    REVOKED = "revoked"
    ALREADY = "already"


class Started(StrEnum):
    """What `run_now` did; WAITING (it was due) and IN_FLIGHT changed nothing."""

    DUE = "due"
    WAITING = "waiting"
    IN_FLIGHT = "in_flight"


def stop(source: str, message_id: UUID) -> Stopped | None:
    """Park a message until it is started by hand, and revoke a claim of it; None = there is no such message.

    Locks its stream and its row for the caller's transaction. Source: `sql/live_v1.sql`.
    """
    code = _value(f"SELECT stop_{source}(%s, %s)", [message_id, STOPPED_UNTIL])
    return None if code is None else Stopped(code)


def run_now(source: str, message_id: UUID) -> Started | None:
    """Make a message due now; None = there is no such message.

    Locks its stream and its row for the caller's transaction. Source: `sql/live_v1.sql`.
    """
    code = _value(f"SELECT run_now_{source}(%s)", [message_id])
    return None if code is None else Started(code)


def lock_stream_of(source: str, message_id: UUID) -> None:
    """Lock the stream of a message, if it has one, for the caller's transaction."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT FROM lock_stream_of_{source}(%s)", [message_id])


def let_stream_go(queue: str, stream_id: UUID) -> bool:
    """Let a stream go on that a dead letter holds; False = none does. Source: `sql/streams_v1.sql`."""
    return bool(_value("SELECT let_stream_go(%s, %s)", [queue, stream_id]))


def look_again(queues: Sequence[str], until: datetime | None = None) -> int:
    """Make streams due that claims put off because of a pause, or until a time at most; return how many.

    Source: `sql/pauses_v1.sql`.
    """
    arguments = [list(queues), until, MAX_STREAMS_WOKEN]
    return int(_value("SELECT look_again_at_streams(%s, %s, %s)", arguments))


def clock() -> datetime:
    """Return the time of the database, which decides what is due and whose lease has run out."""
    now: datetime = _value("SELECT clock_timestamp()", [])
    return now


def _value(statement: str, arguments: Sequence[Any]) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(statement, arguments)
        return cursor.fetchone()[0]


_BEHIND = """
SELECT k.queue, k.stream_id, b.n
  FROM unnest(%s::text[], %s::uuid[]) AS k(queue, stream_id)
 CROSS JOIN LATERAL (
       SELECT count(*) AS n FROM (
           (SELECT 1 FROM wh_inbox w
             WHERE k.queue = 'wh_inbox' AND w.stream_id = k.stream_id AND w.processed_at IS NULL LIMIT %s)
           UNION ALL
           (SELECT 1 FROM wh_outbox w
             WHERE k.queue = 'wh_outbox' AND w.stream_id = k.stream_id AND w.processed_at IS NULL LIMIT %s)
           UNION ALL
           (SELECT 1 FROM wh_perspective_events w
             WHERE w.perspective_name = substr(k.queue, length('wh_perspective_events:') + 1)
               AND k.queue LIKE 'wh_perspective_events:%%' AND w.stream_id = k.stream_id AND w.processed_at IS NULL
             LIMIT %s)) rows) b
"""


def rows_behind(streams: Sequence[tuple[str, UUID]], limit: int) -> dict[tuple[str, UUID], int]:
    """Return how many messages wait in each stream, counted up to `limit`; streams are (queue, id)."""
    if not streams:
        return {}
    queues, ids = zip(*streams, strict=True)
    with connection.cursor() as cursor:
        cursor.execute(_BEHIND, [list(queues), list(ids), limit, limit, limit])
        return {(queue, stream_id): n for queue, stream_id, n in cursor.fetchall()}
