"""Sending: messages stored in the caller's transaction, and drainers woken when it commits."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from uuid_utils.compat import uuid7

from queues import wakeups
from queues.conf import conf
from queues.store import messages
from queues.words.handlers import registry
from queues.words.messages import NewMessage, stream_uuid, validate
from queues.words.sources import INBOX


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """The id of a sent message; `is_new` is False when that id had been sent before and nothing was stored."""

    message_id: UUID
    is_new: bool


def send(
    message_type: str,
    payload: Any,
    *,
    headers: Mapping[str, str] | None = None,
    stream: str | UUID | None = None,
    delay: timedelta = timedelta(0),
    message_id: UUID | None = None,
    max_attempts: int | None = None,
    max_delays: int | None = None,
) -> Receipt:
    """Send one message to the inbox, in the present transaction if there is one.

    payload: any JSON value, at most 64 MiB. Messages of one stream run in order, one at a time. A chosen
    message_id is remembered: the same id again stores nothing. max_attempts, max_delays: -1 = no limit.
    Raises InvalidMessage.
    """
    (receipt,) = send_many(
        [
            NewMessage(
                type=message_type,
                payload=payload,
                headers=headers or {},
                stream=stream,
                delay=delay,
                id=message_id,
                max_attempts=max_attempts,
                max_delays=max_delays,
            )
        ]
    )
    return receipt


def send_many(new: Sequence[NewMessage]) -> list[Receipt]:
    """Send messages in one statement, all or none; receipts come in their order. Raises InvalidMessage."""
    rows = [row_of(message) for message in new]
    stored = messages.insert(rows)
    if stored:
        wakeups.wake(INBOX)
    return [Receipt(message_id=row.message_id, is_new=_is_new(row.message_id, stored)) for row in rows]


def _is_new(message_id: UUID, stored: set[UUID]) -> bool:
    """Say whether the id was stored; of one that was sent twice at once, the first is the new one."""
    is_new = message_id in stored
    stored.discard(message_id)
    return is_new


def row_of(message: NewMessage) -> messages.Row:
    """Return a checked message as it is stored; raises InvalidMessage."""
    validate(message)
    encoded = message.encoded(conf().payload_limits())
    handler = registry.get(message.type)
    return messages.Row(
        message_id=message.id or uuid7(),
        chosen_id=message.id is not None,
        message_type=message.type,
        handler_name=handler.name[:500] if handler else "",
        event_data=encoded.json,
        metadata=json.dumps(_metadata(message)),
        envelope_raw=encoded.raw,
        envelope_bytes=encoded.size,
        stream_id=stream_uuid(message.stream),
        delay=message.delay,
        max_attempts=message.max_attempts,
        max_delays=message.max_delays,
    )


def _metadata(message: NewMessage) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    if message.headers:
        metadata["headers"] = dict(message.headers)
    if message.stream is not None:
        metadata["stream"] = str(message.stream)
    return metadata
