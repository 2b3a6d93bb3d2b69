"""The outbox: messages that other services are to get, published after the caller's transaction has committed."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from queues import wakeups
from queues.sending import Receipt, row_of
from queues.store import messages
from queues.transports.base import Outgoing
from queues.transports.routes import transport_to
from queues.words.errors import InvalidMessage
from queues.words.messages import MAX_DESTINATION, NewMessage, is_text
from queues.words.sources import OUTBOX


def publish(
    message_type: str,
    payload: Any,
    *,
    destination: str,
    headers: Mapping[str, str] | None = None,
    stream: str | UUID | None = None,
    delay: timedelta = timedelta(0),
    message_id: UUID | None = None,
    max_attempts: int | None = None,
) -> Receipt:
    """Store one message in the outbox, in the present transaction if there is one.

    It is published through the transport that the setting ROUTES names for the destination, messages of one
    stream in order. The other arguments are those of `send`. A chosen message_id stores nothing while one of that
    id waits; once published, its receiver tells a repetition by the id. Raises InvalidMessage.
    """
    if not is_text(destination) or not 1 <= len(destination) <= MAX_DESTINATION:
        raise InvalidMessage(f"the destination must be text of 1 to {MAX_DESTINATION} characters")
    message = NewMessage(
        type=message_type,
        payload=payload,
        headers=headers or {},
        stream=stream,
        delay=delay,
        id=message_id,
        max_attempts=max_attempts,
    )
    row = row_of(message)
    is_new = messages.insert_outgoing(row, destination)
    if is_new:
        wakeups.wake(OUTBOX)
    return Receipt(message_id=row.message_id, is_new=is_new)


def deliver(message: Outgoing) -> None:
    """Publish a claimed message; raises NoRoute, or what its transport raises."""
    transport_to(message.destination).publish(message)
