"""What `add_note` puts on an exception is recorded with its text, and bounded as that is (PEP 678)."""

import pytest

from queues.words.failures import DEFAULT, attribution
from queues.words.outcomes import Terminal


def noted(*notes: object) -> ValueError:
    exc = ValueError("no such order")
    exc.__notes__ = list(notes)  # type: ignore[list-item]
    return exc


def raised(exc: BaseException) -> BaseException:
    with pytest.raises(type(exc)) as caught:
        raise exc
    return caught.value


def test_notes_stand_after_the_text_in_the_trace_and_not_in_the_message() -> None:
    failure = attribution(raised(noted("while row 7 was read", "of file 3")))

    assert failure.message == "ValueError: no such order"
    assert failure.trace.endswith("ValueError: no such order\nwhile row 7 was read\nof file 3")


def test_notes_of_one_that_was_never_raised_are_recorded() -> None:
    assert attribution(noted("row 7")).trace == "ValueError: no such order\nrow 7"
    assert attribution(noted()).trace == ""


def test_notes_of_what_is_behind_and_of_what_is_carried_are_recorded() -> None:
    with pytest.raises(RuntimeError) as caught:
        raise RuntimeError("outer") from noted("row 7")

    assert "ValueError: no such order\nrow 7" in attribution(caught.value).trace
    assert "row 8" in attribution(raised(Terminal(noted("row 8")))).trace


def test_notes_are_bounded_in_number_and_length_and_say_so() -> None:
    many = attribution(raised(noted(*(f"note {n}" for n in range(30))))).trace
    long = attribution(raised(noted("x" * 100_000))).trace

    assert "note 19" in many
    assert "note 20" not in many
    assert "… (cut, 30 notes)" in many
    assert len(long) < DEFAULT.trace


@pytest.mark.parametrize("notes", [7, None, "text", ("a",), [1, None, object()]])
def test_what_is_no_note_is_left_out(notes: object) -> None:
    exc = ValueError("no such order")
    exc.__notes__ = notes  # type: ignore[assignment]

    assert attribution(raised(exc)).trace.endswith("ValueError: no such order")
