"""Bodies of claimed rows, fetched as text: nothing is parsed here."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from django.db import connection

from queues.store.arrays import uuids
from queues.words.sources import INBOX, OUTBOX, PERSPECTIVES


class Body(NamedTuple):
    """The body of one row; a tuple of the columns that are read, since each message makes one.

    `message_type` None: the event that the row names is not in the event store. `event_id` and `version` are an
    event's, `cursor` is the version that its perspective is at. `destination`, `scope`, `is_event`, `flags` and
    `waited` are an outbox message's: it has waited since it was made, or since its destination went away. `sent_at` is
    UTC and does not say so: Django reads a zone in Python.
    """

    event_data: str
    metadata: str
    envelope_raw: bytes | None
    sent_at: datetime
    error: str | None
    failure_detail: str | None
    message_type: str | None
    event_id: UUID | None = None
    version: int | None = None
    cursor: int = 0
    destination: str | None = None
    scope: str | None = None
    is_event: bool = False
    flags: int | None = None
    waited: timedelta = timedelta(0)


_READS = {
    INBOX: """
        SELECT message_id, event_data::text, metadata::text, envelope_raw, received_at AT TIME ZONE 'UTC' AS sent_at,
               error, failure_detail::text, message_type
          FROM wh_inbox WHERE message_id = ANY ((SELECT %s)::uuid[])
    """,
    OUTBOX: """
        SELECT o.message_id, o.event_data::text, o.metadata::text, o.envelope_raw,
               o.created_at AT TIME ZONE 'UTC' AS sent_at, o.error, o.failure_detail::text, o.message_type,
               NULL::uuid AS event_id, NULL::integer AS version, 0 AS cursor,
               o.destination, o.scope::text, o.is_event, o.flags,
               clock_timestamp() - greatest(o.created_at, d.opened_at) AS waited
          FROM wh_outbox o LEFT JOIN destination_circuits d ON d.name = o.destination
         WHERE o.message_id = ANY ((SELECT %s)::uuid[])
    """,
    PERSPECTIVES: """
        SELECT w.event_work_id AS message_id, coalesce(e.event_data::text, '') AS event_data,
               coalesce(e.metadata::text, '{}') AS metadata, e.envelope_raw,
               coalesce(e.created_at, w.created_at) AT TIME ZONE 'UTC' AS sent_at, w.error, w.failure_detail::text,
               e.event_type AS message_type, w.event_id, e.version, coalesce(c.version, 0) AS cursor
          FROM wh_perspective_events w LEFT JOIN wh_event_store e ON e.event_id = w.event_id
          LEFT JOIN wh_perspective_cursors c ON c.stream_id = w.stream_id AND c.perspective_name = w.perspective_name
         WHERE w.event_work_id = ANY ((SELECT %s)::uuid[])
    """,
}


def bodies(source: str, message_ids: Sequence[UUID]) -> dict[UUID, Body]:
    """Return the bodies of the rows that still exist."""
    with connection.cursor() as cursor:
        cursor.execute(_READS[source], [uuids(message_ids)])
        return {message_id: Body(*columns) for message_id, *columns in cursor.fetchall()}
