"""Bodies of claimed rows, fetched as text: nothing is parsed here."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import connection

from queues.words.sources import INBOX, OUTBOX, PERSPECTIVES


@dataclass(frozen=True, kw_only=True)
class Body:
    """The body of one row. `message_type` None: the event that the row names is not in the event store.

    `destination` is an outbox message's; `event_id` and `version` are an event's.
    """

    event_data: str
    metadata: str
    envelope_raw: bytes | None
    sent_at: datetime
    error: str | None
    failure_detail: str | None
    message_type: str | None
    destination: str | None
    event_id: UUID | None
    version: int | None


_READS = {
    INBOX: """
        SELECT message_id, event_data::text, metadata::text, envelope_raw, received_at, error, failure_detail::text,
               message_type, NULL::text, NULL::uuid, NULL::integer
          FROM wh_inbox WHERE message_id = ANY (%s)
    """,
    OUTBOX: """
        SELECT message_id, event_data::text, metadata::text, envelope_raw, created_at, error, failure_detail::text,
               message_type, destination, NULL::uuid, NULL::integer
          FROM wh_outbox WHERE message_id = ANY (%s)
    """,
    PERSPECTIVES: """
        SELECT w.event_work_id, coalesce(e.event_data::text, ''), coalesce(e.metadata::text, '{}'), e.envelope_raw,
               coalesce(e.created_at, w.created_at), w.error, w.failure_detail::text, e.event_type, NULL::text,
               w.event_id, e.version
          FROM wh_perspective_events w LEFT JOIN wh_event_store e ON e.event_id = w.event_id
         WHERE w.event_work_id = ANY (%s)
    """,
}


def bodies(source: str, message_ids: Sequence[UUID]) -> dict[UUID, Body]:
    """Return the bodies of the rows that still exist."""
    with connection.cursor() as cursor:
        cursor.execute(_READS[source], [list(message_ids)])
        return {row[0]: _body(*row[1:]) for row in cursor.fetchall()}


def _body(
    event_data: str,
    metadata: str,
    raw: memoryview | None,
    sent_at: datetime,
    error: str | None,
    failure_detail: str | None,
    message_type: str | None,
    destination: str | None,
    event_id: UUID | None,
    version: int | None,
) -> Body:
    return Body(
        event_data=event_data,
        metadata=metadata,
        envelope_raw=None if raw is None else bytes(raw),
        sent_at=sent_at,
        error=error,
        failure_detail=failure_detail,
        message_type=message_type,
        destination=destination,
        event_id=event_id,
        version=version,
    )
