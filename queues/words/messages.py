"""Messages: what a sender hands over, what a handler sees, and the two line formats."""

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeGuard
from uuid import UUID, uuid5

from queues.words.errors import InvalidMessage, PayloadUnreadable
from queues.words.outcomes import MAX_WAIT, NO_LIMIT
from queues.words.payloads import Encoded, PayloadLimits, encode_bytes, encode_payload, members_of
from queues.words.text import bounded, text_of

STREAM_NAMESPACE = UUID("0f0ee6ee-7d5c-5c8a-9d2a-6a1b8e3a52d4")
"""Namespace of stream ids made from names, and of message ids made from CloudEvents (source, id)."""

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE | re.ASCII)

MAX_TYPE = 500
MAX_DESTINATION = 500
MAX_HEADERS = 100
MAX_HEADER = 8_000
OWN_KEYS = {"type", "payload", "id", "headers", "stream", "delay_seconds", "max_attempts", "max_delays"}
EVENT_KEYS = {"specversion", "type", "id", "source", "data", "data_base64", "partitionkey"}


class MessageMeta(NamedTuple):
    """What a handler may know of its message's way here. `attempts` counts this run; None = no limit.

    `version` is an event's place in its stream, from 1. A tuple, since each message makes one.
    """

    attempts: int
    delays: int
    life: int
    source: str
    position: int
    stream: str | None
    stream_id: UUID | None
    sent_at: datetime | None
    max_attempts: int | None
    dead_letter_id: UUID | None
    version: int | None = None


@dataclass(frozen=True, kw_only=True)
class Message:
    """What a handler gets."""

    id: UUID
    type: str
    payload: Any
    headers: Mapping[str, str]
    meta: MessageMeta


@dataclass(frozen=True, kw_only=True)
class NewMessage:
    """What a sender hands over. `raw`: the payload's exact JSON bytes, which are stored where they are given.

    stream: a name or a UUID; messages of one stream run in order. max_attempts, max_delays: -1 = no limit,
    None = the handler's.
    """

    type: str
    payload: Any = None
    raw: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    stream: str | UUID | None = None
    id: UUID | None = None
    delay: timedelta = timedelta(0)
    max_attempts: int | None = None
    max_delays: int | None = None

    def encoded(self, limits: PayloadLimits) -> Encoded:
        """Return the payload as it is stored; raises InvalidMessage."""
        if self.raw is not None:
            return encode_bytes(self.raw, limits=limits)
        return encode_payload(self.payload, limits=limits)


def validate(message: NewMessage) -> None:
    """Raise InvalidMessage with the reason when a part other than the payload cannot be stored."""
    if not is_text(message.type) or not 1 <= len(message.type) <= MAX_TYPE:
        raise InvalidMessage(f"the type must be text of 1 to {MAX_TYPE} characters")
    if not isinstance(message.id, UUID | None):
        raise InvalidMessage("the id must be a UUID")
    _check_headers(message.headers)
    _check_stream(message.stream)
    if not timedelta(0) <= message.delay <= MAX_WAIT:
        raise InvalidMessage(f"the delay must be from 0 to {MAX_WAIT.days:,} days")
    _check_cap("max_attempts", message.max_attempts, least=1)
    _check_cap("max_delays", message.max_delays, least=0)


def _check_headers(headers: object) -> None:
    if not isinstance(headers, Mapping):
        raise InvalidMessage("the headers must be an object of text")
    if len(headers) > MAX_HEADERS:
        raise InvalidMessage(f"there are {len(headers):,} headers; the limit is {MAX_HEADERS}")
    for name, value in headers.items():
        if not (is_text(name) and is_text(value) and len(name) + len(value) <= MAX_HEADER):
            shown = bounded(text_of(name), 50)
            raise InvalidMessage(f'the header "{shown}" must be text of at most {MAX_HEADER:,} characters')


def _check_stream(stream: object) -> None:
    named = is_text(stream) and 1 <= len(str(stream)) <= MAX_TYPE
    if stream is not None and not isinstance(stream, UUID) and not named:
        raise InvalidMessage(f"the stream must be text of 1 to {MAX_TYPE} characters, or a UUID")


def _check_cap(name: str, value: object, *, least: int) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or not (least <= value < 2**31 or value == NO_LIMIT):
        raise InvalidMessage(f"{name} must be a whole number from {least}, or {NO_LIMIT} for no limit")


def is_text(value: object) -> TypeGuard[str]:
    """Say whether a value is text that the database can store."""
    if not isinstance(value, str) or "\x00" in value:
        return False
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def stream_uuid(stream: str | UUID | None) -> UUID | None:
    """Return a stream's id: a UUID as it is, any other name by a fixed rule."""
    if stream is None or isinstance(stream, UUID):
        return stream
    return as_uuid(stream) or uuid5(STREAM_NAMESPACE, stream)


def as_uuid(text: object) -> UUID | None:
    """Read a UUID in its usual form only; UUID() takes others, which are names here."""
    return UUID(text) if isinstance(text, str) and _UUID.fullmatch(text) else None


def parse_line(line: bytes, *, limits: PayloadLimits) -> NewMessage:
    """Read one line: our own form, or CloudEvents 1.0 (it has `specversion`). Raises InvalidMessage.

    Own form: {"type", "payload", "id"?, "headers"?, "stream"?, "delay_seconds"?, "max_attempts"?, "max_delays"?}.
    A null option is one that is not given. The payload keeps its exact bytes.
    """
    try:
        members = members_of(line, limits=limits)
    except PayloadUnreadable as exc:
        raise InvalidMessage(f"not JSON of a message: {exc.reason}") from exc
    document = {key: value for key, (value, _) in members.items() if value is not None}
    exact = {key: raw for key, (_, raw) in members.items()}
    message = _event(document, exact) if "specversion" in document else _own(document, exact)
    validate(message)
    return message


def _own(document: Mapping[str, Any], exact: Mapping[str, bytes]) -> NewMessage:
    unknown = sorted(set(exact) - OWN_KEYS)
    if unknown:
        raise InvalidMessage(f"unknown keys: {bounded(', '.join(unknown), 200)}")
    if "type" not in document or "payload" not in exact:
        raise InvalidMessage('"type" and "payload" are required')
    given = document.get("id")
    if given is not None and as_uuid(given) is None:
        raise InvalidMessage('"id" must be a UUID')
    return NewMessage(
        type=document["type"],
        payload=document.get("payload"),
        raw=exact["payload"],
        id=as_uuid(given),
        headers=document.get("headers", {}),
        stream=document.get("stream"),
        delay=_seconds(document.get("delay_seconds", 0)),
        max_attempts=document.get("max_attempts"),
        max_delays=document.get("max_delays"),
    )


def _seconds(value: Any) -> timedelta:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_WAIT.total_seconds():
        raise InvalidMessage(f'"delay_seconds" must be a number from 0 to {MAX_WAIT.total_seconds():,.0f}')
    return timedelta(seconds=value)


def _event(document: Mapping[str, Any], exact: Mapping[str, bytes]) -> NewMessage:
    for name in ("type", "id", "source"):
        if not isinstance(document.get(name), str) or not document[name]:
            raise InvalidMessage(f'a CloudEvent needs "{name}"')
    if not text_of(document["specversion"]).startswith("1."):
        raise InvalidMessage("only CloudEvents of version 1 are known")
    others = {f"ce-{key}": _header(value, exact[key]) for key, value in document.items() if key not in EVENT_KEYS}
    raw = _event_payload(document, exact)
    identity = json.dumps([document["source"], document["id"]])
    return NewMessage(
        type=document["type"],
        payload=document.get("data"),
        raw=raw,
        id=as_uuid(document["id"]) or uuid5(STREAM_NAMESPACE, identity),
        headers={"ce-id": document["id"], "ce-source": document["source"], **others},
        stream=document.get("partitionkey"),
    )


def _header(value: Any, exact: bytes) -> str:
    return value if isinstance(value, str) else exact.decode()


def _event_payload(document: Mapping[str, Any], exact: Mapping[str, bytes]) -> bytes:
    if "data_base64" not in document:
        return exact.get("data", b"null")
    if "data" in document:
        raise InvalidMessage('a CloudEvent has "data" or "data_base64", not both')
    try:
        return base64.b64decode(document["data_base64"], validate=True)
    except (TypeError, ValueError) as exc:  # binascii.Error is a ValueError
        raise InvalidMessage('"data_base64" is not base64') from exc
