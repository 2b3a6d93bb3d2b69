import pytest

from queues.words.errors import (
    ClaimLost,
    HandlerConflict,
    InvalidMessage,
    InvalidSetting,
    PayloadUnreadable,
    QueuesError,
)


def test_an_error_says_its_docstring_unless_told_more() -> None:
    assert str(ClaimLost()) == "The claim is no longer held: somebody else runs or moved the message."
    assert str(ClaimLost("row 7")) == "row 7"


@pytest.mark.parametrize("error", [InvalidMessage("why"), PayloadUnreadable("why")])
def test_a_refusal_carries_its_reason(error: InvalidMessage | PayloadUnreadable) -> None:
    assert (str(error), error.reason) == ("why", "why")


def test_an_invalid_setting_names_itself_its_value_and_what_it_must_be() -> None:
    assert str(InvalidSetting("MAX_ATTEMPTS", 0, "at least 1")) == "MAX_ATTEMPTS is 0; it must be at least 1"


def test_a_conflict_names_both_handlers_and_the_type() -> None:
    said = str(HandlerConflict("shop.Place", "a.first", "b.second"))

    assert all(name in said for name in ("shop.Place", "a.first", "b.second"))


def test_every_error_is_an_error_of_the_queues() -> None:
    assert all(issubclass(kind, QueuesError) for kind in (ClaimLost, HandlerConflict, InvalidMessage, InvalidSetting))
