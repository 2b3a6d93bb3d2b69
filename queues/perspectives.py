"""Events of streams, and the perspectives that project them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.apps import apps as installed
from django.apps.registry import Apps

from queues import wakeups
from queues.conf import conf, dead_letter_store
from queues.sending import row_of
from queues.store import events
from queues.words.errors import InvalidMessage, VersionConflict
from queues.words.handlers import Projection, registry
from queues.words.messages import Message, NewMessage
from queues.words.outcomes import APPLIED_ALREADY, Terminal
from queues.words.payloads import decode_payload, read_metadata
from queues.words.sources import PERSPECTIVES


@dataclass(frozen=True, kw_only=True)
class Appended:
    """The id of an event, and its version: its place in the stream, from 1."""

    event_id: UUID
    version: int


def append_event(
    stream: str | UUID,
    event_type: str,
    data: Any,
    *,
    expected_version: int | None = None,
    headers: Mapping[str, str] | None = None,
    event_id: UUID | None = None,
) -> Appended:
    """Append one event to a stream, in the present transaction if there is one, and feed its perspectives.

    data: any JSON value. expected_version: of the stream's last event, 0 = a new stream; without it the event
    gets the next version. A chosen event_id that is in the stream already appends nothing and returns its
    version. A concurrent append to the stream is waited for. Raises VersionConflict and InvalidMessage.
    """
    _check(stream, expected_version)
    row = row_of(NewMessage(type=event_type, payload=data, headers=headers or {}, stream=stream, id=event_id))
    result, version = events.append(row, expected_version)
    if result == "conflict" and expected_version is not None:
        raise VersionConflict(stream, expected_version, version)
    if result == "elsewhere":
        raise InvalidMessage(f"the event {event_id} is in another stream")
    if result == "appended":
        wakeups.wake(PERSPECTIVES)
    return Appended(event_id=row.message_id, version=version)


def _check(stream: str | UUID, expected_version: int | None) -> None:
    if stream is None:
        raise InvalidMessage("an event needs a stream")
    if expected_version is None:
        return
    is_whole = isinstance(expected_version, int) and not isinstance(expected_version, bool)
    if not is_whole or not 0 <= expected_version < 2**31:
        raise InvalidMessage("the expected version must be a whole number from 0")


def apply(projection: Projection, message: Message, at: int) -> object:
    """Apply an event in the caller's transaction; return the move of the cursor that belongs to it.

    at: the version that the perspective is at, 0 = it has applied nothing of the stream. An event that the cursor has
    passed is not applied again: then APPLIED_ALREADY is returned. One that died and was passed by later events is
    applied out of order or by a rewind, as the projection says; else bringing it back is refused: it was never applied.
    """
    stream_id, version = message.meta.stream_id, message.meta.version
    assert stream_id is not None
    assert version is not None
    if version > at:
        projection.handler.function(message)
        return events.Move(stream_id, message.id, at, version)
    if message.meta.dead_letter_id is not None and at > version:
        _apply_late(projection, message, at)
        return None
    return APPLIED_ALREADY


def _apply_late(projection: Projection, message: Message, at: int) -> None:
    stream_id, version = message.meta.stream_id, message.meta.version
    assert stream_id is not None
    if projection.commutative:
        projection.handler.function(message)
    elif projection.rewind is not None:
        projection.rewind(stream_id)
        _replay(projection, message, at)
    else:
        name = projection.perspective
        raise Terminal(f"{name} is at version {at} of the stream; version {version} cannot be applied any more")


def _replay(projection: Projection, message: Message, at: int) -> None:
    """Apply all events up to the cursor again, with the one that comes back; others that are dead stay out."""
    stream_id, store = message.meta.stream_id, dead_letter_store()
    assert stream_id is not None
    dead = store.dead_events(projection.perspective, stream_id) if store else set()
    for event in events.read(stream_id, up_to=at, types=projection.event_types):
        if event.event_id == message.id:
            projection.handler.function(message)
        elif event.event_id not in dead:
            projection.handler.function(_again(event, message))


def _again(event: events.Event, like: Message) -> Message:
    metadata = read_metadata(event.metadata, conf().max_payload_depth)
    return Message(
        id=event.event_id,
        type=event.event_type,
        payload=decode_payload(event.event_data, event.envelope_raw, limits=conf().payload_limits()),
        headers=metadata.get("headers") or {},
        meta=like.meta._replace(dead_letter_id=None, sent_at=event.created_at, version=event.version),
    )


def subscribe() -> None:
    """Write the subscriptions of the registered projections that are missing; none is removed."""
    events.subscribe([(known.perspective, event) for known in registry.projections() for event in known.event_types])


def subscribe_after_migrate(*, apps: Apps = installed, **_: Any) -> None:
    """Subscribe when the tables are there: a migration may have taken them down."""
    if "perspectivesubscription" in apps.all_models["queues"]:
        subscribe()
