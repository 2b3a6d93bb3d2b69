import base64
import json
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.words.errors import InvalidMessage
from queues.words.messages import NewMessage, parse_line, stream_uuid, validate
from queues.words.payloads import PayloadLimits, decode_payload

LIMITS = PayloadLimits()
ID = UUID("0190b5a0-0000-7000-8000-000000000042")


def line(**members: Any) -> bytes:
    return json.dumps({"type": "shop.Place", "payload": {"order": 42}, **members}).encode()


def event(**members: Any) -> bytes:
    return json.dumps({"specversion": "1.0", "type": "shop.placed", "id": "e-1", "source": "/shop", **members}).encode()


def received(message: NewMessage) -> Any:
    encoded = message.encoded(LIMITS)
    return decode_payload(encoded.json, encoded.raw, limits=LIMITS)


# --- what can be sent


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"type": "x" * 500},
        {"headers": {"trace": "abc", "": ""}},
        {"stream": "order-42"},
        {"stream": ID},
        {"id": ID},
        {"delay": timedelta(days=36_525)},
        {"max_attempts": -1, "max_delays": -1},
        {"max_attempts": 1, "max_delays": 0},
    ],
)
def test_a_message_that_can_be_stored_is_let_through(parts: dict[str, Any]) -> None:
    validate(NewMessage(**{"type": "shop.Place", **parts}))


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"type": ""}, "the type must be text of 1 to 500 characters"),
        ({"type": "x" * 501}, "the type must be"),
        ({"type": "a\x00b"}, "the type must be"),
        ({"type": "a\ud800"}, "the type must be"),
        ({"type": 7}, "the type must be"),
        ({"id": "not-a-uuid"}, "the id must be a UUID"),
        ({"headers": ["a"]}, "the headers must be an object"),
        ({"headers": {"n": 7}}, 'the header "n" must be text'),
        ({"headers": {7: "n"}}, 'the header "7" must be text'),
        ({"headers": {"n": "\x00"}}, 'the header "n" must be text'),
        ({"headers": {"n" * 100: "x" * 8_000}}, r"cut, 100 characters"),
        ({"headers": {str(n): "" for n in range(101)}}, "there are 101 headers; the limit is 100"),
        ({"stream": ""}, "the stream must be text of 1 to 500 characters"),
        ({"stream": "x" * 501}, "the stream must be"),
        ({"stream": 7}, "the stream must be"),
        ({"delay": timedelta(seconds=-1)}, "the delay must be from 0 to 36,525 days"),
        ({"delay": timedelta.max}, "the delay must be"),
        ({"max_attempts": 0}, "max_attempts must be a whole number from 1, or -1 for no limit"),
        ({"max_attempts": -2}, "max_attempts must be"),
        ({"max_attempts": 2**31}, "max_attempts must be"),
        ({"max_attempts": True}, "max_attempts must be"),
        ({"max_attempts": -1.0}, "max_attempts must be"),
        ({"max_attempts": "3"}, "max_attempts must be"),
        ({"max_delays": -2}, "max_delays must be a whole number from 0"),
    ],
)
def test_a_message_that_cannot_be_stored_is_refused_with_the_reason(parts: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidMessage, match=reason):
        validate(NewMessage(**{"type": "shop.Place", **parts}))


# --- streams


def test_a_stream_named_by_a_uuid_is_that_uuid() -> None:
    assert stream_uuid(ID) == stream_uuid(str(ID)) == stream_uuid(str(ID).upper()) == ID
    assert stream_uuid(None) is None


@given(st.text("ab-é", min_size=1, max_size=4), st.text("ab-é", min_size=1, max_size=4))
def test_streams_of_two_names_are_two_and_of_one_name_are_one(first: str, second: str) -> None:
    assert (stream_uuid(first) == stream_uuid(second)) == (first == second)


def test_a_stream_name_keeps_its_id_for_ever() -> None:
    assert stream_uuid("order-42") == UUID("f6d6a56c-cbf3-5e15-a9cb-7ba41e494dfc")


@pytest.mark.parametrize("name", [ID.hex, f"{{{ID}}}", f"urn:uuid:{ID}", "0-190b5a000007000800000000000-00-042"])
def test_what_is_not_written_as_a_uuid_is_a_name(name: str) -> None:
    assert stream_uuid(name) != ID


# --- our own lines


def test_a_line_of_our_own_form_gives_all_its_parts() -> None:
    message = parse_line(
        line(id=str(ID), headers={"h": "v"}, stream="s", delay_seconds=1.5, max_attempts=3, max_delays=-1),
        limits=LIMITS,
    )

    assert message == NewMessage(
        type="shop.Place",
        payload={"order": 42},
        raw=b'{"order": 42}',
        id=ID,
        headers={"h": "v"},
        stream="s",
        delay=timedelta(seconds=1.5),
        max_attempts=3,
        max_delays=-1,
    )


def test_a_line_may_be_spaced_and_end_in_a_line_feed() -> None:
    assert parse_line(b' { "type" : "a" , "payload" : null } \r\n', limits=LIMITS) == NewMessage(type="a", raw=b"null")


def test_an_option_that_is_null_is_not_given() -> None:
    options = dict.fromkeys(("id", "headers", "stream", "delay_seconds", "max_attempts", "max_delays"))

    assert parse_line(line(**options), limits=LIMITS) == parse_line(line(), limits=LIMITS)


@pytest.mark.parametrize(
    "payload",
    [rb'{"a\u0000b":1}', b'{"a":1,"a":2}', b"1" * 5_000, b"0.12345678901234567890123", b"1e400", b'{ "b":1,  "a":2 }'],
)
def test_a_line_keeps_the_exact_bytes_of_its_payload(payload: bytes) -> None:
    message = parse_line(b'{"payload": %s, "type": "a"}' % payload, limits=LIMITS)

    encoded = message.encoded(LIMITS)
    assert (message.raw, encoded.raw or encoded.json.encode()) == (payload, payload)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"not json", "not JSON of a message: Expecting value"),
        (b"", "not JSON of a message"),
        (b"[]", "it is not a JSON object"),
        (b"\xff", "not UTF-8 at byte 0"),
        (b'{"type": "a", "payload": NaN}', "NaN is not JSON"),
        (b'{"type": "a", "payload": ' + b"[" * 1_500 + b"]" * 1_500 + b"}", "nests deeper than 100 levels"),
        (b'{"type": "a", "payload": 1, "payload": 2}', 'the key "payload" comes twice'),
        (b'{"payload": 1}', '"type" and "payload" are required'),
        (b'{"type": "a"}', '"type" and "payload" are required'),
        (line(typ="x", Payload=1), "unknown keys: Payload, typ"),
        (line(**{"k" * 1_000: 1}), "cut, 1,000 characters"),
        (line(**{"a\x00": 1}), r"unknown keys: a\\x00"),
        (line(type=7), "the type must be text"),
        (line(id="42"), '"id" must be a UUID'),
        (line(id=7), '"id" must be a UUID'),
        (line(headers=[]), "the headers must be an object of text"),
        (line(headers={"n": 1}), 'the header "n" must be text'),
        (line(stream=5), "the stream must be text"),
        (line(delay_seconds=-1), '"delay_seconds" must be a number from 0'),
        (line(delay_seconds="5"), '"delay_seconds" must be'),
        (line(delay_seconds=True), '"delay_seconds" must be'),
        (b'{"type": "a", "payload": 1, "delay_seconds": 1e400}', '"delay_seconds" must be'),
        (b'{"type": "a", "payload": 1, "delay_seconds": ' + b"1" * 5_000 + b"}", '"delay_seconds" must be'),
        (line(max_attempts=0), "max_attempts must be a whole number from 1"),
        (b'{"type": "a", "payload": 1, "max_attempts": ' + b"1" * 5_000 + b"}", "max_attempts must be"),
        (line(max_delays=1.5), "max_delays must be"),
    ],
)
def test_a_bad_line_is_refused_with_the_reason(text: bytes, reason: str) -> None:
    with pytest.raises(InvalidMessage, match=reason):
        parse_line(text, limits=LIMITS)


# --- CloudEvents


def test_a_cloud_event_gives_its_data_stream_and_attributes_as_headers() -> None:
    text = event(
        data={"order": 42}, partitionkey="order-42", time="2026-01-01T00:00:00Z", tries=3, extra=True, subject=None
    )
    message = parse_line(text, limits=LIMITS)

    assert (message.type, message.payload, message.stream) == ("shop.placed", {"order": 42}, "order-42")
    assert message.headers == {
        "ce-id": "e-1",
        "ce-source": "/shop",
        "ce-time": "2026-01-01T00:00:00Z",
        "ce-tries": "3",
        "ce-extra": "true",
    }


def test_a_cloud_event_keeps_its_id_if_it_is_a_uuid() -> None:
    assert parse_line(event(id=str(ID)), limits=LIMITS).id == ID


def test_other_cloud_event_ids_are_one_per_source_and_id() -> None:
    def message_id(source: str, event_id: str) -> UUID | None:
        return parse_line(event(source=source, id=event_id), limits=LIMITS).id

    ids = {message_id("a", "b"), message_id("a", "c"), message_id("b", "a"), message_id('a", "b', "c")}
    assert message_id("a", "b") == message_id("a", "b")
    assert len(ids) == 4


def test_binary_data_of_a_cloud_event_is_taken_as_the_exact_json_bytes() -> None:
    raw = b'{"a":1,"a":2}'
    message = parse_line(event(data_base64=base64.b64encode(raw).decode()), limits=LIMITS)

    assert message.encoded(LIMITS).raw == raw
    assert received(message) == {"a": 2}


def test_a_cloud_event_without_data_has_a_null_payload() -> None:
    assert received(parse_line(event(), limits=LIMITS)) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (event(id=""), 'a CloudEvent needs "id"'),
        (event(id=7), 'a CloudEvent needs "id"'),
        (event(source=None), 'a CloudEvent needs "source"'),
        (event(type=None), 'a CloudEvent needs "type"'),
        (event(specversion="0.3"), "only CloudEvents of version 1 are known"),
        (event(specversion=2), "only CloudEvents of version 1 are known"),
        (event(data=1, data_base64="MQ=="), '"data" or "data_base64", not both'),
        (event(data_base64="no!"), '"data_base64" is not base64'),
        (event(data_base64=7), '"data_base64" is not base64'),
        (event(partitionkey=7), "the stream must be text"),
        (event(time="\x00"), 'the header "ce-time" must be text'),
    ],
)
def test_a_bad_cloud_event_is_refused_with_the_reason(text: bytes, reason: str) -> None:
    with pytest.raises(InvalidMessage, match=reason):
        parse_line(text, limits=LIMITS)


def test_binary_data_that_is_no_json_cannot_be_sent() -> None:
    message = parse_line(event(data_base64=base64.b64encode(b"\xff\xd8").decode()), limits=LIMITS)

    with pytest.raises(InvalidMessage, match="not UTF-8 at byte 0"):
        message.encoded(LIMITS)


def test_a_huge_number_among_the_attributes_of_a_cloud_event_is_a_reason_or_a_header() -> None:
    text = event()[:-1] + b', "big": ' + b"1" * 5_000 + b"}"

    assert parse_line(text, limits=LIMITS).headers["ce-big"] == "1" * 5_000


def taken_or_refused(text: bytes) -> str:
    """Return the type of the message, or the reason why it is none."""
    try:
        return parse_line(text, limits=LIMITS).type
    except InvalidMessage as exc:
        return exc.reason


@given(st.binary(max_size=60))
def test_any_bytes_are_a_message_or_refused_with_a_reason(text: bytes) -> None:
    assert taken_or_refused(text)


JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text("1a\x00\ud800", max_size=5), st.lists(st.integers())
)
KEYS = ["type", "payload", "id", "headers", "stream", "delay_seconds", "max_attempts", "max_delays", "specversion",
        "source", "data", "data_base64", "partitionkey", "other"]  # fmt: skip


@given(st.dictionaries(st.sampled_from(KEYS), JUNK))
def test_any_members_are_a_message_or_refused_with_a_reason(members: dict[str, Any]) -> None:
    assert taken_or_refused(json.dumps(members).encode())
