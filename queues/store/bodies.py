"""Bodies of claimed rows, fetched as text: nothing is parsed here."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection

from queues.words.sources import INBOX, OUTBOX, PERSPECTIVES


@dataclass(frozen=True, kw_only=True)
class Body:
    """The body of one row. `message_type` None: the event that the row names is not in the event store.

    `destination`, `scope`, `is_event`, `flags` and `waited` are an outbox message's: it has waited since it was
    made, or since its destination went away. `event_id` and `version` are an event's.
    """

    event_data: str
    metadata: str
    envelope_raw: bytes | None
    sent_at: datetime
    error: str | None
    failure_detail: str | None
    message_type: str | None
    destination: str | None = None
    scope: str | None = None
    is_event: bool = False
    flags: int | None = None
    waited: timedelta = timedelta(0)
    event_id: UUID | None = None
    version: int | None = None


_READS = {
    INBOX: """
        SELECT message_id, event_data::text, metadata::text, envelope_raw, received_at AS sent_at, error,
               failure_detail::text, message_type
          FROM wh_inbox WHERE message_id = ANY (%s)
    """,
    OUTBOX: """
        SELECT o.message_id, o.event_data::text, o.metadata::text, o.envelope_raw, o.created_at AS sent_at, o.error,
               o.failure_detail::text, o.message_type, o.destination, o.scope::text, o.is_event, o.flags,
               clock_timestamp() - greatest(o.created_at, d.opened_at) AS waited
          FROM wh_outbox o LEFT JOIN destination_circuits d ON d.name = o.destination
         WHERE o.message_id = ANY (%s)
    """,
    PERSPECTIVES: """
        SELECT w.event_work_id AS message_id, coalesce(e.event_data::text, '') AS event_data,
               coalesce(e.metadata::text, '{}') AS metadata, e.envelope_raw,
               coalesce(e.created_at, w.created_at) AS sent_at, w.error, w.failure_detail::text,
               e.event_type AS message_type, w.event_id, e.version
          FROM wh_perspective_events w LEFT JOIN wh_event_store e ON e.event_id = w.event_id
         WHERE w.event_work_id = ANY (%s)
    """,
}


def bodies(source: str, message_ids: Sequence[UUID]) -> dict[UUID, Body]:
    """Return the bodies of the rows that still exist."""
    with connection.cursor() as cursor:
        cursor.execute(_READS[source], [list(message_ids)])
        names = [column.name for column in cursor.description or ()]
        return dict(_body(dict(zip(names, row, strict=True))) for row in cursor.fetchall())


def _body(columns: dict[str, Any]) -> tuple[UUID, Body]:
    message_id, raw = columns.pop("message_id"), columns.pop("envelope_raw")
    return message_id, Body(**columns, envelope_raw=None if raw is None else bytes(raw))
