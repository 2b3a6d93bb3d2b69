"""A message that dies again and again under the schedule, until its policy ends it or it is handled."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from deadletters import triage
from deadletters.models import DeadLetter, RecoveryItem, RecoveryPolicy, RecoveryRun
from deadletters.recovery.stepping import step
from queues import Terminal
from queues.drainer import drain
from queues.words.handlers import handles
from tests.db.conftest import send_numbers
from tests.db.scheduling import scan

pytestmark = pytest.mark.django_db


@pytest.fixture
def broken(handlers: Any) -> dict[str, Any]:
    """A handler that fails, with the error of the test's choice, until it is mended."""
    error: dict[str, Any] = {"raises": ValueError("no such order")}

    @handles("test.N", max_attempts=1)
    def handle(message):
        if error["raises"] is not None:
            raise error["raises"]

    return error


def work() -> DeadLetter:
    """Scan, step and drain once, and return the letter."""
    scan()
    step(30)
    drain("wh_inbox", seconds=None)
    return DeadLetter.objects.get()


def cooled_down() -> None:
    """Let the letter's time be come."""
    DeadLetter.objects.update(next_recovery_at=timezone.now() - timedelta(seconds=1))


def waits(letter: DeadLetter) -> float:
    """Return the hours from a letter's death to its next recovery."""
    return (letter.next_recovery_at - letter.dead_lettered_at) / timedelta(hours=1)


@pytest.mark.parametrize(("then", "status"), [("hold", 2), ("give_up", 4)])
def test_a_message_that_dies_again_waits_twice_as_long_each_time_until_its_policy_ends_it(broken, then, status):
    mine = RecoveryPolicy.objects.filter(cause="budget_spent", failure_reason=5)
    mine.update(max_recoveries=2, cooldown_seconds=3600, then=then)
    send_numbers(1)
    drain("wh_inbox", seconds=None)
    letter = DeadLetter.objects.get()

    assert work().deaths == 1, "it is not due before its cooldown is over"
    for spent in (0, 1):
        letter.refresh_from_db()
        assert (letter.recovery_status, letter.recovery_attempts) == (0, spent)
        assert 2**spent / 2 <= waits(letter) <= 2**spent
        cooled_down()
        letter = work()

    assert (letter.deaths, letter.recovery_attempts, letter.recovery_status) == (3, 2, status)
    assert letter.next_recovery_at is None
    assert RecoveryRun.objects.count() == 2
    verdicts = letter.death_rows.order_by("number").values_list("verdict", flat=True)
    assert list(verdicts) == ["failed_again", "failed_again", None]


def test_a_mended_handler_ends_it_as_recovered(broken):
    send_numbers(1)
    drain("wh_inbox", seconds=None)
    cooled_down()
    broken["raises"] = None

    assert work().recovery_status == 3
    assert RecoveryItem.objects.get().state == "recovered"


def test_what_can_never_succeed_is_never_due(broken):
    broken["raises"] = Terminal("the card was declined")
    send_numbers(1)
    drain("wh_inbox", seconds=None)

    letter = work()

    assert (letter.cause, letter.recovery_status, letter.next_recovery_at) == ("terminal", 0, None)


def test_a_person_s_recovery_costs_no_automatic_one(broken, ann):
    send_numbers(1)
    drain("wh_inbox", seconds=None)
    triage.recover(dead_letter_id=DeadLetter.objects.get().pk, user=ann)
    drain("wh_inbox", seconds=None)

    letter = DeadLetter.objects.get()

    assert (letter.deaths, letter.recovery_attempts, letter.recovery_status) == (2, 0, 0)
    assert letter.next_recovery_at is not None
