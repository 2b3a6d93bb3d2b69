"""The outbox: messages that other services are to get, published after the caller's transaction has committed."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from queues import circuits, wakeups
from queues.conf import conf
from queues.sending import Receipt, row_of
from queues.store import messages
from queues.transports.base import Outgoing
from queues.transports.routes import transport_to
from queues.words.errors import InvalidMessage, NeverReady, NotReady
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
    max_delays: int | None = None,
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
        max_delays=max_delays,
    )
    row = row_of(message)
    is_new = messages.insert_outgoing(row, destination)
    if is_new:
        wakeups.wake(OUTBOX)
    return Receipt(message_id=row.message_id, is_new=is_new)


def deliver(message: Outgoing) -> None:
    """Publish a claimed message; raises NoRoute, or what its transport raises.

    NotReady is noted for the destination's circuit, anything else says that it answers. A message that has waited
    for its destination too long raises NeverReady instead.
    """
    transport = transport_to(message.destination)
    destination = message.destination or ""
    try:
        circuits.refuse_if_away(destination)
        try:
            transport.publish(message)
        except NotReady as exc:
            circuits.note_failure(destination, exc)
            raise
    except NotReady as exc:
        if message.waited > timedelta(seconds=conf().transport_patience_seconds):
            raise NeverReady(f"not published within {conf().transport_patience_seconds:,.0f} seconds: {exc}") from exc
        raise
    except Exception:
        circuits.note_success(destination)
        raise
    circuits.note_success(destination)
