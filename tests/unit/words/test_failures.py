import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

import django.db
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.words.classifiers import DEFAULT_CLASSIFIERS
from queues.words.failures import DEFAULT, Bounds, Failure, Subject, attribute, attributed, attribution, detail
from queues.words.outcomes import Delay, FailureReason, Ruling, Terminal, Verdict, rule
from tests.storable import texts_in

ORDER, QUEUE, TENANT = Subject("order", "42"), Subject("queue", "q"), Subject("tenant", "t")


class CardDeclined(Exception): ...


def raised(exc: BaseException, *, cause: BaseException | None = None) -> BaseException:
    try:
        raise exc from cause
    except BaseException as caught:
        return caught


def is_storable(failure: Failure) -> bool:
    """Say whether PostgreSQL takes it: as text, and as JSON without NUL, lone surrogates and NaN."""
    json.dumps(failure.structure(), allow_nan=False)
    texts = [failure.text, *texts_in(failure.structure())]
    return all("\x00" not in text and text == text.encode("utf-8", "replace").decode() for text in texts)


# --- attaching


@pytest.mark.parametrize("attach", [lambda exc: attribute(exc, ORDER), lambda exc: detail(exc, {"code": 7})])
def test_attaching_returns_the_same_exception_and_leaves_type_and_text(attach: Callable[[Any], Any]) -> None:
    exc = CardDeclined("do not honour")

    assert attach(exc) is exc
    assert (type(exc), str(exc), exc.args) == (CardDeclined, "do not honour", ("do not honour",))


def test_attaching_to_nothing_gives_nothing() -> None:
    assert attribute(None, ORDER) is None
    assert detail(None, {"code": 7}) is None


def test_attributed_marks_what_leaves_the_block_and_lets_it_through_unchanged() -> None:
    exc = CardDeclined()

    with pytest.raises(CardDeclined) as info, attributed(ORDER, code=7):
        raise exc

    assert info.value is exc
    assert attribution(exc).structure() == {"subjects": [{"type": "order", "id": "42"}], "detail": {"code": 7}}


def test_attributed_leaves_alone_what_does_not_fail() -> None:
    with attributed(ORDER):
        done = True

    assert done


def test_attributed_does_not_mark_a_shutdown() -> None:
    stop = KeyboardInterrupt()

    with pytest.raises(KeyboardInterrupt), attributed(ORDER):
        raise stop

    assert attribution(stop).subjects == ()


@dataclass(frozen=True)
class FrozenError(Exception):
    code: int


class Hidden(Exception):
    """Lets nobody look at its attributes."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)


@pytest.mark.parametrize("given_detail", [{"code": 7}, [("code", 7)]])
def test_an_exception_that_hides_its_attributes_is_attributed_all_the_same(given_detail: Any) -> None:
    exc = detail(attribute(Hidden("no"), ORDER), given_detail)

    failure = attribution(raised(exc))

    assert (failure.subjects, failure.detail) == ((ORDER,), {"code": 7})
    assert failure.message.endswith("Hidden: no")


def test_what_is_no_mapping_is_kept_as_detail_all_the_same() -> None:
    careless: Any = 42

    assert attribution(detail(CardDeclined(), careless)).detail == {"detail": 42}
    assert attribution(detail(CardDeclined(), Broken())).detail == {"detail": "<unprintable Broken: RuntimeError>"}


def test_an_exception_that_refuses_attributes_is_attributed_all_the_same() -> None:
    exc = FrozenError(7)

    with pytest.raises(FrozenError), attributed(ORDER):
        raise exc

    assert attribution(exc).subjects == (ORDER,)


def test_what_is_no_subject_is_taken_as_one_of_unknown_type() -> None:
    careless: Any = 42

    assert attribution(attribute(CardDeclined(), careless)).subjects == (Subject("", "42"),)


def test_a_subject_is_text_whatever_it_is_given() -> None:
    number: Any = 42

    assert Subject("order", number) == ORDER


# --- reading back


def test_a_plain_exception_is_a_message_only_failure() -> None:
    failure = attribution(raised(ValueError("no")))

    assert (failure.message, failure.subjects, failure.detail) == ("ValueError: no", (), {})
    assert failure.structure() is None


def test_the_merge_takes_subjects_outermost_first_and_detail_from_the_outermost_layer() -> None:
    inner = detail(attribute(CardDeclined("inner"), ORDER), {"stage": "charge", "shared": "inner"})
    outer = raised(RuntimeError("outer"), cause=inner)
    detail(attribute(outer, QUEUE, ORDER), {"shared": "outer"})

    failure = attribution(outer)

    assert failure.subjects == (QUEUE, ORDER)
    assert failure.detail == {"shared": "outer", "stage": "charge"}
    assert failure.message == "RuntimeError: outer"


def test_of_layers_on_one_exception_the_last_attached_is_the_outermost() -> None:
    exc = CardDeclined()
    with pytest.raises(CardDeclined), attributed(TENANT, shared="outer"), attributed(ORDER, QUEUE, shared="inner"):
        raise exc

    assert attribution(exc).subjects == (TENANT, ORDER, QUEUE)
    assert attribution(exc).detail == {"shared": "outer"}


def while_handling(outer: Exception, inner: Exception, *, suppress: bool = False) -> Exception:
    outer.__context__, outer.__suppress_context__ = inner, suppress
    return outer


@pytest.mark.parametrize(
    "exc",
    [
        raised(RuntimeError(), cause=attribute(CardDeclined(), ORDER)),
        while_handling(RuntimeError(), attribute(CardDeclined(), ORDER)),
        ExceptionGroup("g", [ValueError(), ExceptionGroup("inner", [attribute(CardDeclined(), ORDER)])]),
        raised(RuntimeError(), cause=ExceptionGroup("g", [attribute(CardDeclined(), ORDER)])),
    ],
)
def test_subjects_are_found_behind_causes_contexts_and_nested_groups(exc: BaseException) -> None:
    assert attribution(exc).subjects == (ORDER,)


def test_subjects_behind_from_none_are_not_taken() -> None:
    exc = while_handling(RuntimeError(), attribute(CardDeclined(), ORDER), suppress=True)

    assert attribution(exc).subjects == ()


def test_subjects_of_all_leaves_come_in_the_order_of_the_group() -> None:
    group = ExceptionGroup("g", [attribute(ValueError(), QUEUE), attribute(KeyError(), ORDER, QUEUE)])

    assert attribution(attribute(group, TENANT)).subjects == (TENANT, QUEUE, ORDER)


def test_a_cycle_of_causes_is_read_once() -> None:
    first, second = attribute(KeyError("a"), ORDER), attribute(ValueError("b"), QUEUE)
    first.__cause__, second.__cause__ = second, first

    assert attribution(first).subjects == (ORDER, QUEUE)


@given(st.lists(st.lists(st.sampled_from([ORDER, QUEUE, TENANT]), max_size=4), max_size=5))
def test_subjects_are_unique_and_in_order_of_first_appearance(layers: list[list[Subject]]) -> None:
    exc = CardDeclined()
    for layer in reversed(layers):
        attribute(exc, *layer)

    flat = [subject for layer in layers for subject in layer]
    assert list(attribution(exc).subjects) == sorted(set(flat), key=flat.index)


@pytest.mark.parametrize(
    ("exc", "message"),
    [
        (ValueError("no"), "ValueError: no"),
        (ValueError(), "ValueError"),
        (KeyError("order"), "KeyError: 'order'"),
        (ExceptionGroup("g", [ValueError()]), "ExceptionGroup: g (1 sub-exception)"),
        (json.JSONDecodeError("no", "x", 0), "json.decoder.JSONDecodeError: no: line 1 column 1 (char 0)"),
    ],
)
def test_the_message_reads_as_in_a_traceback(exc: Exception, message: str) -> None:
    assert attribution(exc).message == message


def test_the_trace_names_every_exception_of_the_chain_and_where_it_was_raised() -> None:
    failure = attribution(
        raised(RuntimeError("outer"), cause=raised(ValueError("inner"), cause=KeyError("never raised")))
    )

    outer, inner, last = failure.trace.split("\n\nBehind it:\n")
    assert outer.startswith("Traceback (most recent call last):\n  File ")
    assert "test_failures.py" in outer
    assert outer.endswith("\nRuntimeError: outer")
    assert inner.endswith("\nValueError: inner")
    assert last == "KeyError: 'never raised'"


def test_an_exception_that_was_never_raised_has_no_trace() -> None:
    assert attribution(ValueError("no")).text == "ValueError: no"


# --- beside verdict and class


def test_an_attributed_deadlock_is_still_one_to_those_that_look_for_it() -> None:
    exc = attribute(psycopg.errors.DeadlockDetected("deadlock"), ORDER)
    outer = raised(django.db.OperationalError("deadlock"), cause=detail(exc, {"stage": "charge"}))

    assert isinstance(outer.__cause__, psycopg.errors.DeadlockDetected)
    assert rule(outer, DEFAULT_CLASSIFIERS) == Ruling(verdict=Verdict.RETRY, reason=FailureReason.THROTTLED)
    assert attribution(outer).structure() == {
        "subjects": [{"type": "order", "id": "42"}],
        "detail": {"stage": "charge"},
    }


@pytest.mark.parametrize(
    ("wrapper", "verdict"),
    [
        (Terminal("no"), Verdict.TERMINAL),
        (Delay(7), Verdict.DELAY),
        (RuntimeError("no"), Verdict.RETRY),
        (ExceptionGroup("g", [ValueError(), Terminal("no")]), Verdict.TERMINAL),
    ],
)
def test_what_stands_around_an_attributed_exception_decides_and_loses_no_subject(
    wrapper: Exception, verdict: Verdict
) -> None:
    exc = raised(wrapper, cause=attribute(CardDeclined(), ORDER))

    assert rule(exc, ()).verdict is verdict
    assert attribution(exc).subjects == (ORDER,)


# --- stored and read again


def test_a_failure_reads_back_from_what_is_stored() -> None:
    exc = detail(attribute(raised(ValueError("two\nlines")), ORDER, QUEUE), {"nested": {"list": [1, 2.5, None, True]}})
    failure = attribution(exc)

    structure = json.loads(json.dumps(failure.structure()))

    assert Failure.from_stored(failure.text, structure) == failure


def test_a_structure_alone_reads_back_as_everything_but_the_message() -> None:
    failure = Failure(message="no", subjects=(ORDER, QUEUE), detail={"stage": "charge", "nested": {"list": [1]}})

    assert Failure.from_stored(None, failure.structure()) == replace(failure, message="")


def test_the_structure_never_holds_the_message() -> None:
    failure = Failure(message="the message", subjects=(ORDER,))

    assert failure.structure() == {"subjects": [{"type": "order", "id": "42"}]}


@pytest.mark.parametrize(
    "structure",
    [None, {}, [], "text", 7, {"subjects": 7, "detail": "x"}, {"subjects": [7, {"type": "a"}, None], "detail": [1]}],
)
def test_a_malformed_structure_reads_as_message_only(structure: Any) -> None:
    assert Failure.from_stored("ValueError: no", structure) == Failure(message="ValueError: no")


def test_a_text_of_another_system_reads_as_its_first_line_and_the_rest() -> None:
    failure = Failure.from_stored("System.Exception: no\n   at Shop.Charge()", None)

    assert (failure.message, failure.trace) == ("System.Exception: no", "   at Shop.Charge()")
    assert Failure.from_stored(None, None) == Failure(message="")


def test_ids_are_those_of_one_type_in_order() -> None:
    failure = Failure(message="", subjects=(ORDER, QUEUE, Subject("order", "7")))

    assert failure.ids("order") == ("42", "7")
    assert failure.ids("tenant") == ()
    assert Failure(message="nothing recorded").ids("order") == ()


# --- poison and size


def test_nul_and_terminal_codes_are_made_visible_everywhere() -> None:
    exc = attribute(raised(ValueError("bad \x00\x01\x1b[31mred\ud800")), Subject("or\x00der", "4\x002\udfff"))
    failure = attribution(detail(exc, {"a\x00b": "c\x00d", "list": ["\ud800"]}))

    assert failure.message == "ValueError: bad \\x00\\x01\\x1b[31mred\\ud800"
    assert failure.subjects == (Subject("or\\x00der", "4\\x002\\udfff"),)
    assert failure.detail == {"a\\x00b": "c\\x00d", "list": ["\\ud800"]}
    assert is_storable(failure)


class Mute(Exception):
    def __str__(self) -> str:
        raise ZeroDivisionError("no")

    __repr__ = __str__


class Bottomless(Exception):
    def __str__(self) -> str:
        return str(self)


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
    assert is_storable(failure)


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


class Broken(Mapping[str, int]):
    def __getitem__(self, key: str) -> int:
        raise RuntimeError("no")

    def __iter__(self) -> Any:
        return iter(["a"])

    def __len__(self) -> int:
        return 1


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

    assert is_storable(failure)
    assert len(failure.subjects) <= 2
    assert len(json.dumps(failure.structure(), ensure_ascii=False)) < 2_000
