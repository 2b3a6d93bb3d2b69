"""What a run is asked for, as it is stored."""

from uuid import UUID

import pytest

from deadletters.words.errors import BadScope
from deadletters.words.filters import LetterFilter
from deadletters.words.scopes import MAX_PICKED, Letters, Matching, Replay, Scope, scope_of

ONE, TWO = UUID(int=1), UUID(int=2)


@pytest.mark.parametrize(
    "scope",
    [
        Letters(ids=[ONE, TWO]),
        Matching(filters=LetterFilter(type="shop.PlaceOrder", status="open", q="a “b”")),
        Matching(filters=LetterFilter()),
        Replay(group_id=ONE, build="4.2"),
    ],
    ids=["letters", "a filter", "everything", "a replay"],
)
def test_a_scope_is_read_back_as_it_was_written(scope: Scope) -> None:
    assert scope_of(scope.as_json()) == scope
    assert scope.words()


def test_a_letter_that_is_picked_twice_is_in_it_once() -> None:
    assert Letters(ids=[ONE, TWO, ONE]).as_json() == {"letters": [str(ONE), str(TWO)]}
    assert Letters(ids=[ONE, ONE]).words() == "1 picked letter"


def test_a_page_of_the_list_and_its_size_are_no_part_of_a_scope() -> None:
    assert Matching(filters=LetterFilter(type="a", size=25)).as_json() == {"filter": {"type": "a"}}


@pytest.mark.parametrize("ids", [[], [UUID(int=n) for n in range(MAX_PICKED + 1)]], ids=["none", "too many"])
def test_none_and_too_many_picked_letters_are_refused(ids: list[UUID]) -> None:
    with pytest.raises(BadScope):
        Letters(ids=ids)


@pytest.mark.parametrize("stored", [{}, {"letters": "all"}, {"replay": {"group": "x"}}, {"filter": []}])
def test_what_is_no_scope_is_refused(stored: dict[str, object]) -> None:
    with pytest.raises(BadScope):
        scope_of(stored)
