"""How pages say when something was, or will be."""

from datetime import UTC, datetime, timedelta

import pytest

from deadletters.templatetags.deadletters import ago

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("apart", "said"),
    [
        (timedelta(days=-2000), "2,000 d ago"),
        (timedelta(days=-1), "1 d ago"),
        (timedelta(minutes=-59), "59 min ago"),
        (timedelta(seconds=-1), "1 s ago"),
        (timedelta(), "now"),
        (timedelta(seconds=60), "now"),
        (timedelta(seconds=61), "in 1 min"),
        (timedelta(hours=3), "in 3 h"),
        (timedelta(days=3), "in 3 d"),
        (timedelta(days=2000), "in 2,000 d"),
    ],
)
def test_a_time_is_said_in_its_largest_fitting_unit_whichever_side_of_now_it_is_on(apart: timedelta, said: str) -> None:
    assert ago(NOON + apart, NOON) == said
