"""New messages, written in the caller's transaction."""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import connection, transaction


@dataclass(frozen=True, kw_only=True)
class Row:
    """One message as it is stored; `chosen_id`: the sender chose the id, so it is remembered."""

    message_id: UUID
    chosen_id: bool
    message_type: str
    handler_name: str
    event_data: str
    metadata: str
    envelope_raw: bytes | None
    envelope_bytes: int
    stream_id: UUID | None
    delay: timedelta
    max_attempts: int | None
    max_delays: int | None
    scope: str | None = None
    is_event: bool = False
    flags: int | None = None


_REMEMBER = """
INSERT INTO wh_message_deduplication AS d (message_id) SELECT m FROM unnest(%s::uuid[]) AS m ORDER BY m
ON CONFLICT (message_id) DO UPDATE SET observation_count = d.observation_count + 1
RETURNING message_id, observation_count = 1
"""

_VALUES = """
SELECT m.message_id, m.message_type, m.event_data::jsonb, m.metadata::jsonb, decode(m.envelope_raw, 'base64'),
       m.envelope_bytes, m.stream_id, clock_timestamp() + m.delay_ms * interval '1 millisecond', m.max_attempts,
       m.max_delays, m.scope::jsonb, m.is_event, m.flags, m.{own}
  FROM ROWS FROM (jsonb_to_recordset(%s) AS (message_id uuid, message_type text, event_data text, metadata text,
       envelope_raw text, envelope_bytes integer, stream_id uuid, delay_ms bigint, max_attempts integer,
       max_delays integer, scope text, is_event boolean, flags integer, {own} text)) WITH ORDINALITY AS m
 ORDER BY m.ordinality
ON CONFLICT (message_id) DO NOTHING
RETURNING message_id
"""
_COLUMNS = (
    "message_id, message_type, event_data, metadata, envelope_raw, envelope_bytes, stream_id, scheduled_for, "
    "max_attempts, max_delays, scope, is_event, flags"
)
_TO_INBOX = f"INSERT INTO wh_inbox ({_COLUMNS}, handler_name) {_VALUES.format(own='handler_name')}"
_TO_OUTBOX = f"INSERT INTO wh_outbox ({_COLUMNS}, destination) {_VALUES.format(own='destination')}"


@transaction.atomic
def insert(rows: Sequence[Row]) -> set[UUID]:
    """Store messages in the inbox and return the ids that are new; an id seen before stores nothing."""
    fresh = remember([row.message_id for row in rows if row.chosen_id])
    new = [row for row in rows if not row.chosen_id or row.message_id in fresh]
    if not new:
        return set()
    return _insert(_TO_INBOX, [{**_json(row), "handler_name": row.handler_name} for row in new])


def insert_outgoing(row: Row, destination: str) -> bool:
    """Store a message in the outbox; False = one with its id waits there."""
    return bool(_insert(_TO_OUTBOX, [{**_json(row), "destination": destination}]))


def _insert(statement: str, rows: Sequence[Mapping[str, Any]]) -> set[UUID]:
    with connection.cursor() as cursor:
        cursor.execute(statement, [json.dumps(rows)])
        return {row[0] for row in cursor.fetchall()}


def remember(message_ids: Sequence[UUID]) -> set[UUID]:
    """Note the ids as seen, and return those that had not been."""
    if not message_ids:
        return set()
    with connection.cursor() as cursor:
        cursor.execute(_REMEMBER, [sorted(set(message_ids))])
        return {row[0] for row in cursor.fetchall() if row[1]}


def _json(row: Row) -> dict[str, Any]:
    return {
        "message_id": str(row.message_id),
        "message_type": row.message_type,
        "event_data": row.event_data,
        "metadata": row.metadata,
        "envelope_raw": None if row.envelope_raw is None else base64.b64encode(row.envelope_raw).decode("ascii"),
        "envelope_bytes": row.envelope_bytes,
        "stream_id": str(row.stream_id) if row.stream_id else None,
        "delay_ms": round(row.delay / timedelta(milliseconds=1)),
        "max_attempts": row.max_attempts,
        "max_delays": row.max_delays,
        "scope": row.scope,
        "is_event": row.is_event,
        "flags": row.flags,
    }
