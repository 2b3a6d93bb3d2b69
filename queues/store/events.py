"""Events appended, subscriptions, and cursors of perspectives."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from django.db import connection

from queues.store.arrays import uuids
from queues.store.messages import Row


def append(row: Row, expected_version: int | None) -> tuple[str, int]:
    """Append an event; return the result and the version, as `append_event` of `sql/events_v1.sql` says."""
    arguments = [
        *(row.message_id, row.stream_id, row.message_type, row.event_data, row.metadata),
        *(row.envelope_raw, row.envelope_bytes, expected_version),
    ]
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM append_event(%s, %s, %s, %s, %s, %s, %s, %s)", arguments)
        result, version = cursor.fetchone()
        return result, version


class Move(NamedTuple):
    """A perspective's cursor, from a version to that of an event; a tuple, since each event makes one."""

    stream_id: UUID
    event_id: UUID
    at: int
    version: int


def advance(perspective: str, moves: Collection[Move]) -> bool:
    """Move the cursors of different streams; False = one of them is not where it was when its events were applied.

    Locks the cursors.
    """
    if not moves:
        return True
    streams, event_ids = uuids(move.stream_id for move in moves), uuids(move.event_id for move in moves)
    versions = [move.at for move in moves], [move.version for move in moves]
    with connection.cursor() as cursor:
        cursor.execute("SELECT move_cursors(%s, %s, %s, %s, %s)", [perspective, streams, event_ids, *versions])
        return int(cursor.fetchone()[0]) == len(moves)


@dataclass(frozen=True, kw_only=True)
class Event:
    """One stored event; its bodies as text."""

    event_id: UUID
    event_type: str
    event_data: str
    metadata: str
    envelope_raw: bytes | None
    version: int
    created_at: datetime


_READ = """
SELECT event_id, event_type, event_data::text, metadata::text, envelope_raw, version, created_at
  FROM wh_event_store WHERE stream_id = %s AND version > %s AND version <= %s AND event_type = ANY (%s)
 ORDER BY version LIMIT 100
"""


def read(stream_id: UUID, *, up_to: int, types: Sequence[str]) -> Iterator[Event]:
    """Yield the stream's events of these types in order, up to a version; a hundred bodies are held at once."""
    after = 0
    while rows := _page(stream_id, after, up_to, types):
        yield from rows
        after = rows[-1].version


def _page(stream_id: UUID, after: int, up_to: int, types: Sequence[str]) -> list[Event]:
    with connection.cursor() as cursor:
        cursor.execute(_READ, [stream_id, after, up_to, list(types)])
        names = [column.name for column in cursor.description]
        return [Event(**dict(zip(names, row, strict=True))) for row in cursor.fetchall()]


_SUBSCRIBE = """
INSERT INTO perspective_subscriptions (perspective_name, event_type)
SELECT k.perspective, k.event
  FROM unnest(%s::text[], %s::text[]) AS k(perspective, event)
 WHERE NOT EXISTS (SELECT FROM perspective_subscriptions s
                    WHERE s.event_type = k.event AND s.perspective_name = k.perspective)
 ORDER BY k.event, k.perspective
ON CONFLICT (event_type, perspective_name) DO NOTHING
"""


def subscribe(known: Sequence[tuple[str, str]]) -> int:
    """Add the (perspective, event type) pairs that are missing; return how many there were."""
    if not known:
        return 0
    perspectives, event_types = zip(*known, strict=True)
    with connection.cursor() as cursor:
        cursor.execute(_SUBSCRIBE, [list(perspectives), list(event_types)])
        return int(cursor.rowcount)
