"""Policies: the database's rule and the words' are the same."""

from datetime import timedelta
from typing import Any

import pytest

from deadletters.models import RecoveryPolicy
from deadletters.words.policies import DEFAULT_POLICIES, cooldown_after, policy_for
from queues.words.outcomes import Cause, FailureReason

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("cause", [*Cause, None, "", "of_the_future"])
def test_a_cause_and_any_reason_have_one_policy_in_the_database_and_in_words(cause: str | None, sql: Any) -> None:
    for reason in (*FailureReason, 77):
        (row,) = sql("SELECT (recovery_policy_of(%s, %s)).name", cause, reason)

        assert (row["name"] or "none") == policy_for(cause, reason, DEFAULT_POLICIES).name


def test_what_an_administrator_edits_is_the_policy_from_then_on(sql: Any) -> None:
    RecoveryPolicy.objects.filter(cause="budget_spent", failure_reason=8).update(name="edited")
    RecoveryPolicy.objects.filter(cause="no_handler").delete()

    assert sql("SELECT (recovery_policy_of('budget_spent', 8)).name") == [{"name": "edited"}]
    assert sql("SELECT (recovery_policy_of('no_handler', 99)).id") == [{"id": None}]


@pytest.mark.parametrize("policy", DEFAULT_POLICIES, ids=lambda policy: policy.name)
def test_a_cooldown_is_the_same_in_the_database_and_in_words(policy: Any, sql: Any) -> None:
    seconds = policy.cooldown.total_seconds()
    for attempts, spread in ((0, 0.0), (1, 0.5), (3, 0.25), (10**9, 0.75)):
        (row,) = sql("SELECT cooldown_after(%s, %s, %s) AS wait", int(seconds), attempts, spread)

        assert abs(row["wait"] - cooldown_after(policy, attempts, spread=spread)) <= timedelta(microseconds=1)


def test_a_cooldown_is_spread_between_half_and_all_of_it(sql: Any) -> None:
    waits = {row["wait"] for row in sql("SELECT cooldown_after(600, 1) AS wait FROM generate_series(1, 200)")}

    assert len(waits) > 100
    assert timedelta(minutes=10) <= min(waits) < timedelta(minutes=12)
    assert timedelta(minutes=18) < max(waits) <= timedelta(minutes=20)
