"""Events appended, subscriptions, and cursors of perspectives."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import connection

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


_ADVANCE = """
INSERT INTO wh_perspective_cursors AS c (stream_id, perspective_name, last_event_id, version, processed_at)
VALUES (%s, %s, %s, %s, clock_timestamp())
ON CONFLICT (stream_id, perspective_name) DO UPDATE
   SET last_event_id = excluded.last_event_id, version = excluded.version, processed_at = excluded.processed_at
 WHERE c.version < excluded.version
"""


def advance(perspective: str, stream_id: UUID, *, event_id: UUID, version: int) -> bool:
    """Move the cursor on to an event, and lock it; False = it is there already, or beyond."""
    with connection.cursor() as cursor:
        cursor.execute(_ADVANCE, [stream_id, perspective, event_id, version])
        return bool(cursor.rowcount)


def cursor(perspective: str, stream_id: UUID) -> int:
    """Return the version that the perspective is at; 0 = it has applied nothing of the stream."""
    with connection.cursor() as statement:
        statement.execute(
            "SELECT version FROM wh_perspective_cursors WHERE stream_id = %s AND perspective_name = %s",
            [stream_id, perspective],
        )
        row = statement.fetchone()
        return row[0] if row else 0


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
