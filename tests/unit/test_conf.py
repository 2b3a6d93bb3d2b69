"""Settings that cannot be used stop the start and are named."""

from typing import Any

import pytest

from queues.conf import Conf
from queues.words.errors import InvalidSetting
from queues.words.outcomes import Budget
from queues.words.sources import INBOX, OUTBOX, PERSPECTIVES, SOURCES


def test_a_build_without_a_name_is_called_unversioned() -> None:
    assert Conf().generation == "unversioned"


@pytest.mark.parametrize("generation", ["", None, 7])
def test_an_empty_generation_is_refused(generation: str) -> None:
    with pytest.raises(InvalidSetting, match="GENERATION"):
        Conf(generation=generation)


@pytest.mark.parametrize("source", SOURCES)
def test_one_value_holds_for_all_sources(source: str) -> None:
    conf = Conf(max_attempts=3, max_delays=None, delivery_log="all", max_attempts_override=5)

    assert conf.budget(source) == Budget(max_attempts=3, max_delays=None)
    assert conf.log_mode(source) == "all"
    assert conf.clamped(source, conf.budget(source), -1, None).max_attempts == 5


def test_each_source_may_have_values_of_its_own_and_one_left_out_has_the_default() -> None:
    conf = Conf(
        max_attempts={"inbox": 3, "outbox": None},
        max_delays={"perspectives": 0},
        delivery_log={"outbox": "off"},
        min_attempts_override={"inbox": 2},
        max_attempts_override={"inbox": 4},
    )

    assert conf.budget(INBOX) == Budget(max_attempts=3, max_delays=100)
    assert conf.budget(OUTBOX) == Budget(max_attempts=None, max_delays=100)
    assert conf.budget(PERSPECTIVES) == Budget(max_attempts=10, max_delays=0)
    assert [conf.log_mode(source) for source in SOURCES] == ["failures", "off", "failures"]
    assert [conf.clamped(s, conf.budget(s), 1, None).max_attempts for s in SOURCES] == [2, 1, 1]
    assert [conf.clamped(s, conf.budget(s), -1, None).max_attempts for s in SOURCES] == [4, None, None]


@pytest.mark.parametrize("cap", [0, -1, True, 2.5, "3"])
@pytest.mark.parametrize("name", ["max_attempts", "min_attempts_override", "max_attempts_override"])
def test_a_cap_that_means_nothing_is_refused_by_name(name: str, cap: Any) -> None:
    for value in (cap, {"perspectives": cap}):
        with pytest.raises(InvalidSetting, match=f"^{name.upper()} .*from 1"):
            Conf(**{name: value})


@pytest.mark.parametrize("name", ["max_attempts", "max_delays", "max_attempts_override", "delivery_log"])
@pytest.mark.parametrize("key", ["wh_inbox", "Inbox", "broker", 1, None])
def test_a_source_that_is_not_one_is_refused_by_name(name: str, key: Any) -> None:
    with pytest.raises(InvalidSetting, match=f"^{name.upper()} .*inbox, outbox, perspectives"):
        Conf(**{name: {key: "all" if name == "delivery_log" else 3}})


@pytest.mark.parametrize("mode", ["some", None, "", {"inbox": "some"}])
def test_a_log_mode_that_is_not_one_is_refused_by_name(mode: Any) -> None:
    with pytest.raises(InvalidSetting, match=r"^DELIVERY_LOG .*off, failures, all"):
        Conf(delivery_log=mode)


def test_bounds_that_cross_are_refused() -> None:
    with pytest.raises(InvalidSetting, match="MIN_ATTEMPTS_OVERRIDE is 5; it must be at most"):
        Conf(min_attempts_override=5, max_attempts_override={"outbox": 4})


@pytest.mark.parametrize("days", [0, -1, 36_526, 1.5, "90", True])
def test_an_age_of_the_log_that_means_nothing_is_refused(days: Any) -> None:
    with pytest.raises(InvalidSetting, match="DELIVERY_LOG_RETENTION_DAYS"):
        Conf(delivery_log_retention_days=days)


@pytest.mark.parametrize("months", [-1, 121, None, 1.5])
def test_months_ahead_that_mean_nothing_are_refused(months: Any) -> None:
    with pytest.raises(InvalidSetting, match="DELIVERY_LOG_MONTHS_AHEAD"):
        Conf(delivery_log_months_ahead=months)
