"""The filter of the list, without a database."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletters.words.errors import BadFilter
from deadletters.words.filters import Cursor, LetterFilter, reason_name

NOON = datetime(2026, 1, 15, 12, tzinfo=UTC)
TEXTS = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=100)


@given(
    at=st.datetimes(min_value=datetime(1000, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001 - hypothesis adds the zone
    identity=st.uuids(),
)
def test_a_cursor_reads_back_what_it_wrote(at, identity):
    cursor = Cursor(at=at, id=identity)

    assert Cursor.parse(str(cursor)) == cursor


@given(TEXTS)
def test_a_cursor_of_any_text_is_read_or_refused(text):
    with suppress(BadFilter):
        assert isinstance(Cursor.parse(text), Cursor)


@given(st.dictionaries(st.sampled_from(["q", "type", "status", "since", "subject", "size", "after", "x"]), TEXTS))
def test_any_query_string_is_a_filter_that_says_itself_or_is_refused(parameters):
    with suppress(BadFilter):
        filters = LetterFilter.parse(parameters)
        assert filters.words()
        assert LetterFilter.parse(dict(filters.parts())) == LetterFilter(**dict(filters.parts()))


def test_a_filter_goes_through_its_own_query_string():
    from urllib.parse import parse_qsl

    filters = LetterFilter.parse({"q": "a&b", "type": "ü", "status": "held", "since": "7d", "size": "100"})
    assert LetterFilter.parse(dict(parse_qsl(filters.query()))) == filters


@pytest.mark.parametrize(
    ("text", "ago"), [("5m", timedelta(minutes=5)), ("24h", timedelta(hours=24)), ("7d", timedelta(days=7))]
)
def test_a_time_counts_back_from_now(text, ago):
    since, until = LetterFilter(since=text).times(NOON)

    assert (since, until) == (NOON - ago, None)


def test_a_time_without_a_zone_is_utc_and_says_so():
    filters = LetterFilter(since="2026-01-15T12:00", until="2026-01-15T14:00+01:00")

    assert filters.times(NOON) == (NOON, NOON + timedelta(hours=1))
    assert filters.words() == "Dead letters since 2026-01-15T12:00 UTC, until 2026-01-15T14:00+01:00"


def test_only_a_whole_id_is_searched_for_exactly():
    identity = UUID("0192f0c0-1111-7000-8000-00000000aaaa")

    assert LetterFilter(q=str(identity)).exact_id == LetterFilter(q=identity.hex).exact_id == identity
    assert LetterFilter(q=str(identity)[:-1]).exact_id is None
    assert LetterFilter(q="z" * 36).exact_id is None


def test_an_unknown_reason_keeps_its_number():
    assert (reason_name(4), reason_name(77)) == ("validation_error", "77")
