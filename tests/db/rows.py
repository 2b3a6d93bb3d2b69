"""Rows of each source as another language's service writes them, and rows as they are."""

import json
import uuid

from django.db import connection

SOURCES = ("wh_inbox", "wh_outbox", "wh_perspective_events")
KEY = {"wh_inbox": "message_id", "wh_outbox": "message_id", "wh_perspective_events": "event_work_id"}
BODY = {"event_data": {"a": 1}, "metadata": {"headers": {"tenant": "7"}}}
OWN = {
    "wh_inbox": {"handler_name": "shop.handlers.place", "source_commit_sequence": 77},
    "wh_outbox": {"destination": "bank", "envelope_type": "Envelope", "is_event": True},
    "wh_perspective_events": {"perspective_name": "totals", "event_id": uuid.UUID(int=5)},
}


def write_row(source, **columns):
    """Write a row as another language's service would, and return its id."""
    values = {KEY[source]: uuid.uuid4(), "stream_id": uuid.UUID(int=9), "attempts": 7, **OWN[source], **columns}
    if source != "wh_perspective_events":
        values = {"message_type": "by.Hand", **{name: json.dumps(body) for name, body in BODY.items()}, **values}
    names = ", ".join(f'"{name}"' for name in values)
    with connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO {source} ({names}) VALUES ({', '.join(['%s'] * len(values))})", [*values.values()])
    return values[KEY[source]]


def store_event(event_id=OWN["wh_perspective_events"]["event_id"]):
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO wh_event_store (event_id, stream_id, event_type, event_data, metadata, version, envelope_raw)"
            " VALUES (%s, %s, 'shop.OrderPlaced', %s, %s, 3, %s)",
            [event_id, uuid.UUID(int=9), *map(json.dumps, BODY.values()), b'{"a": 1}'],
        )


def row_of(source):
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {source}")
        names = [column.name for column in cursor.description]
        (row,) = cursor.fetchall()
        return dict(zip(names, row, strict=True))
