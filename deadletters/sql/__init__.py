"""The SQL files of the dead letters, and how a snapshot of each work table is made and restored."""

from collections.abc import Mapping
from pathlib import Path

from queues.sql import WORK_TABLES

HERE = Path(__file__).parent

_ROW = [
    *("stream_id", "partition_number", "attempts", "instance_id", "lease_expiry", "scheduled_for", "processed_at"),
    *("priority", "position", "delays", "releases", "suspect", "life", "lease_token", "started_at", "max_attempts"),
    *("max_delays", "dead_letter_id", "recovery_item_id", "only_generation", "status", "failure_reason"),
]
_MESSAGE = [*_ROW, "scope", "is_event", "flags"]
KEPT: Mapping[str, list[str]] = {
    "wh_inbox": [
        *(*_MESSAGE, "handler_name", "received_at", "source_service_id", "source_commit_sequence"),
        "chain_emitted_at",
    ],
    "wh_outbox": [*_MESSAGE, "envelope_type", "created_at", "published_at"],
    "wh_perspective_events": [*_ROW, "event_id", "created_at", "claimed_at"],
}
"""The columns that `source_row` keeps; the others have columns of their own, are bodies, or are the failure."""


def _snapshot(columns: list[str]) -> str:
    # A row's columns are told to JSON at a third of what jsonb_build_object takes for as many names and values.
    names = ", ".join(f"g.{name}" for name in columns)
    return f"(SELECT to_jsonb(k) FROM (SELECT {names}) k)"  # noqa: S608 - columns of this module


_BODY = {
    "message_type": "g.message_type",
    "destination": "NULL::text",
    "perspective_name": "NULL::text",
    "envelope": "jsonb_build_object('event_data', g.event_data, 'metadata', g.metadata)",
    "metadata": "g.metadata",
    "envelope_raw": "g.envelope_raw",
    "from_event": "",
    "restore_raw": "l.envelope_raw",
    "holds": "false",
}
_METADATA = """CASE
           WHEN s.original_id IS NOT DISTINCT FROM l.original_id OR jsonb_typeof(l.metadata) <> 'object' THEN l.metadata
           WHEN s.original_id IS NULL THEN l.metadata - 'original_id'
           ELSE l.metadata || jsonb_build_object('original_id', s.original_id) END"""
_MESSAGE_BODY = {
    "body": "message_type, event_data, metadata",
    "body_values": f"l.message_type, coalesce(l.envelope -> 'event_data', 'null'::jsonb), {_METADATA}",
}

_OWN: Mapping[str, Mapping[str, str]] = {
    "wh_inbox": {
        **_BODY,
        **_MESSAGE_BODY,
        "defaults": "'is_event', false, 'status', 1, 'handler_name', '', 'received_at', p_now",
    },
    "wh_outbox": {
        **_BODY,
        "destination": "g.destination",
        "defaults": "'is_event', false, 'status', 1, 'created_at', p_now",
        "body": f"{_MESSAGE_BODY['body']}, destination",
        "body_values": f"{_MESSAGE_BODY['body_values']}, l.destination",
    },
    # The event's body is in the event store, for ever; the letter has a copy, to show and to search.
    "wh_perspective_events": {
        "message_type": "coalesce(b.event_type, 'perspective_event')",
        "destination": "NULL::text",
        "perspective_name": "g.perspective_name",
        "envelope": "jsonb_build_object('event_id', g.event_id, 'perspective_name', g.perspective_name, "
        "'event_data', b.event_data, 'metadata', b.metadata)",
        "metadata": "coalesce(b.metadata, '{}'::jsonb)",
        "envelope_raw": "b.envelope_raw",
        "from_event": " LEFT JOIN wh_event_store b ON b.event_id = g.event_id",
        "defaults": "'status', 0, 'created_at', p_now",
        "body": "perspective_name, event_id",
        "body_values": "l.perspective_name, coalesce(r.event_id, (l.envelope ->> 'event_id')::uuid)",
        "restore_raw": "NULL",
        "holds": "true",
    },
}

_ANEW = {
    *("stream_id", "attempts", "instance_id", "lease_expiry", "scheduled_for", "processed_at", "position", "delays"),
    *("releases", "suspect", "life", "lease_token", "started_at", "dead_letter_id", "recovery_item_id"),
    *("only_generation", "failure_reason", "event_id"),
}
"""What a recovered row gets anew, of the columns that its snapshot kept."""


def _kept(columns: list[str], prefix: str = "") -> str:
    return ", ".join(f"{prefix}{name}" for name in columns if name not in _ANEW)


SNAPSHOTS: Mapping[str, Mapping[str, str]] = {
    table: {
        **names,
        **_OWN[table],
        "snapshot": _snapshot(KEPT[table]),
        "kept": _kept(KEPT[table]),
        "kept_values": _kept(KEPT[table], "r."),
    }
    for table, names in WORK_TABLES.items()
}
"""How the work tables differ for the move and the recovery, as the files' `{{key}}` placeholders."""
