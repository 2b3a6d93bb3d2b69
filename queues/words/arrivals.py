"""What arrives from a message broker, and the message that it is."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from typing import Any
from uuid import UUID, uuid5

from queues.words.errors import InvalidMessage
from queues.words.messages import (
    MAX_HEADER,
    MAX_HEADERS,
    MAX_TYPE,
    STREAM_NAMESPACE,
    NewMessage,
    as_uuid,
    is_text,
    parse_line,
    validate,
)
from queues.words.payloads import PayloadLimits
from queues.words.plain import Room, plain
from queues.words.text import bounded, text_of

ATTRIBUTE_PREFIXES = ("ce-", "cloudEvents:", "cloudEvents_", "ce_")
"""How senders mark an attribute of a CloudEvent among the headers; the first is ours."""
STRUCTURED = "application/cloudevents+json"


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """One message as a broker hands it over; `tag` is what acknowledges it, `delivery_id` the broker's own id of it."""

    body: bytes
    headers: Mapping[str, Any]
    content_type: str
    message_id: Any
    message_type: Any
    delivery_id: str | None
    tag: Any


def message_of(arrival: Arrival, *, limits: PayloadLimits) -> NewMessage:
    """Return the message that arrived; raises InvalidMessage with the reason when no inbox can take it."""
    if arrival.content_type.partition(";")[0].strip().lower() == STRUCTURED:
        return parse_line(arrival.body, limits=limits)
    message_type = type_of(arrival)
    if message_type is None:
        raise InvalidMessage('it has no type: neither a header "ce-type" nor a property')
    message = NewMessage(
        type=message_type,
        raw=arrival.body,
        id=id_of(arrival),
        headers=headers_of(arrival),
        stream=_attribute(arrival, "partitionkey"),
    )
    validate(message)
    message.encoded(limits)
    return message


def type_of(arrival: Arrival) -> str | None:
    """Return the message's type: the CloudEvent's, else the property's."""
    found = _attribute(arrival, "type") or arrival.headers.get("type") or arrival.message_type
    return found if isinstance(found, str) and found else None


def stream_of(arrival: Arrival) -> str | None:
    """Return the stream's name if it is one that can be kept."""
    found = _attribute(arrival, "partitionkey")
    return found if is_text(found) and len(found) <= MAX_TYPE else None


def id_of(arrival: Arrival) -> UUID | None:
    """Return the id by which a repetition is told; an id that is no UUID becomes one by a fixed rule.

    None = the sender gave none, and the broker neither.
    """
    given = arrival.message_id or _attribute(arrival, "id")
    if not given:
        return as_uuid(arrival.delivery_id)
    source = _attribute(arrival, "source") or ""
    return as_uuid(given) or uuid5(STREAM_NAMESPACE, json.dumps([text_of(source), text_of(given)]))


def id_by_content(arrival: Arrival, queue: str) -> UUID:
    """Return an id that the same bytes with the same headers always get in a queue."""
    digest = sha256(arrival.body).hexdigest()
    return uuid5(STREAM_NAMESPACE, json.dumps([queue, sorted(headers_of(arrival).items()), digest]))


def headers_of(arrival: Arrival) -> dict[str, str]:
    """Return the headers as text; a broker's own may be numbers and tables."""
    return {text_of(name): _text(value) for name, value in arrival.headers.items() if value is not None}


def storable_headers(arrival: Arrival) -> dict[str, str]:
    """Return the headers so that the database can keep them; those beyond the limits are cut."""
    kept = islice(headers_of(arrival).items(), MAX_HEADERS)
    return {bounded(name, MAX_HEADER): bounded(value, MAX_HEADER) for name, value in kept}


def _attribute(arrival: Arrival, name: str) -> Any:
    found = (arrival.headers.get(prefix + name) for prefix in ATTRIBUTE_PREFIXES)
    return next((value for value in found if value), None)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(plain(value, Room(characters=4_000, items=50, depth=5)))
