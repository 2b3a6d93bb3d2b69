"""What may become of a dead letter, and when the schedule recovers it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletters.models import letters
from deadletters.words.policies import (
    BUILD_LOOK,
    DEFAULT_POLICIES,
    LAST_LOOK,
    MAX_COOLDOWN,
    NO_POLICY,
    TRANSITIONS,
    AfterBudget,
    Decision,
    Disposition,
    Event,
    LetterFacts,
    Policy,
    Scan,
    Status,
    cooldown_after,
    decide,
    next_disposition,
    next_look,
    next_status,
    policy_for,
    status_after_death,
    suspended_until,
)
from queues.words.outcomes import Cause, FailureReason

NOW = datetime(2026, 1, 31, 3, tzinfo=UTC)
LATER, EARLIER = NOW + timedelta(hours=1), NOW - timedelta(hours=1)
STATUSES, DISPOSITIONS, EVENTS = st.sampled_from(Status), st.sampled_from(Disposition), st.sampled_from(Event)
BY_PERSON = frozenset({Event.RETRY_NOW, Event.HOLD, Event.RELEASE, Event.GIVE_UP, Event.REOPEN})
POLICY = Policy(
    name="p", cause="budget_spent", reason=None, max_recoveries=2, cooldown=timedelta(hours=1), then=AfterBudget.HOLD
)


def facts(**known: Any) -> LetterFacts:
    pending = {"status": Status.PENDING, "disposition": Disposition.NONE, "recovery_attempts": 0}
    return LetterFacts(**pending | {"next_recovery_at": EARLIER} | known)


def test_the_words_have_the_numbers_of_the_tables() -> None:
    assert {one.name: one.value for one in Status} == {one.name: one.value for one in letters.RecoveryStatus}
    assert {one.name: one.value for one in Disposition} == {one.name: one.value for one in letters.Disposition}


@pytest.mark.parametrize(
    ("event", "follows"),  # by status: pending, recovering, held, recovered, permanently failed
    [
        (Event.SENT, (1, None, 1, None, None)),
        (Event.HANDLED, (3, 3, 3, 3, 3)),
        (Event.DIED, (0, 0, 0, 0, 0)),
        (Event.NO_ANSWER, (None, 2, None, None, None)),
        (Event.RETRY_NOW, (0, 1, 0, None, None)),
        (Event.HOLD, (2, 1, 2, None, None)),
        (Event.RELEASE, (0, 1, 0, None, None)),
        (Event.GIVE_UP, (4, 1, 4, None, 4)),
        (Event.REOPEN, (None, None, None, None, 0)),
        (Event.POLICY_HOLD, (2, None, None, None, None)),
        (Event.POLICY_GIVE_UP, (4, None, None, None, None)),
    ],
)
def test_each_event_is_allowed_where_the_rules_say(event: Event, follows: tuple[int | None, ...]) -> None:
    assert tuple(next_status(status, event) for status in range(5)) == follows


@given(EVENTS)
def test_an_action_of_a_person_on_a_letter_in_flight_leaves_its_status(event: Event) -> None:
    after = next_status(Status.RECOVERING, event)

    assert event not in BY_PERSON or after in (None, Status.RECOVERING)


@given(st.lists(EVENTS, max_size=20))
def test_a_recovered_letter_stays_so_until_its_message_dies_again(events: list[Event]) -> None:
    status = Status.RECOVERED
    for event in events:
        status = next_status(status, event) or status
        if event is Event.DIED:
            break
        assert status is Status.RECOVERED


@given(st.lists(EVENTS, max_size=20))
def test_only_a_person_or_its_message_opens_a_letter_that_was_given_up(events: list[Event]) -> None:
    status: Status = Status.PERMANENTLY_FAILED
    for event in events:
        follows = next_status(status, event)
        status = status if follows is None else follows
        if event in (Event.REOPEN, Event.HANDLED, Event.DIED):
            break
        assert status is Status.PERMANENTLY_FAILED


def test_only_a_send_puts_a_letter_in_flight() -> None:
    into = {
        event for (status, event), after in TRANSITIONS.items() if after is Status.RECOVERING and status is not after
    }

    assert into == {Event.SENT}


@given(DISPOSITIONS, EVENTS)
def test_only_a_person_decides_and_only_a_send_uses_up_retry_now(disposition: Disposition, event: Event) -> None:
    after = next_disposition(disposition, event)

    if event in BY_PERSON:
        assert after is next_disposition(Disposition.NONE, event)
    elif event is Event.SENT:
        assert after is (Disposition.NONE if disposition is Disposition.RETRY_NOW else disposition)
    else:
        assert after is disposition


@pytest.mark.parametrize(
    ("event", "disposition"),
    [
        (Event.RETRY_NOW, Disposition.RETRY_NOW),
        (Event.HOLD, Disposition.HOLD_INDEFINITELY),
        (Event.GIVE_UP, Disposition.MARK_PERMANENTLY_FAILED),
        (Event.RELEASE, Disposition.NONE),
        (Event.REOPEN, Disposition.NONE),
    ],
)
def test_an_action_of_a_person_is_kept_as_its_decision(event: Event, disposition: Disposition) -> None:
    assert next_disposition(Disposition.HOLD_INDEFINITELY, event) is disposition


@given(STATUSES)
def test_what_a_person_decided_in_flight_holds_after_the_next_death(status: Status) -> None:
    assert status_after_death(status, Disposition.HOLD_INDEFINITELY) is Status.HELD
    assert status_after_death(status, Disposition.MARK_PERMANENTLY_FAILED) is Status.PERMANENTLY_FAILED


@pytest.mark.parametrize("disposition", [Disposition.NONE, Disposition.RETRY_NOW])
@pytest.mark.parametrize("status", Status)
def test_a_new_death_opens_the_letter_unless_a_person_closed_it(disposition: int, status: int) -> None:
    assert status_after_death(status, disposition) == Status.PENDING


# Reason to recoveries, cooldown in minutes and end, of letters whose budget is spent.
MATRIX = {
    FailureReason.THROTTLED: (3, 30, "give_up"),
    FailureReason.TRANSPORT_EXCEPTION: (3, 60, "give_up"),
    FailureReason.LEASE_EXPIRED: (5, 0, "give_up"),
    FailureReason.MAX_ATTEMPTS_EXCEEDED: (1, 360, "hold"),
    FailureReason.EVENT_STORAGE_FAILURE: (0, 0, "hold"),
    FailureReason.VALIDATION_ERROR: (0, 0, "hold"),
    FailureReason.SERIALIZATION_ERROR: (0, 0, "hold"),
    FailureReason.TRANSPORT_NOT_READY: (3, 30, "give_up"),
    FailureReason.BROKER_DEAD_LETTER: (3, 60, "hold"),
    FailureReason.POISON_REDELIVERY_LOOP: (0, 0, "hold"),
}


@pytest.mark.parametrize("reason", FailureReason)
def test_a_spent_budget_has_the_policy_of_its_reason(reason: FailureReason) -> None:
    policy = policy_for("budget_spent", reason, DEFAULT_POLICIES)

    found = (policy.max_recoveries, policy.cooldown.total_seconds() / 60, str(policy.then))
    assert found == MATRIX.get(reason, (1, 60, "hold"))
    assert policy.automatic


@pytest.mark.parametrize("reason", FailureReason)
@pytest.mark.parametrize("cause", ["terminal", "no_handler", "unreadable", "delay_cap", "worker_lost", "operator"])
def test_the_schedule_never_recovers_these_causes_whatever_the_reason(cause: str, reason: FailureReason) -> None:
    policy = policy_for(cause, reason, DEFAULT_POLICIES)

    assert decide(facts(), policy, now=NOW) is Decision.NEVER


def test_every_cause_has_a_policy() -> None:
    assert NO_POLICY not in {policy_for(cause, 99, DEFAULT_POLICIES) for cause in Cause}
    assert policy_for("budget_spent", 77, DEFAULT_POLICIES).name == "any other reason"


def test_an_imported_letter_has_the_policy_of_a_broker_s_dead_letter() -> None:
    imported, spent = (policy_for(cause, 17, DEFAULT_POLICIES) for cause in ("imported", "budget_spent"))

    assert (imported.max_recoveries, imported.cooldown, imported.then) == (3, timedelta(hours=1), AfterBudget.HOLD)
    assert (spent.max_recoveries, spent.cooldown, spent.then) == (3, timedelta(hours=1), AfterBudget.HOLD)


def test_a_letter_without_a_cause_spent_its_budget_unless_its_lease_expired() -> None:
    assert policy_for(None, 8, DEFAULT_POLICIES).name == "throttled"
    assert policy_for(None, 6, DEFAULT_POLICIES).name == "worker lost"


def test_a_cause_that_nobody_made_a_policy_for_is_left_alone() -> None:
    assert policy_for("of_the_future", 8, DEFAULT_POLICIES) is NO_POLICY
    assert policy_for("terminal", 8, ()) is NO_POLICY


def test_default_policies_are_one_for_each_cause_and_reason() -> None:
    keys = [(policy.cause, policy.reason) for policy in DEFAULT_POLICIES]

    assert len(keys) == len(set(keys))


@pytest.mark.parametrize(("recovered", "hours"), [(0, 1), (1, 2), (2, 4), (4, 16), (5, 24), (10**9, 24)])
def test_the_cooldown_doubles_with_each_recovery_up_to_a_day(recovered: int, hours: int) -> None:
    assert cooldown_after(POLICY, recovered, spread=0) == timedelta(hours=hours) / 2
    assert cooldown_after(POLICY, recovered, spread=0.5) == timedelta(hours=hours) * 0.75


@given(st.integers(0, 10**6), st.floats(0, 1, exclude_max=True), st.sampled_from(DEFAULT_POLICIES))
def test_the_cooldown_lies_between_half_and_all_of_its_step(recovered: int, spread: float, policy: Policy) -> None:
    step = min(policy.cooldown * 2 ** min(recovered, 20), MAX_COOLDOWN)

    assert step / 2 <= cooldown_after(policy, recovered, spread=spread) <= step


@pytest.mark.parametrize(
    ("known", "decision"),
    [
        ({}, "due"),
        ({"next_recovery_at": NOW}, "due"),
        ({"next_recovery_at": LATER}, "wait"),
        ({"next_recovery_at": None}, "wait"),
        ({"quiet_until": LATER}, "wait"),
        ({"quiet_until": EARLIER}, "due"),
        ({"awaits_generation": True}, "wait"),
        ({"recovery_attempts": 1}, "due"),
        ({"recovery_attempts": 2}, "hold"),
        ({"recovery_attempts": 2, "next_recovery_at": LATER}, "hold"),
        ({"recovery_attempts": 2, "quiet_until": LATER}, "wait"),
        ({"status": 1}, "never"),
        ({"status": 2}, "never"),
        ({"status": 3}, "never"),
        ({"status": 4}, "never"),
        ({"disposition": 1, "next_recovery_at": LATER, "quiet_until": LATER, "recovery_attempts": 9}, "due"),
        ({"disposition": 1, "status": 2}, "due"),
        ({"disposition": 2}, "hold"),
        ({"disposition": 2, "status": 2}, "never"),
        ({"disposition": 3}, "give_up"),
        ({"disposition": 3, "status": 2}, "give_up"),
        ({"disposition": 1, "status": 4}, "never"),
        ({"disposition": 1, "status": 1}, "never"),
        ({"recovery_attempts": 2, "is_opened": True}, "never"),
        ({"is_opened": True}, "due"),
        ({"is_group_held": True}, "group_hold"),
        ({"is_group_held": True, "status": 1}, "group_hold"),
        ({"is_group_held": True, "status": 2}, "group_hold"),
        ({"is_group_held": True, "status": 3}, "never"),
        ({"is_group_held": True, "status": 4}, "never"),
        ({"is_group_held": True, "disposition": 1}, "due"),
        ({"is_group_held": True, "disposition": 3}, "give_up"),
        ({"is_held_by_group": True, "is_group_held": True, "disposition": 2, "status": 2}, "never"),
        ({"is_held_by_group": True, "disposition": 2, "status": 2}, "group_release"),
        ({"is_held_by_group": True, "disposition": 2, "status": 1}, "group_release"),
    ],
)
def test_a_decision_follows_the_person_then_the_policy(known: dict[str, Any], decision: str) -> None:
    assert decide(facts(**known), POLICY, now=NOW) == decision


@pytest.mark.parametrize(
    ("known", "look"),
    [
        ({}, EARLIER + timedelta(minutes=30)),
        ({"recovery_attempts": 1}, EARLIER + timedelta(hours=1)),
        ({"quiet_until": EARLIER}, EARLIER + timedelta(minutes=30)),
        ({"quiet_until": LATER}, LATER),
        ({"awaits_generation": True}, NOW + BUILD_LOOK),
        ({"quiet_until": LAST_LOOK + timedelta(hours=23)}, LAST_LOOK),
        ({"awaits_generation": True, "quiet_until": NOW + timedelta(days=1)}, NOW + timedelta(days=1)),
    ],
)
def test_a_letter_is_looked_at_after_its_cooldown_and_its_quiet_time(known: dict[str, Any], look: datetime) -> None:
    assert next_look(facts(**known), POLICY, died_at=EARLIER, spread=0, now=NOW) == look


def scans(*minutes_ago: float, letters: int = 2, fresh: int = 2) -> list[Scan]:
    return [Scan(began_at=NOW - timedelta(minutes=ago), letters=letters, fresh=fresh) for ago in minutes_ago]


@pytest.mark.parametrize(
    ("latest", "minutes"),
    [
        (scans(1, 2, 3), 59),
        (scans(59, 90, 119), 1),
        (scans(60, 61, 62), None),
        (scans(1, 2), None),
        (scans(1, 2, 62), None),
        (scans(1, 2, 61), 59),
        (scans(1, 2, 3, fresh=1), 59),
        (scans(1, 2, 3, letters=3, fresh=1), None),
        ([*scans(1, 2), *scans(3, fresh=0)], None),
        ([*scans(1, 2, 3), *scans(4, fresh=0)], 59),
        (scans(1, 2, 3, letters=0, fresh=0), None),
        ([], None),
    ],
)
def test_the_schedule_is_suspended_for_an_hour_after_the_last_of_three_fresh_scans_within_one(
    latest: list[Scan], minutes: int | None
) -> None:
    until = None if minutes is None else NOW + timedelta(minutes=minutes)

    assert suspended_until(latest, now=NOW) == until


def test_a_person_s_retry_now_wins_over_a_policy_that_never_recovers() -> None:
    assert decide(facts(disposition=1), NO_POLICY, now=NOW) is Decision.DUE


def test_a_policy_without_recoveries_ends_at_once_as_it_says() -> None:
    throttled = policy_for("budget_spent", 8, DEFAULT_POLICIES)
    invalid = policy_for("budget_spent", 4, DEFAULT_POLICIES)

    assert decide(facts(recovery_attempts=3), throttled, now=NOW) is Decision.GIVE_UP
    assert decide(facts(next_recovery_at=None), invalid, now=NOW) is Decision.HOLD


WHEN = st.none() | st.sampled_from([EARLIER, NOW, LATER])


@given(
    status=STATUSES,
    disposition=DISPOSITIONS,
    attempts=st.integers(0, 5),
    at=WHEN,
    quiet=WHEN,
    policy=st.sampled_from((*DEFAULT_POLICIES, NO_POLICY)),
)
def test_every_decision_is_an_allowed_transition(
    status: Status, disposition: Disposition, attempts: int, at: datetime | None, quiet: datetime | None, policy: Policy
) -> None:
    letter = LetterFacts(
        status=status, disposition=disposition, recovery_attempts=attempts, next_recovery_at=at, quiet_until=quiet
    )
    decision = decide(letter, policy, now=NOW)

    does = {Decision.DUE: Event.SENT, Decision.HOLD: Event.HOLD, Decision.GIVE_UP: Event.GIVE_UP}
    if decision in does:
        assert next_status(status, does[decision]) is not None
    if disposition is Disposition.HOLD_INDEFINITELY:
        assert decision in (Decision.HOLD, Decision.NEVER)
