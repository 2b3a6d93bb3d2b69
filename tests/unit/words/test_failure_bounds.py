"""Whatever is raised and attached, a failure is bounded, says what is cut, and can be stored."""

import json
from collections.abc import Callable
from types import TracebackType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.words.failures import DEFAULT, Bounds, Subject, attribute, attribution, detail
from tests.raising import ORDER, QUEUE, Bottomless, Broken, CardDeclined, Mute, raised
from tests.storable import is_failure_storable


def test_nul_and_terminal_codes_are_made_visible_everywhere() -> None:
    exc = attribute(raised(ValueError("bad \x00\x01\x1b[31mred\ud800")), Subject("or\x00der", "4\x002\udfff"))
    failure = attribution(detail(exc, {"a\x00b": "c\x00d", "list": ["\ud800"]}))

    assert failure.message == "ValueError: bad \\x00\\x01\\x1b[31mred\\ud800"
    assert failure.subjects == (Subject("or\\x00der", "4\\x002\\udfff"),)
    assert failure.detail == {"a\\x00b": "c\\x00d", "list": ["\\ud800"]}
    assert is_failure_storable(failure)


@pytest.mark.parametrize("exc", [Mute(), Bottomless()])
def test_an_exception_that_cannot_say_itself_is_recorded(exc: Exception) -> None:
    failure = attribution(detail(raised(exc), {"it": exc}))

    assert f"<unprintable {type(exc).__name__}: " in failure.message
    assert f"<unprintable {type(exc).__name__}: " in str(failure.detail["it"])


def test_a_message_of_six_million_characters_is_cut_and_says_so() -> None:
    failure = attribution(raised(ValueError("x" * 6_000_000)))

    assert failure.message.endswith("… (cut, 6,000,012 characters)")
    assert len(failure.message) < DEFAULT.message + 100
    assert len(failure.trace) < DEFAULT.trace


def chain_of(links: int) -> BaseException:
    exc: BaseException = ValueError("the root")
    for number in range(links):
        exc = raised(RuntimeError(f"link {number} " + "y" * 10_000), cause=exc)
    return exc


def test_a_chain_of_three_hundred_links_is_cut_and_says_so() -> None:
    failure = attribution(attribute(chain_of(300), ORDER))

    assert "RuntimeError: link 299" in failure.trace
    assert failure.trace.count("\nRuntimeError: link ") == 20
    assert failure.trace.endswith("… (cut, 301 exceptions in all)")
    assert len(failure.trace) < DEFAULT.trace + 100


def test_subjects_at_the_root_of_a_long_chain_are_kept() -> None:
    root = attribute(ValueError(), ORDER)
    exc: BaseException = root
    for _ in range(300):
        exc = raised(RuntimeError(), cause=exc)

    assert attribution(exc).subjects == (ORDER,)


def recursed(depth: int) -> BaseException:
    """Return an exception whose traceback looks like a recursion of that depth, ending where it was raised."""
    exc = raised(RecursionError("too deep"))
    assert exc.__traceback__ is not None
    here, trace = exc.__traceback__, exc.__traceback__
    for number in range(depth):  # on two lines in turn: equal ones would be folded
        trace = TracebackType(trace, here.tb_frame, here.tb_lasti, recursed.__code__.co_firstlineno + number % 2)
    return exc.with_traceback(trace)


def test_a_traceback_of_twenty_thousand_frames_keeps_where_it_was_raised() -> None:
    trace = attribution(recursed(20_000)).trace

    assert "… (cut, 20,001 frames)" in trace
    assert "raise exc from cause" in trace
    assert len(trace) < DEFAULT.trace


def test_fifty_thousand_subjects_are_cut_and_say_so() -> None:
    exc = attribute(CardDeclined(), *(Subject("order", str(number)) for number in range(50_000)))
    failure = attribution(exc)

    assert failure.subjects == tuple(Subject("order", str(number)) for number in range(DEFAULT.subjects))
    assert failure.detail == {"… subjects": "cut, 50,000 in all"}


def test_exactly_as_many_subjects_as_are_kept_are_not_cut() -> None:
    failure = attribution(attribute(CardDeclined(), *(Subject("order", str(n)) for n in range(DEFAULT.subjects))))

    assert (len(failure.subjects), failure.detail) == (DEFAULT.subjects, {})


def test_a_long_subject_is_cut_and_says_so() -> None:
    (subject,) = attribution(attribute(CardDeclined(), Subject("order", "4" * 9_000))).subjects

    assert subject.id.endswith("… (cut, 9,000 characters)")
    assert len(subject.id) < 600


def nested(depth: int, kind: Callable[[Any], Any]) -> Any:
    value: Any = "bottom"
    for _ in range(depth):
        value = kind(value)
    return value


def cyclic() -> list[Any]:
    value: list[Any] = []
    value.extend([value] * 200)
    return value


@pytest.mark.parametrize(
    "given_detail",
    [
        {"text": "x" * 12_000_000},
        {"bytes": b"\x00" * 3_000_000},
        {str(number): "x" * 100 for number in range(120_000)},
        {"list": ["x" * 100] * 120_000},
        {"numbers": list(range(1_000_000))},
        {"wide": [[[None] * 200] * 200] * 200},
        {"map": {number: number for number in range(100_000)}},
        {"deep": nested(2_000, lambda inner: {"in": inner})},
        {"deep": nested(2_000, lambda inner: [inner])},
        {"cyclic": cyclic()},
        {"digits": 10**900_000},
        {"many digits": [10**900] * 1_000},
        {"k" * 1_000_000: 1},
    ],
    ids=lambda value: next(iter(value))[:12],
)
def test_detail_of_any_size_is_bounded_storable_and_says_what_is_cut(given_detail: dict[str, Any]) -> None:
    failure = attribution(detail(CardDeclined(), given_detail))

    stored = json.dumps(failure.structure(), ensure_ascii=False)
    assert len(stored) < 2 * DEFAULT.detail
    assert any(mark in stored for mark in ("cut", "-bit number"))
    assert is_failure_storable(failure)


def test_not_a_number_is_text_and_the_rest_of_the_detail_is_intact() -> None:
    given_detail = {"ratio": float("nan"), "max": float("inf"), "min": float("-inf"), "code": 7, "share": 0.5}

    assert attribution(detail(CardDeclined(), given_detail)).detail == {
        "ratio": "nan (no JSON number)",
        "max": "inf (no JSON number)",
        "min": "-inf (no JSON number)",
        "code": 7,
        "share": 0.5,
    }


def test_numbers_in_detail_keep_their_digits() -> None:
    given_detail = {"id": 1970670598291982291, "edge": 9007199254740993, "long": int("7" * 900)}
    failure = attribution(detail(CardDeclined(), given_detail))

    assert json.loads(json.dumps(failure.structure()))["detail"] == given_detail


def test_what_is_no_json_is_kept_as_its_text() -> None:
    given_detail: dict[Any, Any] = {"type": ValueError, "set": {1}, "tuple": (1, 2), 7: "seven"}

    assert attribution(detail(CardDeclined(), given_detail)).detail == {
        "type": "<class 'ValueError'>", "set": [1], "tuple": [1, 2], "7": "seven",
    }  # fmt: skip


def test_a_collection_that_raises_takes_nothing_with_it() -> None:
    given_detail = {"list": [1, Broken(), {"in": Broken()}], "code": 7}

    assert attribution(detail(CardDeclined(), given_detail)).detail == {
        "list": [1, "<unprintable Broken: RuntimeError>", {"in": "<unprintable Broken: RuntimeError>"}],
        "code": 7,
    }


POISON = st.text("ab\x00\x1b\ud800é", max_size=12)
JUNK = st.recursive(
    st.one_of(st.none(), st.integers(), st.floats(), st.binary(max_size=20), POISON),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.one_of(POISON, st.integers()), inner, max_size=5),
    max_leaves=8,
)


@given(st.dictionaries(POISON, JUNK, max_size=5), POISON)
def test_whatever_is_attached_the_failure_is_storable_and_bounded(given_detail: dict[str, Any], text: str) -> None:
    tight = Bounds(message=50, trace=300, subjects=2, subject=10, detail=200, detail_items=3, detail_depth=3)
    exc = detail(attribute(raised(ValueError(text)), Subject(text, text), ORDER, QUEUE), given_detail)

    failure = attribution(exc, tight)

    assert is_failure_storable(failure)
    assert len(failure.subjects) <= 2
    assert len(json.dumps(failure.structure(), ensure_ascii=False)) < 2_000
