"""For tests of handlers: run one on a payload, apply an event, react to a death, drain what is due."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from uuid_utils.compat import uuid7

from queues.conf import conf
from queues.drainer import Report
from queues.drainer import drain as _drain
from queues.words.errors import QueuesError
from queues.words.failures import Failure
from queues.words.handlers import Handler, registry
from queues.words.messages import Message, MessageMeta, stream_uuid
from queues.words.outcomes import Cause, FailureReason
from queues.words.payloads import decode_payload, encode_payload
from queues.words.reactions import Content, dead_letter_of, reaction_type
from queues.words.sources import INBOX, PERSPECTIVES


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
    if handler is None or handler.reacts_to is not None:
        raise NoHandler(f"no handler is registered for {message_type}")
    message = _message(handler, INBOX, message_type, payload, attempts=attempts, delays=delays)
    return handler.function(replace(message, id=message_id or message.id, headers=headers or {}))


def apply(
    perspective: str,
    event_type: str,
    data: Any,
    *,
    stream: str | UUID = "test",
    version: int = 1,
    headers: Mapping[str, str] | None = None,
) -> object:
    """Call the perspective's projection on one event as a drainer would hand it over; no cursor is read or moved.

    Raises what the projection raises, and NoHandler when it is not there or does not apply such events.
    """
    projection = registry.projection(perspective)
    if projection is None or event_type not in projection.event_types:
        raise NoHandler(f"no projection applies {event_type} to {perspective}")
    message = _message(projection.handler, PERSPECTIVES, event_type, data)
    meta = message.meta._replace(stream=str(stream), stream_id=stream_uuid(stream), version=version)
    return projection.handler.function(replace(message, headers=headers or {}, meta=meta))


def react(
    message_type: str,
    payload: Any,
    *,
    failure: Failure | None = None,
    cause: Cause = Cause.BUDGET_SPENT,
    reason: FailureReason = FailureReason.UNKNOWN,
    headers: Mapping[str, str] | None = None,
    deaths: int = 1,
    attempts: int = 1,
    delays: int = 0,
) -> object:
    """Call what reacts to deaths of the type as a drainer would, for a message that died with this payload.

    failure None: nothing was recorded. attempts, delays: of the reaction itself. Raises what it raises, and NoHandler.
    """
    handler = registry.get(reaction_type(message_type))
    if handler is None or handler.reacts_to is None:
        raise NoHandler(f"nothing reacts to deaths of {message_type}")
    told = {
        **_a_death(message_type),
        "cause": str(cause),
        "reason": int(reason),
        "deaths": deaths,
        "failure": None if failure is None else {"text": failure.text, **(failure.structure() or {})},
    }
    message = _message(handler, INBOX, handler.type, told, attempts=attempts, delays=delays)
    body = _content(payload, headers or {})
    return handler.function(dead_letter_of(message, read=lambda _: body, limits=conf().payload_limits()))


def _a_death(message_type: str) -> dict[str, Any]:
    """Return what a reaction is told about any message of the type that died at its first attempt."""
    return {
        "dead_letter_id": str(uuid7()),
        "source": INBOX,
        "message_id": str(uuid7()),
        "type": message_type,
        "attempts": 1,
        "generation": conf().generation,
    }


def _content(payload: Any, headers: Mapping[str, str]) -> Content:
    """Return a message's content as it is stored."""
    encoded = encode_payload(payload, limits=conf().payload_limits())
    return Content(event_data=encoded.json, metadata=json.dumps({"headers": dict(headers)}), envelope_raw=encoded.raw)


def _message(
    handler: Handler, source: str, message_type: str, payload: Any, *, attempts: int = 1, delays: int = 0
) -> Message:
    limits = conf().payload_limits()
    encoded = encode_payload(payload, limits=limits)
    meta = MessageMeta(
        attempts=attempts,
        delays=delays,
        life=1,
        source=source,
        position=0,
        stream=None,
        stream_id=None,
        sent_at=None,
        max_attempts=handler.budget(conf().budget(source)).max_attempts,
        dead_letter_id=None,
    )
    received = decode_payload(encoded.json, encoded.raw, limits=limits)
    return Message(id=uuid7(), type=message_type, payload=received, headers={}, meta=meta)


def drain(source: str = INBOX) -> Report:
    """Run everything that is due now, in this process; works inside a test's transaction."""
    return _drain(source, seconds=None)
