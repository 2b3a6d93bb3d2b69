"""Messages that other programs write with SQL: some that `send` would refuse, and one that needs its exact bytes."""

from uuid import uuid4

from django.db import connection

from queues.wakeups import wake
from queues.words.sources import INBOX

BYTES = {
    "not a number": b'{"order_id": "%s", "cents": NaN}',
    "not text": b'{"order_id": "%s", "city": "Z\xfcrich"}',
    "too deep": b'{"order_id": "%s", "tree": ' + b"[" * 400 + b"]" * 400 + b"}",
    "exact bytes": b'{"order_id": "%s", "note": "nul \\u0000 and half \\ud83d", "cents": 1e3, "cents": 1999}',
}
"""Payloads by the fate of their order."""


def send_bytes(fate: str, order_id: str) -> None:
    """Write a message with these bytes into the inbox, past every check."""
    raw = BYTES[fate] % order_id.encode()
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO wh_inbox (message_id, message_type, event_data, envelope_raw, envelope_bytes)"
            " VALUES (%s, 'shop.ImportOrder', '{}', %s, %s)",
            [uuid4(), raw, len(raw)],
        )
    wake(INBOX)
