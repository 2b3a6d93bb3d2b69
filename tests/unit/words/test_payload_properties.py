"""Any JSON and any bytes: what is stored comes back as it was, or was refused with a reason."""

import json
import math
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from queues.words.errors import InvalidMessage, PayloadUnreadable
from queues.words.payloads import MARK, Encoded, PayloadLimits, decode_payload, encode_bytes, encode_payload
from tests.storable import is_storable, texts_in

LIMITS = PayloadLimits(offload_bytes=2_000, max_bytes=100_000, max_depth=20)


def same(first: Any, second: Any) -> bool:
    """Equal also in type and sign, at any depth; the order of keys does not count."""
    if type(first) is not type(second):
        return False
    match first:
        case dict():
            return first.keys() == second.keys() and all(same(first[key], second[key]) for key in first)
        case list():
            return len(first) == len(second) and all(map(same, first, second))
        case float():
            return first == second and math.copysign(1, first) == math.copysign(1, second)
        case _:
            return bool(first == second)


TOKENS = st.sampled_from(
    ["{", "}", "[", "]", ",", ":", '"a"', '"a"', '"b\\u0000"', '"\\ud800"', '"\\udc00\\ud800"', '"💥"', '"\\', "null",
     "true", "NaN", "-Infinity", "0", "-0", "-0.0", "1e3", "1E-7", "1e400", "-1e400", "1e99999999999999999999",
     "(9*5000)", "(7*20001)", "0.(3*1500)", "9007199254740993", "01", " ",
     "\n", "\ufeff", "\x00", "//", "'", "é"]
)  # fmt: skip
NUMBERS = st.from_regex(r"-?(0|[1-9][0-9]{0,40})(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,4})?", fullmatch=True)
LEAVES = TOKENS | NUMBERS | st.text(max_size=5).map(json.dumps)


def as_object(members: list[tuple[str, str]]) -> str:
    return "{" + ",".join(f"{json.dumps(key)}: {value}" for key, value in members) + "}"


DOCUMENTS = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4).map(lambda parts: f"[{','.join(parts)}]")
        | st.lists(st.tuples(st.sampled_from(["a", "a", "b", "\x00", "\ud800"]), inner), max_size=4).map(as_object)
    ),
    max_leaves=8,
)
BYTES = st.one_of(
    st.binary(max_size=60),
    st.lists(TOKENS, max_size=8).map(lambda parts: "".join(parts).encode()),
    DOCUMENTS.map(str.encode),
    st.integers(1, 60).map(lambda depth: b"[" * depth + b"]" * depth),
    st.integers(1_900, 2_100).map(lambda size: f'"(x*{size})"'.encode()),
)


def written_out(drawn: bytes) -> bytes:
    """Return the bytes that are meant by what was drawn: (9*5000) is a nine five thousand times."""
    return re.sub(rb"\((.)\*([0-9]{4,5})\)", lambda found: found[1] * int(found[2]), drawn)


@given(BYTES)
@settings(max_examples=100)
@example(b'{"a":1,"a":2}')
@example(b'"\xed\xa0\x80"')
@example(b"1e(9*5000)")
def test_any_bytes_are_stored_so_that_they_come_back_or_refused_with_one_reason(drawn: bytes) -> None:
    raw = written_out(drawn)

    encoded = taken(lambda: encode_bytes(raw, limits=LIMITS))
    if isinstance(encoded, InvalidMessage):
        with pytest.raises(PayloadUnreadable) as unreadable:
            decode_payload(None, raw, limits=LIMITS)
        assert encoded.reason == f"the payload is not readable: {unreadable.value.reason}"
        return

    assert encoded.size == len(raw)
    assert (encoded.raw or encoded.json.encode()) == raw
    assert_fits_jsonb(encoded)
    assert same(decode_payload(encoded.json, encoded.raw, limits=LIMITS), decode_payload(None, raw, limits=LIMITS))


def taken(encode: Callable[[], Encoded]) -> Encoded | InvalidMessage:
    try:
        return encode()
    except InvalidMessage as refused:
        return refused


def is_plain_json(value: Any) -> bool:
    """Say whether there is nothing about a value that may be refused."""
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return same(json.loads(text), value) and len(text) < 20_000


def assert_fits_jsonb(encoded: Encoded) -> None:
    """What is in the jsonb column can be stored and shown, and is marked where it is not the payload."""
    shown = json.loads(encoded.json, parse_constant=pytest.fail)
    assert all(is_storable(text) for text in texts_in(shown))
    if encoded.raw is not None and encoded.json.encode() != encoded.raw:
        assert MARK in shown


HALVES = st.text("a\ud83d\udca5", max_size=4)
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.integers(10**999, 10**1_002),
        st.just(5_000).map(lambda digits: 10**digits),
        st.floats(),
        st.just(-0.0),
        st.binary(max_size=9),
        st.text(max_size=6),
        st.sampled_from(["\x00", "a\ud800", "\udfff", math, {1}, {1: 2}]),
        st.just(2_000).map(lambda size: "x" * size),
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("ab\x00\ud800", max_size=2), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES)
@settings(max_examples=100)
def test_any_value_comes_back_identical_or_is_refused(payload: Any) -> None:
    encoded = taken(lambda: encode_payload(payload, limits=LIMITS))
    if isinstance(encoded, InvalidMessage):
        assert not is_plain_json(payload)
        return

    assert_fits_jsonb(encoded)
    assert same(decode_payload(encoded.json, encoded.raw, limits=LIMITS), payload)


@given(HALVES)
def test_two_halves_of_a_character_are_that_character_and_one_alone_stays(text: str) -> None:
    """In JSON an escaped pair is one character, so that no writer can tell them apart."""
    encoded = encode_payload(text, limits=LIMITS)
    joined = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")

    assert decode_payload(encoded.json, encoded.raw, limits=LIMITS) == joined
