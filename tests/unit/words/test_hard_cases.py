"""What has broken other queues, as far as it is about words: payloads and failures, without a database."""

import json
from types import TracebackType
from typing import Any

import pytest

from queues.words.errors import InvalidMessage, PayloadUnreadable
from queues.words.failures import DEFAULT, Subject, attribute, attribution, detail
from queues.words.payloads import MARK, PayloadLimits, decode_payload, encode_bytes, encode_payload
from queues.words.redaction import mask

LIMITS = PayloadLimits()


def raised(exc: BaseException, *, cause: BaseException | None = None) -> BaseException:
    try:
        raise exc from cause
    except BaseException as caught:
        return caught


# --- P1: NUL in a payload


@pytest.mark.parametrize(
    ("raw", "sent", "shown"),
    [
        (rb'{"note":"a\u0000b"}', {"note": "a\x00b"}, {"note": "a\\x00b"}),
        (rb'{"a\u0000b":1}', {"a\x00b": 1}, {"a\\x00b": 1}),
    ],
)
def test_p1_a_nul_is_shown_in_a_marked_rendering_and_the_handler_gets_what_was_sent(
    raw: bytes, sent: Any, shown: Any
) -> None:
    encoded = encode_bytes(raw, limits=LIMITS)

    rendering = json.loads(encoded.json)
    assert "not the exact bytes" in rendering[MARK]
    assert rendering["value"] == shown
    assert "\\u0000" not in encoded.json
    assert encoded.raw == raw
    assert decode_payload(encoded.json, encoded.raw, limits=LIMITS) == sent


def test_p1_a_backslash_before_u0000_is_no_nul_and_stays_untouched() -> None:
    raw = rb'{"note":"a\\u0000b"}'
    encoded = encode_bytes(raw, limits=LIMITS)

    assert (encoded.json.encode(), encoded.raw) == (raw, None)
    assert decode_payload(encoded.json, None, limits=LIMITS) == {"note": "a\\u0000b"}


# --- P2: NaN and the infinities


def test_p2_nan_in_detail_becomes_text_with_a_mark() -> None:
    numbers = {"ratio": float("nan"), "max": float("inf"), "min": float("-inf"), "in": {"list": [float("nan"), 1.5]}}
    failure = attribution(detail(raised(ValueError("no ratio")), {**numbers, "order": 42}))

    kept = json.loads(json.dumps(failure.structure(), allow_nan=False))["detail"]
    marked = [kept["ratio"], kept["max"], kept["min"], kept["in"]["list"][0]]
    assert [text.partition(" ")[0] for text in marked] == ["nan", "inf", "-inf", "nan"]
    assert all(text.endswith(" (no JSON number)") for text in marked)
    assert (kept["order"], kept["in"]["list"][1]) == (42, 1.5)


def test_p2_a_text_that_says_nan_is_no_number_and_gets_no_mark() -> None:
    assert attribution(detail(ValueError(), {"name": "nan"})).detail == {"name": "nan"}


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_p2_a_payload_with_nan_is_unreadable_and_never_sent(number: str) -> None:
    raw = f'{{"score": {number}}}'.encode()

    with pytest.raises(PayloadUnreadable, match=f"^{number} is not JSON$"):
        decode_payload(None, raw, limits=LIMITS)
    with pytest.raises(InvalidMessage, match=f"{number} is not JSON"):
        encode_bytes(raw, limits=LIMITS)


# --- P3: 64-bit numbers


IDS = {
    "id": 1970670598291982291,
    "neg": -9223372036854775808,
    "edge": 9007199254740993,
    "in": {"list": [9007199254740995]},
}


def test_p3_every_digit_of_a_64_bit_number_is_kept_in_payload_detail_and_mask() -> None:
    encoded = encode_payload(IDS, limits=LIMITS)

    assert encoded.json == json.dumps(IDS, separators=(",", ":"))
    assert decode_payload(encoded.json, encoded.raw, limits=LIMITS) == IDS
    assert json.loads(json.dumps(attribution(detail(ValueError(), IDS)).structure())) == {"detail": IDS}
    assert mask(IDS) == IDS


# --- P4: very deep nesting


@pytest.mark.parametrize("depth", [1_500, 10_000])
def test_p4_a_payload_deeper_than_our_own_limit_is_unreadable_and_says_so(depth: int) -> None:
    text = "[" * depth + "]" * depth

    with pytest.raises(PayloadUnreadable) as info:
        decode_payload(text, None, limits=LIMITS)

    assert info.value.reason == "it nests deeper than 100 levels"


def test_p4_a_detail_of_two_thousand_levels_is_cut_and_its_neighbours_stay() -> None:
    deep: Any = "bottom"
    for _ in range(2_000):
        deep = {"in": deep}

    kept = attribution(detail(raised(ValueError()), {"deep": deep, "order": 42})).detail

    assert kept["order"] == 42
    assert "… (cut)" in json.dumps(kept, ensure_ascii=False)
    assert "bottom" not in json.dumps(kept)


# --- E1: NUL and terminal codes in an error


def test_e1_control_characters_are_visible_in_message_trace_and_subjects() -> None:
    exc = attribute(raised(ValueError("bad header \x00\x01\x1b[31mred\x1b[0m")), Subject("or\x00der", "4\x002"))
    failure = attribution(exc)

    assert failure.message == "ValueError: bad header \\x00\\x01\\x1b[31mred\\x1b[0m"
    assert failure.trace.endswith("\n" + failure.message)
    assert failure.subjects == (Subject("or\\x00der", "4\\x002"),)
    assert not set("\x00\x01\x1b") & set(failure.text + str(failure.structure()))


def test_e1_two_attempts_of_one_fault_record_the_same_text() -> None:
    first, second = (attribution(raised(ValueError("bad \x00"), cause=KeyError("\x00"))).text for _ in range(2))

    assert first == second


# --- E2: a failure too big to record


def chained(links: int, root: BaseException) -> BaseException:
    exc = root
    for number in range(links):
        exc = raised(RuntimeError(f"link {number} " + "y" * 10_000), cause=exc)
    return exc


def deepened(exc: BaseException, frames: int) -> BaseException:
    """Give an exception the traceback of a recursion."""
    here = trace = exc.__traceback__
    assert here is not None
    for number in range(frames):  # on two lines in turn: equal ones would be folded
        trace = TracebackType(trace, here.tb_frame, here.tb_lasti, here.tb_lineno + number % 2)
    return exc.with_traceback(trace)


def test_e2_every_part_of_a_huge_failure_is_bounded_and_says_how_long_it_was() -> None:
    exc = deepened(raised(ValueError("x" * 6_000_000), cause=chained(300, KeyError("root"))), 20_000)
    attribute(exc, *(Subject("order", str(number)) for number in range(50_000)))
    detail(exc, {"order": 42, "body": "z" * 12_000_000, "after": 1})

    failure = attribution(exc)

    assert failure.message.endswith("… (cut, 6,000,012 characters)")
    assert "… (cut, 20,001 frames)" in failure.trace
    assert failure.trace.endswith("… (cut, 302 exceptions in all)")
    assert len(failure.subjects) == DEFAULT.subjects
    assert failure.detail["… subjects"] == "cut, 50,000 in all"
    assert failure.detail["order"] == 42
    assert failure.detail["body"].endswith("… (cut, 12,000,000 characters)")
    assert len(failure.text) < DEFAULT.message + DEFAULT.trace + 200
    assert len(json.dumps(failure.structure())) < 2 * DEFAULT.detail


def test_e2_the_longest_possible_subjects_leave_the_structure_bounded() -> None:
    subjects = (Subject(f"{number}" + "é" * 9_000, "💥" * 9_000) for number in range(200))
    failure = attribution(attribute(ValueError(), *subjects))

    structure = json.dumps(failure.structure(), ensure_ascii=False)
    assert len(structure) < DEFAULT.subjects * (2 * (DEFAULT.subject + 50) + 50)
    assert all(subject.id.endswith("… (cut, 9,000 characters)") for subject in failure.subjects)
