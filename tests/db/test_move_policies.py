"""What the move makes of a letter by its policy: the same as the tables of `words/policies` say."""

import itertools

import pytest

from deadletters.models import DeadLetter
from deadletters.words.policies import (
    DEFAULT_POLICIES,
    AfterBudget,
    Decision,
    LetterFacts,
    Status,
    cooldown_after,
    decide,
    policy_for,
    status_after_death,
)
from queues.words.outcomes import Cause, FailureReason
from tests.db.conftest import move_by_hand
from tests.db.rows import write_row

pytestmark = pytest.mark.django_db


def move(source_id, cause, reason, sql):
    (row,) = sql(
        "SELECT move_to_dead_letters(gen_random_uuid(), 'wh_inbox', %s, %s, 'boom', NULL, 'b', p_cause => %s) AS id",
        source_id,
        int(reason),
        cause,
    )
    return DeadLetter.objects.get(pk=row["id"])


def expected_status(policy, *, attempts, disposition=0):
    after = status_after_death(Status.RECOVERING, disposition)
    facts = LetterFacts(status=after, disposition=disposition, recovery_attempts=attempts, next_recovery_at=None)
    decided = decide(facts, policy, now=None) if after is Status.PENDING else None
    return {Decision.HOLD: Status.HELD, Decision.GIVE_UP: Status.PERMANENTLY_FAILED}.get(decided, after)


def assert_as_told(letter, policy, *, attempts, disposition=0):
    status = expected_status(policy, attempts=attempts, disposition=disposition)
    assert letter.recovery_status == status, policy.name
    if disposition == 1:
        assert letter.next_recovery_at == letter.dead_lettered_at
    elif disposition or status != Status.PENDING or not policy.automatic:
        assert letter.next_recovery_at is None, policy.name
    else:
        waits = letter.next_recovery_at - letter.dead_lettered_at
        bounds = [cooldown_after(policy, attempts, spread=spread) for spread in (0, 0.999999)]
        assert bounds[0] <= waits <= bounds[1], policy.name


@pytest.mark.parametrize("cause", Cause)
def test_a_first_death_of_every_cause_and_reason_waits_as_its_policy_says(cause, sql):
    for reason in FailureReason:
        letter = move(write_row("wh_inbox"), cause, reason, sql)

        assert_as_told(letter, policy_for(cause, reason, DEFAULT_POLICIES), attempts=0)


@pytest.mark.parametrize("disposition", range(4))
@pytest.mark.parametrize("then", AfterBudget)
def test_a_second_death_follows_the_person_then_the_budget_then_the_cooldown(then, disposition, sql):
    sql("UPDATE recovery_policies SET max_recoveries = 2, \"then\" = %s WHERE cause = 'budget_spent'", then)
    for attempts, is_automatic in itertools.product((0, 1, 2, 5), (True, False)):
        sql("UPDATE recovery_policies SET is_automatic = %s WHERE cause = 'budget_spent'", is_automatic)
        letter = move(write_row("wh_inbox"), Cause.BUDGET_SPENT, FailureReason.UNKNOWN, sql)
        sql(
            "UPDATE wh_dead_letters SET recovery_status = 0 WHERE dead_letter_id = %s",
            letter.pk,
        )
        sql("SELECT recover_dead_letter(%s, 'ann')", letter.pk)
        sql(
            "UPDATE wh_dead_letters SET operator_disposition = %s, recovery_attempts = %s WHERE dead_letter_id = %s",
            disposition,
            attempts,
            letter.pk,
        )

        again = move(letter.source_id, Cause.BUDGET_SPENT, FailureReason.UNKNOWN, sql)

        told = policy_for(Cause.BUDGET_SPENT, FailureReason.UNKNOWN, DEFAULT_POLICIES)
        policy = type(told)(
            name="edited",
            cause=told.cause,
            reason=None,
            max_recoveries=2,
            cooldown=told.cooldown,
            then=then,
            automatic=is_automatic,
        )
        assert again.recovery_attempts == attempts
        assert_as_told(again, policy, attempts=attempts, disposition=disposition)


def test_a_letter_without_a_policy_is_left_to_people(sql):
    sql("DELETE FROM recovery_policies")

    letter = move(write_row("wh_inbox"), Cause.BUDGET_SPENT, FailureReason.UNKNOWN, sql)

    assert (letter.recovery_status, letter.next_recovery_at) == (Status.PENDING, None)


def test_a_letter_that_its_policy_gives_up_lets_its_stream_go(sql):
    letter_id = move_by_hand(write_row("wh_inbox"))
    sql("SELECT recover_dead_letter(%s, 'ann')", letter_id)
    sql("SELECT admit_arrivals('wh_inbox', 10)")
    sql("UPDATE wh_streams SET held_by = %s", letter_id)
    sql("UPDATE recovery_policies SET max_recoveries = 0, \"then\" = 'give_up'")

    move_by_hand(DeadLetter.objects.get().source_id)

    assert DeadLetter.objects.get().recovery_status == Status.PERMANENTLY_FAILED
    assert sql("SELECT held_by FROM wh_streams") == [{"held_by": None}]


def test_the_wait_is_never_past_a_day_however_often_it_was_recovered(sql):
    sql("UPDATE recovery_policies SET max_recoveries = 1000")
    letter_id = move_by_hand(write_row("wh_inbox"))
    sql("SELECT recover_dead_letter(%s, 'ann')", letter_id)
    sql("UPDATE wh_dead_letters SET recovery_attempts = 900")

    move_by_hand(DeadLetter.objects.get().source_id)

    letter = DeadLetter.objects.get()
    hours = (letter.next_recovery_at - letter.dead_lettered_at).total_seconds() / 3600
    assert 12 <= hours <= 24
