"""What arrives from a broker, and the message that it is."""

import json
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.words.arrivals import Arrival, headers_of, id_by_content, id_of, message_of, storable_headers, type_of
from queues.words.errors import InvalidMessage
from queues.words.payloads import PayloadLimits

LIMITS = PayloadLimits()
ID = uuid.UUID("0f0ee6ee-7d5c-4c8a-9d2a-6a1b8e3a52d4")


def arrival(body=b"1", *, headers=None, **fields):
    known = {"content_type": "", "message_id": None, "message_type": None, "delivery_id": None, "tag": None}
    return Arrival(body=body, headers={"ce-type": "a.B"} if headers is None else headers, **{**known, **fields})


@pytest.mark.parametrize("prefix", ["ce-", "cloudEvents:", "cloudEvents_", "ce_"])
def test_attributes_of_a_cloud_event_are_read_however_their_sender_marks_them(prefix):
    marked = {f"{prefix}{name}": value for name, value in {"type": "a.B", "id": str(ID), "partitionkey": "s"}.items()}
    message = message_of(arrival(headers=marked), limits=LIMITS)

    assert (message.type, message.id, message.stream) == ("a.B", ID, "s")


def test_the_payload_keeps_its_bytes():
    message = message_of(arrival(b'{"n": 1.0e2}'), limits=LIMITS)

    assert message.encoded(LIMITS).raw == b'{"n": 1.0e2}'


def test_the_type_may_come_as_a_header_or_a_property():
    assert type_of(arrival(headers={"type": "a.B"})) == "a.B"
    assert type_of(arrival(headers={}, message_type="a.B")) == "a.B"
    assert type_of(arrival(headers={"ce-type": 7})) is None
    with pytest.raises(InvalidMessage, match="no type"):
        message_of(arrival(headers={}), limits=LIMITS)


def test_the_id_is_the_property_else_the_attribute_else_the_brokers():
    other = uuid.uuid4()
    assert id_of(arrival(message_id=str(ID), headers={"ce-id": str(other)})) == ID
    assert id_of(arrival(headers={"ce-id": str(ID)}, delivery_id=str(other))) == ID
    assert id_of(arrival(delivery_id=str(ID))) == ID
    assert id_of(arrival()) is None


def test_an_id_that_is_no_uuid_becomes_the_one_that_the_event_has_as_a_line():
    event = {"specversion": "1.0", "type": "a.B", "id": "order 7", "source": "shop", "data": 1}
    structured = arrival(json.dumps(event).encode(), content_type="application/cloudevents+json")
    binary = arrival(headers={"ce-type": "a.B", "ce-id": "order 7", "ce-source": "shop"})

    assert message_of(structured, limits=LIMITS).id == message_of(binary, limits=LIMITS).id


@pytest.mark.parametrize("wild", [7, ["a"], {"a": 1}, b"\xff", "x" * 100_000, "\ud800"])
def test_an_absurd_id_still_tells_repetitions(wild):
    assert isinstance(id_of(arrival(message_id=wild)), uuid.UUID)
    assert id_of(arrival(message_id=wild)) == id_of(arrival(message_id=wild))


def test_headers_are_text_and_those_without_a_value_are_left_out():
    assert headers_of(arrival(headers={"a": "b", "n": 3, "t": {"k": [1]}, "none": None})) == {
        "a": "b",
        "n": "3",
        "t": '{"k": [1]}',
    }


def test_the_same_bytes_have_the_same_id_by_content_and_others_another():
    ids = {
        id_by_content(arrival(body, headers=headers), queue)
        for body in (b"1", b"2")
        for headers in ({}, {"a": "b"})
        for queue in ("p", "q")
        for _ in range(2)
    }
    assert len(ids) == 8


def test_headers_that_are_kept_with_a_letter_are_bounded():
    kept = storable_headers(arrival(headers={f"h{n}": "x" * 10_000 for n in range(500)}))

    assert len(kept) == 100
    assert all(len(value) < 9_000 for value in kept.values())


_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
_NAMES = st.sampled_from(["ce-type", "ce-id", "ce-source", "ce-partitionkey", "type"]) | st.text(max_size=8)
_TYPES = st.sampled_from(["", "application/json", "application/cloudevents+json"])


@given(
    body=st.binary(max_size=60) | _ANY.map(lambda value: json.dumps(str(value)).encode()),
    headers=st.dictionaries(_NAMES, _ANY, max_size=6),
    content_type=_TYPES,
    message_id=_ANY,
    message_type=_ANY,
)
def test_whatever_arrives_is_a_message_or_is_refused_with_a_reason(
    body, headers, content_type, message_id, message_type
):
    arrived = arrival(
        body, headers=headers, content_type=content_type, message_id=message_id, message_type=message_type
    )
    reason = "none"
    try:
        message_of(arrived, limits=LIMITS)
    except InvalidMessage as exc:
        reason = exc.reason
    assert reason
    json.dumps(storable_headers(arrived)).encode()
    id_by_content(arrived, "q")
