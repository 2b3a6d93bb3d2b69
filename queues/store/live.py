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


def let_stream_go(queue: str, stream_id: UUID) -> bool:
    """Let a stream go on that a dead letter holds; False = none does. Source: `sql/streams_v1.sql`."""
    return bool(_value("SELECT let_stream_go(%s, %s)", [queue, stream_id]))


def look_again(queues: Sequence[str]) -> int:
    """Make streams due that claims put off because of a pause; return how many. Source: `sql/pauses_v1.sql`."""
    return int(_value("SELECT look_again_at_streams(%s, %s)", [list(queues), MAX_STREAMS_WOKEN]))


def clock() -> datetime:
    """Return the time of the database, which decides what is due and whose lease has run out."""
    now: datetime = _value("SELECT clock_timestamp()", [])
    return now


def _value(statement: str, arguments: Sequence[Any]) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(statement, arguments)
        return cursor.fetchone()[0]
