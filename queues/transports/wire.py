"""A message as a broker carries it: its exact bytes, and a CloudEvent's attributes as headers."""

import json
from collections.abc import Mapping
from typing import Any

from queues.conf import conf
from queues.transports.base import Outgoing

CONTENT_TYPE = "application/json"


def body_of(message: Outgoing) -> bytes:
    """Return the payload's exact bytes: those that are kept, else the stored JSON text."""
    return message.event_data.encode() if message.envelope_raw is None else message.envelope_raw


def headers_of(message: Outgoing) -> dict[str, str]:
    """Return the headers of a CloudEvent in binary mode.

    The message's own headers are among them and win, except where they would make it another message.
    """
    given = message.metadata.get("headers")
    stream = message.metadata.get("stream") or (str(message.stream_id) if message.stream_id else None)
    about = {"ce-source": conf().service, "ce-time": message.sent_at.isoformat()}
    identity = {"ce-specversion": "1.0", "ce-id": str(message.message_id), "ce-type": message.message_type}
    return {
        **about,
        **({str(name): _text(value) for name, value in given.items()} if isinstance(given, Mapping) else {}),
        **identity,
        **({"ce-partitionkey": _text(stream)} if stream else {}),
    }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
