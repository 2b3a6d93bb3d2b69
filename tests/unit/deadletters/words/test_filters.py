"""The filters of the lists, without a database."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletters.words.errors import BadFilter
from deadletters.words.filters import (
    GROUP_SORTS,
    GROUP_STATES,
    CountCursor,
    Cursor,
    GroupFilter,
    LetterFilter,
    SubjectFilter,
    reason_name,
)

NOON = datetime(2026, 1, 15, 12, tzinfo=UTC)
ID = "0192f0c0-1111-7000-8000-00000000aaaa"
GROUP = UUID("0192f0c0-2222-7000-8000-00000000bbbb")
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


WHOLE: dict[str, str] = {
    "status": "given_up",
    "disposition": "give_up",
    "owner": "ann",
    "type": "shop.Pay: now",
    "reason": "validation_error",
    "cause": "worker_lost",
    "source": "outbox",
    "destination": "topic/eu",
    "perspective": "order totals",
    "stream": ID,
    "subject": "order:a:b",
    "group": GROUP.hex,
    "fingerprint": "0123456789abcdef",
    "generation": "2026.1+g1",
    "q": "{} 100%",
    "since": "24h",
    "until": "2026-01-31",
    "size": "25",
}


def test_every_filter_of_letters_goes_through_the_query_string_and_is_said() -> None:
    filters = LetterFilter.parse(WHOLE)

    assert LetterFilter.parse(dict(parse_qsl(filters.query()))) == filters
    assert filters.words() == (
        "Dead letters in state given up, given up by a person, owned by ann, type shop.Pay: now, "
        "reason validation error, cause worker lost, from the outbox, to topic/eu, of perspective order totals, "
        f"of stream {ID}, about order:a:b, of group {GROUP.hex}, with fingerprint 0123456789abcdef, "
        "that died on build 2026.1+g1, with “{} 100%” in them, since 24 hours ago, until 2026-01-31 UTC"
    )


def test_a_filter_of_letters_says_what_it_means_to_the_database() -> None:
    filters = LetterFilter.parse(WHOLE)

    assert (filters.group_id, filters.stream_id) == (GROUP, UUID(ID))
    assert filters.disposition_number == 3
    assert filters.subject_pair == ("order", "a:b")
    assert (LetterFilter().group_id, LetterFilter().stream_id, LetterFilter().disposition_number) == (None, None, None)


def test_nobody_is_an_owner_of_its_own() -> None:
    assert LetterFilter(owner="-").is_unowned
    assert GroupFilter(owner="-").is_unowned
    assert not LetterFilter(owner="ann").is_unowned
    assert LetterFilter(owner="-").words() == "Dead letters owned by nobody"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("group", "order 42"),
        ("group", f"{{{ID}}}"),
        ("stream", ID[:-1]),
        ("stream", "z" * 32),
        ("fingerprint", "0123456789abcde"),
        ("fingerprint", "0123456789ABCDEF"),
        ("fingerprint", "0123456789abcdef0"),
        ("fingerprint", "٣" * 16),
        ("cause", "lost"),
        ("disposition", "maybe"),
        ("disposition", "3"),
        ("status", "4"),
        ("source", "wh_inbox"),
        ("reason", "4"),
        ("subject", "order"),
        ("owner", "x" * 201),
        ("destination", "x" * 501),
        ("generation", "a\x00b"),
        ("q", "\ud800"),
        ("size", "1000"),
        ("since", "soon"),
        ("causes", "terminal"),
    ],
)
def test_a_value_that_is_no_value_is_refused(name: str, value: str) -> None:
    with pytest.raises(BadFilter):
        LetterFilter.parse({name: value})


def test_a_long_subject_and_type_are_filtered_by() -> None:
    assert LetterFilter.parse({"subject": f"{'t' * 500}:{'i' * 500}"}).subject_pair == ("t" * 500, "i" * 500)
    assert LetterFilter.parse({"type": "t" * 500}).type == "t" * 500


@given(
    st.dictionaries(
        st.sampled_from(["state", "owner", "type", "q", "sort", "after", "size", "status"]),
        TEXTS | st.sampled_from(["new", "open", "-", "25", f"5_{'0' * 32}"]),
    ),
    st.sampled_from([GroupFilter, SubjectFilter]),
)
def test_any_query_string_of_any_list_is_a_filter_or_is_refused(parameters: dict[str, str], kind: Any) -> None:
    with suppress(BadFilter):
        filters = kind.parse(parameters)
        assert filters.words()
        assert kind.parse(dict(parse_qsl(filters.query(after=str(filters.after or ""))))) == filters


@pytest.mark.parametrize("sort", GROUP_SORTS)
@pytest.mark.parametrize("state", GROUP_STATES)
def test_every_state_and_order_of_groups_is_said_and_goes_through_the_query_string(state: str, sort: str) -> None:
    filters = GroupFilter.parse({"state": state, "owner": "ann", "type": "shop.Pay", "q": "no funds", "sort": sort})

    assert GroupFilter.parse(dict(parse_qsl(filters.query()))) == filters
    said = f"Groups {GROUP_STATES[state]}, owned by ann, of type shop.Pay, with “no funds” in them"
    assert filters.words() == (said if sort == "last_seen" else f"{said}, {GROUP_SORTS[sort]}")


def test_groups_are_ordered_by_when_they_were_seen_unless_said_otherwise() -> None:
    assert GroupFilter() == GroupFilter.parse({"sort": "last_seen", "size": "50"})
    assert (GroupFilter().words(), GroupFilter().query()) == ("All groups", "")
    assert GroupFilter(sort="open").words() == "All groups, the one with most open letters first"
    assert GroupFilter(sort="open").is_empty


def test_the_place_of_a_page_of_groups_is_of_the_kind_of_its_order() -> None:
    by_time, by_count = Cursor(at=NOON, id=UUID(ID)), CountCursor(count=1_000_000, id=UUID(ID))

    assert GroupFilter.parse({"after": str(by_time)}).after == by_time
    assert GroupFilter.parse({"after": str(by_time), "sort": "first_seen"}).after == by_time
    assert GroupFilter.parse({"after": str(by_count), "sort": "total"}).after == by_count
    for sort, cursor in (("open", by_time), ("last_seen", by_count)):
        with pytest.raises(BadFilter):
            GroupFilter.parse({"sort": sort, "after": str(cursor)})


@pytest.mark.parametrize("parameters", [{"sort": "owner"}, {"sort": "-open"}, {"state": "closed"}, {"sort": ""}])
def test_groups_have_no_other_states_and_orders(parameters: dict[str, str]) -> None:
    with pytest.raises(BadFilter):
        GroupFilter(**parameters)


def test_another_order_begins_at_the_first_page() -> None:
    filters = GroupFilter(after=Cursor(at=NOON, id=UUID(ID)), state="new")

    assert filters.query(sort="open") == "state=new&sort=open"


@given(st.integers(0, 10**18 - 1), st.uuids())
def test_a_count_cursor_reads_back_what_it_wrote(count: int, identity: UUID) -> None:
    cursor = CountCursor(count=count, id=identity)

    assert CountCursor.parse(str(cursor)) == cursor


@pytest.mark.parametrize(
    "text", ["", "5", "5_", "_" + "0" * 32, "-5_" + "0" * 32, "٣_" + "0" * 32, "9" * 19 + "_" + "0" * 32]
)
def test_a_count_cursor_of_another_text_is_refused(text: str) -> None:
    with pytest.raises(BadFilter):
        CountCursor.parse(text)


def test_subjects_are_filtered_by_type_and_by_how_their_ids_begin() -> None:
    after = CountCursor(count=3, id=UUID(ID))
    filters = SubjectFilter.parse({"type": "order", "q": "a:b", "after": str(after), "size": "100"})

    assert filters == SubjectFilter(type="order", q="a:b", after=after, size=100)
    assert filters.words() == "Subjects of type order, whose ids begin with “a:b”"
    assert filters.query() == "type=order&q=a%3Ab&size=100"
    assert SubjectFilter().words() == "All subjects"
