import json
import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.words.errors import InvalidMessage, PayloadUnreadable
from queues.words.payloads import (
    MARK,
    Encoded,
    PayloadLimits,
    decode_payload,
    depth_of,
    encode_bytes,
    encode_payload,
    members_of,
)

LIMITS = PayloadLimits()
NUMBER = "\ue000"
"""Stands around the digits of a number, which have to leave their quotes."""


def as_jsonb(text: str) -> str:
    """Return a JSON text as PostgreSQL's jsonb gives it back; raises where jsonb would refuse it."""

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        return dict(sorted(dict(found).items(), key=lambda pair: (len(pair[0].encode()), pair[0].encode())))

    def number(digits: str) -> Any:
        value = Decimal(digits)
        assert value.adjusted() < 131_072
        return f"{NUMBER}{abs(value) if value == 0 else value:f}{NUMBER}"

    value = json.loads(text, parse_int=number, parse_float=number, object_pairs_hook=pairs)
    written = json.dumps(value, ensure_ascii=False).replace(f'"{NUMBER}', "").replace(f'{NUMBER}"', "")
    assert "\\u0000" not in written.replace("\\\\", "")
    assert written == written.encode("utf-8", "replace").decode()
    return written


def stored(encoded: Encoded) -> Any:
    """Return what a handler gets after the payload was in the database."""
    return decode_payload(as_jsonb(encoded.json), encoded.raw, limits=LIMITS)


def same(first: Any, second: Any) -> bool:
    """Equal also in type and sign: 1 is not 1.0 and 0.0 is not -0.0."""
    return first == second and repr(_sorted(first)) == repr(_sorted(second))


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(inner) for inner in value] if isinstance(value, list) else value


def has_no_pair_of_surrogates(text: str) -> bool:
    return "".join(text).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass") == text


TEXT = st.text('ab\x00\x1f"\\/u\ud800\udfffé💥\n', max_size=8).filter(has_no_pair_of_surrogates)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), TEXT),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=8,
)


# --- round trips


@given(JSON)
def test_any_json_value_comes_back_identical_from_the_database(payload: Any) -> None:
    assert same(stored(encode_payload(payload, limits=LIMITS)), payload)


@given(JSON, st.sampled_from([None, 2]), st.booleans())
def test_exact_bytes_come_back_identical_from_the_database(payload: Any, indent: int | None, ascii_only: bool) -> None:
    raw = json.dumps(payload, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "backslashreplace")
    encoded = encode_bytes(raw, limits=LIMITS)

    assert same(stored(encoded), payload)
    assert encoded.size == len(raw)
    assert encoded.raw in (None, raw)


@given(st.from_regex(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?", fullmatch=True))
def test_any_number_as_written_comes_back_as_python_reads_it(digits: str) -> None:
    assert same(stored(encode_bytes(digits.encode(), limits=LIMITS)), json.loads(digits))


def test_ordinary_payloads_are_stored_once() -> None:
    payload = {"order": 9007199254740993, "price": 19.99, "tiny": 1e-7, "name": "Zoë 💥", "lines": [None, True, {}]}
    encoded = encode_payload(payload, limits=LIMITS)

    assert encoded.raw is None
    assert json.loads(encoded.json) == payload


@pytest.mark.parametrize(
    "payload",
    [
        {"id": 1970670598291982291, "neg": -9223372036854775808, "in": {"list": [9007199254740995]}},
        {"note": "a\\u0000b"},
        10**999,
    ],
)
def test_what_only_looks_dangerous_is_left_alone(payload: Any) -> None:
    encoded = encode_payload(payload, limits=LIMITS)

    assert encoded.raw is None
    assert same(stored(encoded), payload)


def test_a_tuple_is_sent_as_a_list() -> None:
    assert stored(encode_payload((1, (2,)), limits=LIMITS)) == [1, [2]]


# --- what jsonb cannot hold


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (rb'{"note":"a\u0000b"}', {"note": "a\x00b"}),
        (rb'{"a\u0000b":1}', {"a\x00b": 1}),
        (rb'{"half":"\ud83d"}', {"half": "\ud83d"}),
        (rb'["\udca5\ud83d"]', ["\udca5\ud83d"]),
        (b'{"a":1,"a":2}', {"a": 2}),
        (b'{"in":[{"a":1,"b":0,"a":1}]}', {"in": [{"a": 1, "b": 0}]}),
        (b"[1e99999999999999999999]", [math.inf]),
        (b"[1e-000000199999]", [0.0]),
        (b"[1e-2000]", [0.0]),
        (b"0." + b"1" * 2_000, float("0." + "1" * 20)),
    ],
    ids=lambda value: repr(value)[:24],
)
def test_what_jsonb_cannot_hold_is_kept_as_bytes_beside_a_marked_rendering(raw: bytes, value: Any) -> None:
    encoded = encode_bytes(raw, limits=LIMITS)

    assert encoded.raw == raw
    assert MARK in json.loads(as_jsonb(encoded.json))
    assert same(stored(encoded), value)


def test_a_number_of_five_thousand_digits_reaches_the_handler_with_every_digit() -> None:
    encoded = encode_bytes(b"[" + b"7" * 5_000 + b"]", limits=LIMITS)

    assert MARK in json.loads(encoded.json)
    assert stored(encoded) == [(10**5_000 - 1) // 9 * 7]


def test_a_number_too_long_to_read_is_refused_with_its_length() -> None:
    assert encode_bytes(b"9" * 20_000, limits=LIMITS).size == 20_000
    with pytest.raises(InvalidMessage, match="a number has 20,001 digits; the limit is 20,000"):
        encode_bytes(b"-" + b"9" * 20_000, limits=LIMITS)


def test_a_rendering_shows_the_value_readably() -> None:
    encoded = encode_bytes(rb'{"a\u0000b":["c\ud800",1e9999,3,1.5]}', limits=LIMITS)

    assert json.loads(encoded.json)["value"] == {"a\\x00b": ["c\\ud800", "a number out of range", 3, 1.5]}


def test_a_rendering_of_a_huge_number_says_how_long_it_is() -> None:
    encoded = encode_bytes(b"1" * 5_000, limits=LIMITS)

    assert json.loads(encoded.json)["value"] == "a number of about 4,999 digits"


@pytest.mark.parametrize("raw", [b"1e3", b"1.5E+22", b"-0.0", b"[1e400]", b"0e0"])
def test_a_number_that_jsonb_writes_in_another_way_is_kept_as_bytes_too(raw: bytes) -> None:
    encoded = encode_bytes(raw, limits=LIMITS)

    assert (encoded.json, encoded.raw) == (raw.decode(), raw)
    assert same(stored(encoded), json.loads(raw))


# --- size


def test_a_payload_over_the_offload_limit_is_bytes_and_a_marked_stub() -> None:
    payload = {"blob": "é" * 600_000}
    encoded = encode_payload(payload, limits=LIMITS)

    stub = json.loads(as_jsonb(encoded.json))
    assert encoded.raw is not None
    assert (encoded.size, len(encoded.raw)) == (1_200_011, 1_200_011)
    assert stub[MARK] == "only the bytes are kept: 1,200,011"
    assert len(encoded.json) < 20_000
    assert stored(encoded) == payload


def test_a_payload_of_exactly_the_offload_limit_is_not_offloaded() -> None:
    limits = PayloadLimits(offload_bytes=10)

    assert encode_bytes(b'"12345678"', limits=limits).raw is None
    assert encode_bytes(b'"123456789"', limits=limits).raw == b'"123456789"'


def test_a_payload_over_the_limit_is_refused_with_both_sizes() -> None:
    limits = PayloadLimits(max_bytes=1_000)

    assert encode_bytes(b"1" * 1_000, limits=limits).size == 1_000
    with pytest.raises(InvalidMessage, match=r"has 1,001 bytes; the limit is 1,000"):
        encode_bytes(b"1" * 1_001, limits=limits)


def test_a_small_value_that_unfolds_to_a_huge_one_is_refused() -> None:
    value: Any = [0]
    for _ in range(60):
        value = [value, value]

    with pytest.raises(InvalidMessage, match="more than 100,000 bytes"):
        encode_payload(value, limits=PayloadLimits(max_bytes=100_000))


# --- what is no JSON


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ({"score": math.nan}, "not JSON"),
        ([math.inf], "not JSON"),
        ({1: "a"}, "has the key 1; keys must be text"),
        ({"in": [{b"k": 1}]}, "has the key b'k'; keys must be text"),
        ({"at": object()}, "object is not JSON serializable"),
        ({"bytes": b"x"}, "bytes is not JSON serializable"),
        ({"set": {1}}, "set is not JSON serializable"),
    ],
)
def test_a_value_that_is_no_json_is_refused_with_the_reason(payload: Any, reason: str) -> None:
    with pytest.raises(InvalidMessage, match=reason):
        encode_payload(payload, limits=LIMITS)


def test_a_number_that_python_cannot_write_is_refused() -> None:
    with pytest.raises(InvalidMessage, match="not JSON: Exceeds the limit"):
        encode_payload(10**5_000, limits=LIMITS)


def test_a_value_that_holds_itself_is_refused() -> None:
    cyclic: list[Any] = []
    cyclic.append(cyclic)

    with pytest.raises(InvalidMessage, match="nests deeper than 100 levels"):
        encode_payload(cyclic, limits=LIMITS)


UNREADABLE = [
    (b'{"score": NaN}', "NaN is not JSON"),
    (b"[Infinity]", "Infinity is not JSON"),
    (b"[-Infinity]", "-Infinity is not JSON"),
    (b'{"a": "\xff"}', "not UTF-8 at byte 7"),
    (b'"\xed\xa0\x80"', "not UTF-8 at byte 1"),
    (b"\xef\xbb\xbf{}", "begins with a byte order mark"),
    (b"", "Expecting value"),
    (b"{'a': 1}", "Expecting property name"),
    (b"{} {}", "Extra data"),
    (b'"raw \x00 nul"', "Invalid control character"),
    (b"[1,]", "Expecting value|Illegal trailing comma"),
    (b"[01]", "Expecting"),
]


@pytest.mark.parametrize(("raw", "reason"), UNREADABLE)
def test_bytes_that_are_no_json_are_unreadable_with_the_reason(raw: bytes, reason: str) -> None:
    with pytest.raises(PayloadUnreadable, match=reason):
        decode_payload(None, raw, limits=LIMITS)
    with pytest.raises(InvalidMessage, match=reason):
        encode_bytes(raw, limits=LIMITS)


@pytest.mark.parametrize("text", [None, "", '{"score": NaN}'])
def test_a_stored_text_that_is_no_json_is_unreadable(text: str | None) -> None:
    with pytest.raises(PayloadUnreadable):
        decode_payload(text, None, limits=LIMITS)


def test_the_exact_bytes_win_over_the_rendering() -> None:
    assert decode_payload('{"shown": 1}', b'{"exact": 2}', limits=LIMITS) == {"exact": 2}


# --- depth


SHAPES = [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")]


@pytest.mark.parametrize("depth", [1_500, 10_000])
@pytest.mark.parametrize(("opening", "closing"), SHAPES)
def test_deep_bytes_are_refused_without_a_recursion_error(depth: int, opening: str, closing: str) -> None:
    text = opening * depth + "1" + closing * depth

    with pytest.raises(PayloadUnreadable, match="nests deeper than 100 levels"):
        decode_payload(text, None, limits=LIMITS)
    with pytest.raises(InvalidMessage, match="nests deeper than 100 levels"):
        encode_bytes(text.encode(), limits=LIMITS)


@pytest.mark.parametrize("depth", [1_500, 10_000])
def test_brackets_that_never_close_are_refused_without_a_recursion_error(depth: int) -> None:
    with pytest.raises(PayloadUnreadable):
        decode_payload("[" * depth, None, limits=LIMITS)


@pytest.mark.parametrize("depth", [1_500, 10_000])
def test_a_deep_value_is_refused_without_a_recursion_error(depth: int) -> None:
    value: Any = 1
    for number in range(depth):
        value = [value] if number % 2 else {"a": value}

    with pytest.raises(InvalidMessage, match="nests deeper than 100 levels"):
        encode_payload(value, limits=LIMITS)


def test_a_limit_above_what_the_interpreter_can_read_is_no_recursion_error() -> None:
    limits = PayloadLimits(max_depth=10**6)

    with pytest.raises(PayloadUnreadable):
        decode_payload("[" * 200_000 + "]" * 200_000, None, limits=limits)


@pytest.mark.parametrize(("depth", "fits"), [(100, True), (101, False)])
def test_the_depth_limit_is_the_deepest_that_is_read_and_sent(depth: int, fits: bool) -> None:
    value: Any = []
    for _ in range(depth - 1):
        value = [value, {}]

    if fits:
        assert same(stored(encode_payload(value, limits=LIMITS)), value)
        return
    with pytest.raises(InvalidMessage):
        encode_payload(value, limits=LIMITS)
    with pytest.raises(PayloadUnreadable):
        decode_payload(json.dumps(value), None, limits=LIMITS)


@given(JSON)
def test_depth_is_that_of_the_parsed_value(payload: Any) -> None:
    def depth(value: Any) -> int:
        if not isinstance(value, list | dict):
            return 0
        return 1 + max(map(depth, value.values() if isinstance(value, dict) else value), default=0)

    assert depth_of(json.dumps(payload)) == depth(payload)


@pytest.mark.parametrize(
    ("text", "depth"),
    [('"[[["', 0), ('["[[\\"[[["]', 1), ('["\\\\",[]]', 2), ('["never closed [[[', 1), ('["ends in \\', 1)],
)
def test_brackets_inside_text_do_not_count(text: str, depth: int) -> None:
    assert depth_of(text) == depth


@pytest.mark.parametrize("part", ['\\"', '"', "\\", "[", '[""]', "x"])
def test_depth_of_long_text_made_to_be_slow_is_found(part: str) -> None:
    """A quadratic pattern takes minutes here."""
    assert depth_of('["' + part * 200_000) >= 1


# --- members


@given(st.dictionaries(TEXT, JSON, max_size=5), st.sampled_from([None, 1]))
def test_members_are_the_values_and_the_exact_bytes_of_each(document: dict[str, Any], indent: int | None) -> None:
    line = json.dumps(document, indent=indent).encode()
    members = members_of(b" \t" + line + b"\r\n ", limits=LIMITS)

    assert same({key: value for key, (value, _) in members.items()}, document)
    assert all(same(json.loads(raw), document[key]) and raw in line for key, (_, raw) in members.items())


@pytest.mark.parametrize(
    ("line", "reason"),
    [(b"[]", "not a JSON object"), (b"7", "not a JSON object"), (b'{"a":1,"\\u0061":2}', 'the key "a" comes twice')],
)
def test_members_of_what_has_none_or_names_one_twice_are_refused(line: bytes, reason: str) -> None:
    with pytest.raises(PayloadUnreadable, match=reason):
        members_of(line, limits=LIMITS)
