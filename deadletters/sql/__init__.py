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
    return "jsonb_build_object(" + ", ".join(f"'{name}', g.{name}" for name in columns) + ")"


_BODY = {
    "message_type": "g.message_type",
    "destination": "NULL::text",
    "perspective_name": "NULL::text",
    "envelope": "jsonb_build_object('event_data', g.event_data, 'metadata', g.metadata)",
    "metadata": "g.metadata",
    "envelope_raw": "g.envelope_raw",
    "from_event": "",
    "restore_raw": "p_letter.envelope_raw",
    "holds": "false",
}
_RESTORE = """v_row.message_type := p_letter.message_type;
    v_row.event_data := coalesce(p_letter.envelope -> 'event_data', 'null'::jsonb);
    v_row.metadata := p_letter.metadata;"""

_OWN: Mapping[str, Mapping[str, str]] = {
    "wh_inbox": {
        **_BODY,
        "defaults": "'is_event', false, 'status', 1, 'handler_name', '', 'received_at', p_now",
        "restore": _RESTORE,
    },
    "wh_outbox": {
        **_BODY,
        "destination": "g.destination",
        "defaults": "'is_event', false, 'status', 1, 'created_at', p_now",
        "restore": f"{_RESTORE}\n    v_row.destination := p_letter.destination;",
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
        "restore": "v_row.perspective_name := p_letter.perspective_name;\n"
        "    v_row.event_id := coalesce(v_row.event_id, (p_letter.envelope ->> 'event_id')::uuid);",
        "restore_raw": "NULL",
        "holds": "true",
    },
}

SNAPSHOTS: Mapping[str, Mapping[str, str]] = {
    table: {**names, **_OWN[table], "snapshot": _snapshot(KEPT[table])} for table, names in WORK_TABLES.items()
}
"""How the work tables differ for the move and the recovery, as the files' `{{key}}` placeholders."""
