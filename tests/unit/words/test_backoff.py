from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.words.backoff import backoff

BASE, CAP = timedelta(seconds=5), timedelta(seconds=300)
SPREAD = st.floats(0, 1, exclude_max=True)


@given(st.integers(-5, 10**30), st.floats(1, 100), SPREAD)
def test_backoff_stays_between_half_the_base_and_the_cap(failures: int, factor: float, spread: float) -> None:
    waited = backoff(failures, base=BASE, factor=factor, cap=CAP, spread=spread)

    assert BASE / 2 <= waited <= CAP


@given(st.integers(1, 40), SPREAD)
def test_backoff_is_between_half_and_all_of_the_step(failures: int, spread: float) -> None:
    step = min(BASE * 2 ** (failures - 1), CAP)

    waited = backoff(failures, base=BASE, factor=2, cap=CAP, spread=spread)

    assert step / 2 <= waited <= step


@given(st.integers(1, 100), SPREAD)
def test_backoff_never_shrinks_with_more_failures(failures: int, spread: float) -> None:
    def wait(count: int) -> timedelta:
        return backoff(count, base=BASE, factor=2, cap=CAP, spread=spread)

    assert wait(failures) <= wait(failures + 1)


@pytest.mark.parametrize(("failures", "seconds"), [(1, 2.5), (2, 5), (3, 10), (7, 150), (8, 150)])
def test_backoff_doubles_from_five_seconds_up_to_three_hundred(failures: int, seconds: float) -> None:
    assert backoff(failures, base=BASE, factor=2, cap=CAP, spread=0) == timedelta(seconds=seconds)


@pytest.mark.parametrize("failures", [0, -3])
def test_backoff_counts_less_than_one_failure_as_one(failures: int) -> None:
    assert backoff(failures, base=BASE, factor=2, cap=CAP, spread=0) == BASE / 2


def test_backoff_of_a_huge_count_with_a_whole_factor_is_the_cap() -> None:
    assert backoff(10**12, base=BASE, factor=2, cap=CAP, spread=0) == CAP / 2
