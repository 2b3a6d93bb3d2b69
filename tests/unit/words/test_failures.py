"""What is attached to an exception, and the failure that is read back from it or from what is stored."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import django.db
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.words.classifiers import DEFAULT_CLASSIFIERS
from queues.words.failures import Failure, Subject, attribute, attributed, attribution, detail
from queues.words.outcomes import Delay, FailureReason, Ruling, Terminal, Verdict, rule
from tests.raising import ORDER, QUEUE, TENANT, Broken, CardDeclined, Hidden, raised


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
    assert "raising.py" in outer
    assert outer.endswith("\nRuntimeError: outer")
    assert inner.endswith("\nValueError: inner")
    assert last == "KeyError: 'never raised'"


def test_an_exception_that_was_never_raised_has_no_trace() -> None:
    assert attribution(ValueError("no")).text == "ValueError: no"


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
