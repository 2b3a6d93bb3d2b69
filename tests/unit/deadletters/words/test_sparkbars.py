"""Small charts by build: every count is drawn, in its place, within its frame."""

import re
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from deadletters.words.charts import OTHERS
from deadletters.words.sparkbars import MAX_BUILDS, sparkbars

NOON = datetime(2026, 1, 15, 12, tzinfo=UTC)
HOURS = st.lists(
    st.dictionaries(st.sampled_from("abcdefg"), st.integers(min_value=1, max_value=10**6)), min_size=24, max_size=24
)


def draw(hours):
    return sparkbars(hours, width=96, height=26, ends_at=NOON)


@given(HOURS)
def test_each_death_is_of_one_layer_and_no_layer_leaves_the_frame(hours):
    drawn = draw(hours)

    assert sum(layer.count for layer in drawn.layers) == drawn.total == sum(sum(each.values()) for each in hours)
    assert len(drawn.layers) <= MAX_BUILDS + 1
    for x, y in re.findall(r"M([\d.]+) ([\d.-]+)h", "".join(layer.path for layer in drawn.layers)):
        assert 0 <= float(x) < 96
        assert 0 <= float(y) <= 26


def test_builds_keep_the_order_in_which_they_came_and_the_small_ones_are_one():
    hours = [{"old": 5}, {"old": 1, "new": 9}, dict.fromkeys("vwxyz", 1)] + [{}] * 21

    assert [layer.build for layer in draw(hours).layers][:2] == ["old", "new"]
    assert draw(hours).layers[-1].build == OTHERS


def test_it_says_in_words_what_it_shows():
    assert draw([{}] * 23 + [{"a": 2, "b": 3}]).summary == "peak 5 at 12:00 UTC, 5 in 24 h; on a 2, b 3"
    assert draw([{}] * 24).summary == "none in 24 h"
