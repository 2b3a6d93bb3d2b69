"""How far a run is, without a database."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletters.words.errors import BadFilter
from deadletters.words.filters import ITEM_STATES, ItemFilter, PlaceCursor, RunFilter
from deadletters.words.progress import NAMES, Progress, meter, span_words

COUNTS = st.dictionaries(st.sampled_from(ITEM_STATES), st.integers(0, 10**6))


def test_every_state_of_an_item_has_a_name_and_a_place_in_the_meter() -> None:
    assert set(NAMES) == set(ITEM_STATES)
    assert len(meter(dict.fromkeys(ITEM_STATES, 1), width=100, height=10).parts) == len(ITEM_STATES)


@given(COUNTS)
def test_a_meter_shows_every_state_that_is_there_within_its_width(counts: dict[str, int]) -> None:
    drawn = meter(counts, width=200, height=12)

    assert {part.key: part.count for part in drawn.parts} == {key: n for key, n in counts.items() if n}
    assert drawn.total == sum(counts.values())
    assert all(float(part.width) >= 1 for part in drawn.parts)
    assert all(float(part.x) + float(part.width) <= 200.1 for part in drawn.parts)
    assert all(f"{part.count:,} {part.name}" in drawn.summary for part in drawn.parts)


@given(COUNTS)
def test_the_numbers_of_a_run_add_up(counts: dict[str, int]) -> None:
    progress = Progress(state="running", counts=counts)

    assert progress.waiting + progress.unanswered + progress.ended == progress.total == sum(counts.values())


def test_one_failure_of_a_hundred_thousand_is_seen() -> None:
    drawn = meter({"recovered": 99_999, "failed_again": 1}, width=600, height=20)

    assert [(part.key, part.width) for part in drawn.parts] == [("recovered", "596.0"), ("failed_again", "2.0")]


@pytest.mark.parametrize(
    ("progress", "words"),
    [
        (Progress(state="freezing", counts={"waiting": 1200}), "Collecting its letters"),
        (Progress(state="ready", counts={"waiting": 7, "skipped": 2}), "Waits for its start: 7 to send"),
        (
            Progress(state="running", canary=5, counts={"waiting": 9, "sent": 2, "recovered": 3}),
            "Canary: 3 of 5 answered",
        ),
        (Progress(state="running", canary=5, counts={"sent": 2}), "Canary: 0 of 2 answered"),
        (
            Progress(state="paused", wave=2, canary=5, counts={"waiting": 9, "sent": 2, "recovered": 3}),
            "Paused. Wave 2: 5 of 14 done or under way",
        ),
        (
            Progress(state="stopped", counts={"sent": 1}, stop_reason="stopped itself: 4 of 5 canaries failed again"),
            "Stopped itself: 4 of 5 canaries failed again. 1 still without an answer",
        ),
        (Progress(state="starting", counts={"waiting": 7}), "Starts: 7 to send"),
        (
            Progress(state="running", counts={"waiting": 7}, stop_reason="stopped by olga"),
            "Ends, stopped by olga: 7 not sent stay dead",
        ),
        (
            Progress(state="running", counts={"failed_again": 3}, stop_reason="stopped itself: 3 of 3 failed"),
            "Ends, stopped itself: 3 of 3 failed",
        ),
        (Progress(state="stopped", counts={}), "Stopped"),
        (Progress(state="finished", counts={}, stop_reason="no letter matches"), "Finished: no letter matches"),
        (Progress(state="stopped", counts={}, stop_reason="4 of 5 answered failed"), "Stopped: 4 of 5 answered failed"),
        (
            Progress(state="finished", counts={"recovered": 9, "skipped": 1}),
            "Finished: 9 of 10 recovered",
        ),
    ],
)
def test_where_a_run_is_is_said_in_a_sentence(progress: Progress, words: str) -> None:
    assert progress.words() == words


def test_the_rest_takes_what_the_rate_says_and_longer_where_answers_are_slower() -> None:
    counts = {"waiting": 100, "recovered": 50}

    assert Progress(state="running", counts=counts).seconds_left(rate=10, elapsed=0) == 10
    assert Progress(state="running", counts=counts).seconds_left(rate=10, elapsed=100) == 200
    assert Progress(state="running", counts=counts).seconds_left(rate=0.1, elapsed=1) == 1000
    assert Progress(state="running", counts={"waiting": 9}).seconds_left(rate=None, elapsed=5) is None
    assert Progress(state="paused", counts=counts).seconds_left(rate=10, elapsed=5) is None
    assert Progress(state="running", counts=counts, canary=5).seconds_left(rate=10, elapsed=5) is None


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "0 s"), (59, "59 s"), (90, "2 min"), (7199, "120 min"), (86_400, "24 h"), (1e6, "12 d")],
)
def test_a_span_is_said_in_one_unit(seconds: float, words: str) -> None:
    assert span_words(seconds) == words


def test_runs_are_filtered_by_state_kind_person_and_group() -> None:
    group = "0192f0c0-2222-7000-8000-00000000bbbb"
    filters = RunFilter.parse({"state": "running", "kind": "person", "actor": "olga", "group": group})

    assert filters.words() == f"Recovery runs that run, begun by a person, of olga, on group {group}"
    assert str(filters.group_id) == group
    for wrong in ({"state": "gone"}, {"kind": "cat"}, {"group": "x"}, {"after": "x"}, {"owner": "olga"}):
        with pytest.raises(BadFilter):
            RunFilter.parse(wrong)


@given(st.integers(-(2**62), 2**62))
def test_a_page_of_a_run_begins_after_a_place(place: int) -> None:
    filters = ItemFilter.parse({"state": "failed_again", "after": str(PlaceCursor(place=place))})

    assert filters.after == PlaceCursor(place=place)
    assert filters.words() == "Letters of the run that are failed again"


@pytest.mark.parametrize("parameters", [{"state": "gone"}, {"after": "x"}, {"after": "9" * 19}, {"after": "٣"}])
def test_a_page_of_a_run_that_cannot_be_is_refused(parameters: dict[str, str]) -> None:
    with pytest.raises(BadFilter):
        ItemFilter.parse(parameters)
