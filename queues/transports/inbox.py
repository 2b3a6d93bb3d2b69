"""The transport to the inbox of this database: sender and receiver are one transaction."""

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from queues import wakeups
from queues.conf import conf
from queues.store import messages
from queues.transports.base import Outgoing
from queues.words.handlers import registry
from queues.words.sources import INBOX


class InboxTransport:
    """Inserts into the inbox, in the transaction that removes the row from the outbox.

    The message keeps its id, which is remembered: the same id again is received once.
    """

    def publish(self, message: Outgoing) -> None:
        """Store the message in the inbox; a drainer is woken when the transaction commits."""
        if messages.insert([_row(message)]):
            wakeups.wake(INBOX)


def _row(message: Outgoing) -> messages.Row:
    handler = registry.get(message.message_type)
    return messages.Row(
        message_id=message.message_id,
        chosen_id=True,
        message_type=message.message_type,
        handler_name=handler.name[:500] if handler else "",
        event_data=message.event_data,
        metadata=json.dumps({**message.metadata, "headers": _headers(message)}),
        envelope_raw=message.envelope_raw,
        envelope_bytes=message.envelope_bytes,
        stream_id=message.stream_id,
        delay=timedelta(0),
        max_attempts=None,
        max_delays=None,
        scope=message.scope,
        is_event=message.is_event,
        flags=message.flags,
    )


def _headers(message: Outgoing) -> Mapping[str, Any]:
    """Return the message's headers, with the attributes of a CloudEvent that it does not bring itself."""
    given = message.metadata.get("headers")
    own = {"ce-id": str(message.message_id), "ce-type": message.message_type, "ce-source": conf().service}
    return {**own, **(given if isinstance(given, Mapping) else {})}
