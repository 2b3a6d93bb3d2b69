"""For tests of handlers: run one on a payload, drain what is due."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from uuid_utils.compat import uuid7

from queues.conf import conf
from queues.drainer import Report
from queues.drainer import drain as _drain
from queues.words.errors import QueuesError
from queues.words.handlers import registry
from queues.words.messages import Message, MessageMeta
from queues.words.payloads import decode_payload, encode_payload
from queues.words.sources import INBOX


class NoHandler(QueuesError):
    """No handler is registered for the type."""


def run(
    message_type: str,
    payload: Any,
    *,
    headers: Mapping[str, str] | None = None,
    attempts: int = 1,
    delays: int = 0,
    message_id: UUID | None = None,
) -> object:
    """Call the type's handler on the payload as a drainer would hand it over, and return what it returns.

    What the handler raises is raised. The payload goes through the stored form and back. Needs no database
    unless the handler does. Raises NoHandler.
    """
    handler = registry.get(message_type)
    if handler is None:
        raise NoHandler(f"no handler is registered for {message_type}")
    limits = conf().payload_limits()
    encoded = encode_payload(payload, limits=limits)
    meta = MessageMeta(
        attempts=attempts,
        delays=delays,
        life=1,
        source=INBOX,
        position=0,
        stream=None,
        stream_id=None,
        sent_at=None,
        max_attempts=handler.budget(conf().budget(INBOX)).max_attempts,
        dead_letter_id=None,
    )
    received = decode_payload(encoded.json, encoded.raw, limits=limits)
    return handler.function(
        Message(id=message_id or uuid7(), type=message_type, payload=received, headers=headers or {}, meta=meta)
    )


def drain(source: str = INBOX) -> Report:
    """Run everything that is due now, in this process; works inside a test's transaction."""
    return _drain(source, seconds=None)
