import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.words.text import bounded, bounded_middle, cut, storable, text_of, visible
from tests.storable import is_storable

ANY_TEXT = st.text("aé💥\x00\x1b\x7f\x9b\r\n\t\ud800\udfff", max_size=30)


@given(ANY_TEXT)
def test_storable_text_has_no_nul_and_no_lone_surrogate(text: str) -> None:
    assert is_storable(storable(text))


@given(st.text("aé💥\x1b\x7f\x9b\r\n\t\\"))
def test_storable_leaves_storable_text_as_it_is(text: str) -> None:
    assert storable(text) == text


def test_storable_shows_what_it_replaced() -> None:
    assert storable("a\x00b\ud800ü") == "a\\x00b\\ud800ü"


def test_visible_shows_terminal_codes_and_keeps_lines_and_tabs() -> None:
    assert visible("bad \x1b[31mred\x7f\x9b\r\n\tnext\rlast") == "bad \\x1b[31mred\\x7f\\x9b\r\n\tnext\\x0dlast"


def test_cut_says_how_long_the_text_was() -> None:
    assert cut("x" * 6_000_000, 3) == "xxx… (cut, 6,000,000 characters)"
    assert cut("xxx", 3) == "xxx"


@given(ANY_TEXT, st.integers(0, 20))
def test_bounded_text_is_storable_and_within_its_limit(text: str, limit: int) -> None:
    kept = bounded(text, limit)

    assert is_storable(kept)
    assert kept == visible(text) or kept.endswith(f"… (cut, {len(text):,} characters)")
    assert len(kept.partition("… (cut, ")[0]) <= max(limit, 0)


def test_bounded_text_stays_bounded_when_making_it_visible_lengthens_it() -> None:
    assert bounded("\x00" * 10, 10) == "\\x00\\x00\\x… (cut, 10 characters)"


def test_bounded_middle_keeps_head_and_tail() -> None:
    kept = bounded_middle("h" * 500 + "t" * 500, 10)

    assert kept == "hhhhh\n… (cut, 1,000 characters) …\nttttt"


@given(ANY_TEXT, st.integers(2, 20))
def test_bounded_middle_is_storable_and_bounded(text: str, limit: int) -> None:
    kept = bounded_middle(text, limit)

    assert is_storable(kept)
    assert len(kept) <= limit + len(f"\n… (cut, {len(text):,} characters) …\n")


class Mute:
    def __str__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(("value", "text"), [(42, "42"), (Mute(), "<unprintable Mute: RuntimeError>")])
def test_text_of_survives_a_value_that_cannot_say_itself(value: object, text: str) -> None:
    assert text_of(value) == text
