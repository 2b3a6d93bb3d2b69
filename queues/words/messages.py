"""Messages: what a sender hands over, what a handler sees, and the two line formats."""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid5

from queues.words.errors import InvalidMessage, PayloadUnreadable
from queues.words.payloads import Encoded, PayloadLimits, decode_payload, encode_bytes, encode_payload

STREAM_NAMESPACE = UUID("0f0ee6ee-7d5c-5c8a-9d2a-6a1b8e3a52d4")
"""Namespace of stream ids made from names, and of message ids made from CloudEvents (source, id)."""

MAX_TYPE = 500
MAX_HEADERS = 100
MAX_HEADER = 8_000
OWN_KEYS = {"type", "payload", "id", "headers", "stream", "delay_seconds", "max_attempts", "max_delays"}
EVENT_KEYS = {"specversion", "type", "id", "source", "data", "data_base64", "partitionkey"}


@dataclass(frozen=True, kw_only=True)
class MessageMeta:
    """What a handler may know of its message's way here. `attempts` counts this run; None = no limit."""

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
    """What a sender hands over. `raw`: the payload's exact JSON bytes, instead of `payload`.

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
    if not _is_text(message.type) or not 1 <= len(message.type) <= MAX_TYPE:
        raise InvalidMessage(f"the type must be text of 1 to {MAX_TYPE} characters")
    if len(message.headers) > MAX_HEADERS:
        raise InvalidMessage(f"there are {len(message.headers)} headers; the limit is {MAX_HEADERS}")
    for name, value in message.headers.items():
        if not (_is_text(name) and _is_text(value) and len(name) + len(value) <= MAX_HEADER):
            raise InvalidMessage(f"the header {str(name)[:50]!r} must be text of at most {MAX_HEADER:,} characters")
    if isinstance(message.stream, str) and not (_is_text(message.stream) and 1 <= len(message.stream) <= MAX_TYPE):
        raise InvalidMessage(f"the stream must be text of 1 to {MAX_TYPE} characters, or a UUID")
    _check_cap("max_attempts", message.max_attempts, least=1)
    _check_cap("max_delays", message.max_delays, least=0)


def _check_cap(name: str, value: int | None, *, least: int) -> None:
    if value is None or value == -1:
        return
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**31:
        raise InvalidMessage(f"{name} must be a whole number from {least}, or -1 for no limit")


def _is_text(value: object) -> bool:
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
    return _as_uuid(stream) or uuid5(STREAM_NAMESPACE, stream)


def _as_uuid(text: object) -> UUID | None:
    try:
        return UUID(text) if isinstance(text, str) and len(text) == 36 else None
    except ValueError:
        return None


def parse_line(line: bytes, *, limits: PayloadLimits) -> NewMessage:
    """Read one line: our own form, or CloudEvents 1.0 (it has `specversion`). Raises InvalidMessage.

    Own form: {"type", "payload", "id"?, "headers"?, "stream"?, "delay_seconds"?, "max_attempts"?, "max_delays"?}.
    """
    try:
        document = decode_payload(None, line, limits=limits)
    except PayloadUnreadable as exc:
        raise InvalidMessage(f"not JSON: {exc.reason}") from exc
    if not isinstance(document, dict):
        raise InvalidMessage("a line must be a JSON object")
    message = _event(document) if "specversion" in document else _own(document)
    validate(message)
    return message


def _own(document: dict[str, Any]) -> NewMessage:
    unknown = sorted(set(document) - OWN_KEYS)
    if unknown:
        raise InvalidMessage(f"unknown keys: {', '.join(unknown)[:200]}")
    if "type" not in document or "payload" not in document:
        raise InvalidMessage('"type" and "payload" are required')
    given = document.get("id")
    if given is not None and _as_uuid(given) is None:
        raise InvalidMessage('"id" must be a UUID')
    return NewMessage(
        type=document["type"],
        payload=document["payload"],
        id=_as_uuid(given),
        headers=_mapping(document.get("headers", {})),
        stream=document.get("stream"),
        delay=_seconds(document.get("delay_seconds", 0)),
        max_attempts=document.get("max_attempts"),
        max_delays=document.get("max_delays"),
    )


def _mapping(value: Any) -> Mapping[str, str]:
    if not isinstance(value, dict):
        raise InvalidMessage('"headers" must be an object of text')
    return value


def _seconds(value: Any) -> timedelta:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 10**9:
        raise InvalidMessage('"delay_seconds" must be a number from 0')
    return timedelta(seconds=value)


def _event(document: dict[str, Any]) -> NewMessage:
    for name in ("type", "id", "source"):
        if not isinstance(document.get(name), str) or not document[name]:
            raise InvalidMessage(f'a CloudEvent needs "{name}"')
    if not str(document["specversion"]).startswith("1."):
        raise InvalidMessage(f"CloudEvents version {document['specversion']!r} is not known")
    others = {f"ce-{key}": _header(value) for key, value in document.items() if key not in EVENT_KEYS}
    identity = json.dumps([document["source"], document["id"]])
    return NewMessage(
        type=document["type"],
        payload=document.get("data"),
        raw=_base64(document["data_base64"]) if "data_base64" in document else None,
        id=_as_uuid(document["id"]) or uuid5(STREAM_NAMESPACE, identity),
        headers={"ce-id": document["id"], "ce-source": document["source"], **others},
        stream=document.get("partitionkey"),
    )


def _header(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _base64(text: Any) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (TypeError, ValueError, binascii.Error) as exc:
        raise InvalidMessage('"data_base64" is not base64') from exc
