"""The search of the list: a line of tokens and text that is a filter, and the filter as such a line."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletters.words.errors import BadFilter
from deadletters.words.filters import LetterFilter, read_search, write_search
from deadletters.words.filters.tokens import KEYS

TEXTS = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), min_size=1, max_size=60)
ODD = st.one_of(TEXTS, st.text(st.sampled_from('a:"\\ \t-/é'), min_size=1, max_size=20))
FREE = ("type", "owner", "destination", "perspective", "generation", "q")


@given(st.dictionaries(st.sampled_from(FREE), ODD.filter(str.strip)))
def test_every_filter_is_written_as_a_search_that_reads_back_as_it(values):
    filters = LetterFilter.parse(values)

    assert read_search(write_search(filters)) == filters


@given(ODD)
def test_any_text_is_read_or_refused_and_reads_the_same_when_it_is_written_again(text):
    with suppress(BadFilter):
        filters = read_search(text)
        assert read_search(write_search(filters)) == filters


def test_tokens_and_text_in_any_order_are_one_filter():
    wanted = LetterFilter(type="order.placed", reason="validation_error", since="24h", q="boom bang")

    assert read_search("type:order.placed reason:validation_error since:24h boom bang") == wanted
    assert read_search(" boom since:24h  bang reason:validation_error type:order.placed ") == wanted
    assert read_search("") == LetterFilter()


@pytest.mark.parametrize(
    ("text", "filters"),
    [
        ('type:"shop.Pay: now"', LetterFilter(type="shop.Pay: now")),
        ("subject:order:a:b", LetterFilter(subject="order:a:b")),
        ("owner:-", LetterFilter(owner="-")),
        ("state:held", LetterFilter(status="held")),
        ("build:2026.1", LetterFilter(generation="2026.1")),
        ('"status:held"', LetterFilter(q="status:held")),
        ('"a \\"b\\" \\\\ c"', LetterFilter(q='a "b" \\ c')),
        ("ValueError: no such order", LetterFilter(q="ValueError: no such order")),
        ("error: no such order", LetterFilter(q="error: no such order")),
        ("https://shop.example/pay", LetterFilter(q="https://shop.example/pay")),
        ("shop.errors.Declined:51", LetterFilter(q="shop.errors.Declined:51")),
        ('5" nails', LetterFilter(q='5" nails')),
        ("- x", LetterFilter(q="- x")),
    ],
)
def test_what_is_a_token_and_what_is_text(text, filters):
    assert read_search(text) == filters


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "stauts:held",
            "There is no filter “stauts”; did you mean “status”? A text with a colon goes in quotation marks.",
        ),
        ("sate:held", "There is no filter “sate”; did you mean “status”?"),
        ("host:5432", "There is no filter “host”. A text with a colon goes in quotation marks."),
        ("q:x", "There is no filter “q”."),
        ("after:x", "There is no filter “after”"),
        ("status:held status:open", "The filter “status” is given more than once"),
        ("state:held status:open", "The filter “status” is given more than once"),
        ("status:", "The filter “status” has no value"),
        ('type:" "', "The filter “type” has no value"),
        ("-status:held", "“-status:” would mean all but these"),
        ('"boom', "A quotation mark is not closed."),
        ('type:"boom', "A quotation mark is not closed."),
        ("status:zombie", "“zombie” is no status"),
        ("again:no", "“no” is no again"),
        ("x" * 8_001, "A search has at most 8,000 characters."),
    ],
)
def test_what_is_not_understood_is_refused_by_name(text, said):
    with pytest.raises(BadFilter) as refused:
        read_search(text)

    assert str(refused.value).startswith(said)


def test_every_filter_has_a_key_or_is_the_text():
    assert set(KEYS) | {"q"} == set(LetterFilter.SAID)
