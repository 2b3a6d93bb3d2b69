"""Charts that the server draws."""

import re
from datetime import UTC, datetime, timedelta, timezone
from math import isfinite

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletters.words.charts import (
    DAY,
    FOOT,
    GUTTER,
    HEAD,
    HOUR,
    MAX_SERIES,
    OTHERS,
    Axis,
    Bars,
    Bucket,
    Mark,
    bars,
    sparkline,
)

MIDNIGHT = datetime(2026, 1, 31, tzinfo=UTC)
TODAY = Axis(start=MIDNIGHT, step=HOUR, steps=24)
NUMBER = re.compile(r"-?\d+(\.\d+)?")
COUNTS = st.integers(0, 10**18) | st.integers(0, 5)


def chart(*counts: dict[str, int], axis: Axis = TODAY, marks: tuple[Mark, ...] = ()) -> Bars:
    """Draw one bucket for each step from the axis' start on."""
    buckets = [Bucket(at=axis.at(place), counts=each) for place, each in enumerate(counts)]
    return bars(buckets, axis, width=640, height=200, marks=marks)


def test_a_sparkline_runs_from_edge_to_edge_and_its_peak_touches_the_top() -> None:
    line = sparkline([0, 5, 10], width=100, height=22, ends_at=MIDNIGHT + 4 * HOUR)

    assert line.points == "0,21 50,11 100,1"
    assert line.area == "M0,22 L0,21 L50,11 L100,1 L100,22 Z"
    assert line.end == ("100", "1")
    assert (line.peak, line.total) == (10, 15)
    assert line.summary == "peak 10 at 04:00 UTC, 15 in 3 h"


@pytest.mark.parametrize(
    ("counts", "points", "summary"),
    [
        ([], "", "none in 0 min"),
        ([0], "0,21 100,21", "none in 1 h"),
        ([3], "0,1 100,1", "peak 3 at 00:00 UTC, 3 in 1 h"),
        ([0, 0], "0,21 100,21", "none in 2 h"),
        ([-1, 1], "0,21 100,1", "peak 1 at 00:00 UTC, 1 in 2 h"),
    ],
)
def test_a_sparkline_of_little_is_a_flat_line_or_none(counts: list[int], points: str, summary: str) -> None:
    line = sparkline(counts, width=100, height=22, ends_at=MIDNIGHT)

    assert (line.points, line.summary) == (points, summary)
    assert bool(line.area) is bool(points)


@given(st.lists(COUNTS, max_size=50), st.integers(1, 2000), st.integers(2, 500))
def test_a_sparkline_stays_within_its_box(counts: list[int], width: int, height: int) -> None:
    line = sparkline(counts, width=width, height=height, ends_at=MIDNIGHT)

    for point in line.points.split():
        x, y = point.split(",")
        assert NUMBER.fullmatch(x)
        assert NUMBER.fullmatch(y)
        assert 0 <= float(x) <= width
        assert 0 <= float(y) <= height


def test_a_bar_stands_in_its_hour_and_its_segments_on_each_other() -> None:
    drawn = chart({"a": 30}, {}, {"a": 10, "b": 30})

    assert drawn.series == ["a", "b"]
    third = drawn.bars[2]
    assert (third.x, third.width) == ("90", "24")
    assert [(part.series, part.index, part.count, part.y, part.height) for part in third.segments] == [
        ("a", 0, 10, "138.5", "43.5"),
        ("b", 1, 30, "8", "130.5"),
    ]
    assert third.label == "02:00 UTC: 40 (a 10, b 30)"
    assert drawn.bars[0].label == "00:00 UTC: 30"
    assert (drawn.bars[1].total, drawn.bars[1].segments) == (0, [])
    assert len(drawn.bars) == 24


def test_a_chart_says_itself_in_words() -> None:
    drawn = chart({}, {}, {}, {"a": 120}, {"a": 100, "b": 20}, {"b": 100})

    assert drawn.summary == "peak 120 at 03:00 UTC, 340 in 24 h"
    assert (drawn.peak, drawn.total) == (120, 340)


@pytest.mark.parametrize(
    ("step", "steps", "summary"),
    [
        (timedelta(minutes=5), 6, "peak 1,234 at 00:00 UTC, 1,234 in 30 min"),
        (HOUR, 48, "peak 1,234 at 2026-01-31 00:00 UTC, 1,234 in 2 d"),
        (HOUR, 36, "peak 1,234 at 2026-01-31 00:00 UTC, 1,234 in 36 h"),
        (DAY, 7, "peak 1,234 at 2026-01-31, 1,234 in 7 d"),
    ],
)
def test_words_fit_the_time_that_is_shown(step: timedelta, steps: int, summary: str) -> None:
    assert chart({"a": 1234}, axis=Axis(start=MIDNIGHT, step=step, steps=steps)).summary == summary


def test_times_are_said_in_utc() -> None:
    india = MIDNIGHT.astimezone(timezone(timedelta(hours=5, minutes=30)))
    drawn = chart({"a": 1}, axis=Axis(start=india, step=HOUR, steps=24), marks=(Mark(at=india, label="g1"),))

    assert drawn.summary == "peak 1 at 00:00 UTC, 1 in 24 h"
    assert drawn.x_ticks[0].label == "00:00"
    assert drawn.marks[0].label == "g1, 2026-01-31 00:00 UTC"


def test_what_lies_outside_is_left_out_and_buckets_of_one_step_are_added() -> None:
    late, early = MIDNIGHT + 24 * HOUR, MIDNIGHT - timedelta(microseconds=1)
    times = [early, MIDNIGHT, MIDNIGHT + timedelta(minutes=59), late]
    drawn = bars(
        [Bucket(at=at, counts={"a": 1, "b": -5}) for at in times],
        TODAY,
        width=640,
        height=200,
        marks=[Mark(at=at, label="g") for at in times],
    )

    assert (drawn.total, drawn.bars[0].total, drawn.series) == (2, 2, ["a"])
    assert [mark.x for mark in drawn.marks] == ["40", "64.58"]


def test_marks_stand_where_their_moment_is_in_order_of_time() -> None:
    noon = MIDNIGHT + 12 * HOUR
    drawn = chart(marks=(Mark(at=noon, label="a"), Mark(at=MIDNIGHT, label="b")))

    assert [(mark.x, mark.label) for mark in drawn.marks] == [
        ("40", "b, 2026-01-31 00:00 UTC"),
        ("340", "a, 2026-01-31 12:00 UTC"),
    ]


def test_of_many_series_the_smallest_are_others() -> None:
    many = {f"g{number}": 100 - number for number in range(MAX_SERIES + 3)}
    drawn = chart({"late": 0, **many}, {"g0": 1, "g7": 1})

    assert drawn.series == ["g0", "g1", "g2", "g3", "g4", OTHERS]
    assert [part.count for part in drawn.bars[0].segments] == [100, 99, 98, 97, 96, 95 + 94 + 93]
    assert drawn.bars[1].label == "01:00 UTC: 2 (g0 1, others 1)"


def test_exactly_as_many_series_as_are_told_apart_have_no_others() -> None:
    assert OTHERS not in chart({f"g{number}": 1 for number in range(MAX_SERIES)}).series


@pytest.mark.parametrize(
    ("peak", "labels"),
    [
        (0, ["0", "1"]),
        (1, ["0", "1"]),
        (4, ["0", "1", "2", "3", "4"]),
        (5, ["0", "2", "4", "6"]),
        (120, ["0", "50", "100", "150"]),
        (8000, ["0", "2,000", "4,000", "6,000", "8,000"]),
        (25_000, ["0", "10k", "20k", "30k"]),
        (1_900_000, ["0", "500k", "1M", "1.5M", "2M"]),
    ],
)
def test_y_ticks_are_round_numbers_that_reach_the_peak(peak: int, labels: list[str]) -> None:
    drawn = chart({"a": peak})

    assert [tick.label for tick in drawn.y_ticks] == labels
    assert drawn.y_ticks[0].place == drawn.bottom == str(200 - FOOT)
    assert drawn.y_ticks[-1].place == drawn.top == str(HEAD)


@pytest.mark.parametrize(
    ("axis", "labels"),
    [
        (TODAY, ["00:00", "03:00", "06:00", "09:00", "12:00", "15:00", "18:00", "21:00"]),
        (Axis(start=MIDNIGHT + 22 * HOUR, step=HOUR, steps=3), ["22:00", "23:00", "00:00"]),
        (Axis(start=MIDNIGHT + 5 * HOUR, step=HOUR, steps=96), ["02-01", "02-02", "02-03", "02-04"]),
        (Axis(start=MIDNIGHT, step=DAY, steps=3), ["01-31", "02-01", "02-02"]),
        (Axis(start=MIDNIGHT, step=7 * DAY, steps=4), ["01-31", "02-07", "02-14", "02-21"]),
        (Axis(start=MIDNIGHT, step=timedelta(minutes=7), steps=30), []),
    ],
)
def test_x_ticks_are_at_round_times(axis: Axis, labels: list[str]) -> None:
    found = [tick.label for tick in chart(axis=axis).x_ticks]

    assert found[: len(labels)] == labels
    assert len(found) <= 8


def test_one_among_millions_can_be_seen() -> None:
    drawn = chart({"a": 1}, {"a": 5_000_000})

    assert drawn.bars[0].segments[0].height == "1"


BUCKETS = st.lists(
    st.builds(
        Bucket,
        at=st.datetimes(datetime(2026, 1, 30), datetime(2026, 2, 3), timezones=st.just(UTC)),  # noqa: DTZ001 - zone added
        counts=st.dictionaries(st.text(max_size=3), COUNTS, max_size=8),
    ),
    max_size=20,
)


@given(BUCKETS, st.sampled_from([timedelta(minutes=1), HOUR, DAY]), st.integers(0, 300), st.integers(100, 900))
def test_every_number_of_a_chart_is_finite_and_within_it(
    buckets: list[Bucket], step: timedelta, steps: int, width: int
) -> None:
    drawn = bars(buckets, Axis(start=MIDNIGHT, step=step, steps=steps), width=width, height=120)

    for bar in drawn.bars:
        assert GUTTER <= float(bar.x) <= float(bar.x) + float(bar.width) <= width + 0.02
        assert sum(part.count for part in bar.segments) == bar.total
        for part in bar.segments:
            assert NUMBER.fullmatch(part.y)
            assert NUMBER.fullmatch(part.height)
            assert HEAD - 0.02 <= float(part.y) <= float(part.y) + float(part.height) <= 120 - FOOT + 0.02
    assert all(isfinite(float(tick.place)) for tick in (*drawn.y_ticks, *drawn.x_ticks))
    assert drawn.total == sum(bar.total for bar in drawn.bars)
    assert len(drawn.series) <= MAX_SERIES + 1
