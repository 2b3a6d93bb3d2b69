"""The plan of a recovery run: its waves, when it stops itself, and what it cannot be."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletters.words.errors import BadPlan
from deadletters.words.plans import Plan


@pytest.mark.parametrize(
    ("plan", "limits"),
    [
        (Plan(canary=5, ramp=4), [5, 25, 105, 425]),
        (Plan(canary=10, ramp=1), [10, 20, 30, 40]),
        (Plan(canary=5, ramp=0), [5, None, None, None]),
        (Plan(canary=0, ramp=4), [None, None, None, None]),
    ],
)
def test_each_wave_is_so_many_times_the_one_before(plan: Plan, limits: list[int | None]) -> None:
    assert [plan.limit_of_wave(wave) for wave in range(4)] == limits


def test_waves_without_end_stay_numbers() -> None:
    assert Plan(canary=1_000, ramp=1_000).limit_of_wave(100_000) == 10**15


@pytest.mark.parametrize(
    ("failed", "answered", "is_canary", "stops"),
    [
        (0, 0, True, False),
        (0, 5, True, False),
        (1, 5, True, True),
        (1, 6, True, False),
        (9, 10, False, False),
        (10, 50, False, True),
        (10, 51, False, False),
    ],
)
def test_a_canary_stops_at_the_share_alone_and_the_rest_at_a_number_too(
    failed: int, answered: int, is_canary: bool, stops: bool
) -> None:
    assert Plan().stops(failed=failed, answered=answered, is_canary=is_canary) is stops


def test_a_plan_without_a_stop_rule_never_stops() -> None:
    plan = Plan(stop_failures=None)
    assert not any(plan.stops(failed=1000, answered=1000, is_canary=canary) for canary in (True, False))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("canary", -1),
        ("canary", 1_001),
        ("canary", 2.5),
        ("canary", True),
        ("ramp", 0.5),
        ("ramp", float("nan")),
        ("rate", 0),
        ("rate", "fast"),
        ("in_flight", 0),
        ("stop_failures", 0),
        ("stop_share", 0),
        ("stop_share", 1.1),
        ("stop_share", None),
        ("deadline_seconds", 0),
        ("include_held", "yes"),
        ("starts_at", "tomorrow"),
        ("starts_at", "2026-01-31T12:00"),
        ("colour", "red"),
    ],
)
def test_what_a_plan_cannot_be_is_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(BadPlan) as refused:
        Plan.from_json({field: value})
    assert refused.value.field == field


plans = st.builds(
    Plan,
    canary=st.integers(0, 1_000),
    ramp=st.just(0.0) | st.floats(1, 1_000),
    rate=st.none() | st.floats(0.001, 100_000),
    in_flight=st.integers(1, 100_000),
    stop_failures=st.none() | st.integers(1, 1_000_000),
    stop_share=st.floats(0.001, 1),
    deadline_seconds=st.integers(1, 604_800),
    include_held=st.booleans(),
    starts_at=st.none() | st.just(datetime(2026, 1, 31, 12, tzinfo=UTC)),
)


@given(plans)
def test_a_plan_is_read_back_as_it_was_written(plan: Plan) -> None:
    assert Plan.from_json(plan.as_json()) == plan
    assert plan.words()
