"""Reactions to deaths: what a handler registered by `on_dead_letter` gets."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from uuid import UUID

from queues.words.errors import PayloadUnreadable
from queues.words.failures import Failure
from queues.words.messages import MAX_TYPE, Message, MessageMeta, as_uuid
from queues.words.payloads import PayloadLimits, decode_payload, read_metadata
from queues.words.text import text_of

PREFIX = "dead_letter:"
MAX_REACTED_TYPE = MAX_TYPE - len(PREFIX)


@dataclass(frozen=True, kw_only=True)
class Content:
    """The body that a dead letter keeps of its message, as text and exact bytes; nothing is parsed yet."""

    event_data: str
    metadata: str
    envelope_raw: bytes | None


@dataclass(frozen=True, kw_only=True)
class DeadLetter:
    """A message that its queue gave up on, as it was at the death that is reacted to.

    `failure` None: no reason was recorded, which is not an empty one. `cause` and `reason` are values of Cause and
    FailureReason, or what another writer made of them. `deaths`: the number of this death, from 1. `meta` is the
    reaction's own: its attempts and delays.
    """

    id: UUID
    source: str
    message_id: UUID
    type: str
    perspective: str | None
    stream_id: UUID | None
    cause: str | None
    reason: int
    attempts: int
    deaths: int
    generation: str
    failure: Failure | None
    meta: MessageMeta
    read: Callable[[], Content] = field(repr=False, compare=False)
    limits: PayloadLimits = field(repr=False, compare=False)

    @cached_property
    def _content(self) -> Content:
        return self.read()

    @cached_property
    def payload(self) -> Any:
        """The message's payload, read from the letter on first use; an edit meanwhile shows.

        Raises LetterGone, and PayloadUnreadable where the message died of that.
        """
        content = self._content
        return decode_payload(content.event_data, content.envelope_raw, limits=self.limits)

    @cached_property
    def headers(self) -> Mapping[str, str]:
        """The message's headers, read with its payload. Raises LetterGone."""
        return read_metadata(self._content.metadata, self.limits.max_depth).get("headers") or {}


def reaction_type(message_type: str) -> str:
    """Return the type of the messages that tell of deaths of this type."""
    return PREFIX + message_type


def dead_letter_of(message: Message, *, read: Callable[[UUID], Content], limits: PayloadLimits) -> DeadLetter:
    """Read the letter off the message that tells of its death; raises PayloadUnreadable when it tells of none."""
    told = message.payload
    if not isinstance(told, dict):
        raise PayloadUnreadable("it tells of no dead letter")
    letter_id = _id(told, "dead_letter_id")
    return DeadLetter(
        id=letter_id,
        source=_text(told, "source"),
        message_id=_id(told, "message_id"),
        type=_text(told, "type"),
        perspective=told.get("perspective"),
        stream_id=as_uuid(told.get("stream_id")),
        cause=told.get("cause"),
        reason=_whole(told, "reason"),
        attempts=_whole(told, "attempts"),
        deaths=_whole(told, "deaths"),
        generation=_text(told, "generation"),
        failure=_failure(told.get("failure")),
        meta=message.meta,
        read=lambda: read(letter_id),
        limits=limits,
    )


def _id(told: Mapping[str, Any], name: str) -> UUID:
    found = as_uuid(told.get(name))
    if found is None:
        raise PayloadUnreadable(f'"{name}" is not a UUID')
    return found


def _text(told: Mapping[str, Any], name: str) -> str:
    if not isinstance(told.get(name), str):
        raise PayloadUnreadable(f'"{name}" is not text')
    return text_of(told[name])


def _whole(told: Mapping[str, Any], name: str) -> int:
    found = told.get(name)
    if not isinstance(found, int) or isinstance(found, bool):
        raise PayloadUnreadable(f'"{name}" is not a whole number')
    return found


def _failure(told: Any) -> Failure | None:
    """Return the failure as it was recorded; what is malformed in it is left out."""
    if not isinstance(told, dict):
        return None
    text = told.get("text")
    return Failure.from_stored(text if isinstance(text, str) else None, told)
