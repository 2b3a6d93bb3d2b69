"""Letters that go round in a circle: the schedule suspends itself, and for what."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.db.models import F
from django.utils import timezone

from deadletters import triage
from deadletters.models import DeadLetter, RecoveryPolicy, RecoveryRun
from deadletters.recovery import schedule
from deadletters.recovery.stepping import step
from deadletters.words.plans import Plan
from queues.drainer import drain
from queues.words.handlers import handles
from tests.db.scheduling import due, fresh, ids, scan, scheduled

pytestmark = pytest.mark.django_db


def ran(minutes_ago: float, letters: int, fresh_count: int | None) -> RecoveryRun:
    """Make a run that a scan of so many minutes ago began."""
    at = timezone.now() - timedelta(minutes=minutes_ago)
    return RecoveryRun.objects.create(
        run_id=uuid4(), kind="schedule", state="finished", scope={"letters": [str(uuid4()) for _ in range(letters)]},
        plan=Plan().as_json(), actor="schedule", created_at=at, starts_at=at, finished_at=at, fresh_count=fresh_count,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("scans", "is_suspended"),
    [
        ([(1, 2, 2), (2, 2, 1), (3, 2, 2)], True),
        ([(1, 2, 2), (2, 2, 2)], False),
        ([(1, 4, 4), (2, 4, 1), (3, 4, 4), (4, 4, 4)], False),
        ([(50, 2, 2), (55, 2, 2), (100, 2, 2)], True),
        ([(50, 2, 2), (80, 2, 2), (111, 2, 2)], False),
        ([(61, 2, 2), (62, 2, 2), (63, 2, 2)], False),
        ([(1, 2, None), (2, 2, 2), (3, 2, 2), (4, 2, 2)], True),
        ([(1, 500, 0), (2, 500, 0), (3, 500, 0)], False),
    ],
    ids=["fresh", "two", "an old one between", "within an hour", "further apart", "over", "a person's", "backlog"],
)
def test_three_scans_of_letters_that_died_since_the_one_before_suspend_the_schedule(scans, is_suspended):
    for scan_of in scans:
        ran(*scan_of)

    state = schedule.state()

    assert state.is_suspended is is_suspended
    assert ("is suspended until" in state.words()) is is_suspended


def test_a_suspended_schedule_puts_off_what_is_due_until_it_is_over_but_for_what_a_person_asked_for(ann):
    for minutes in (1, 2, 3):
        ran(minutes, 1, 1)
    automatic, asked_for = due(), due(operator_disposition=1)
    until = schedule.state().until

    assert scan() == 2
    assert scan() == 0

    assert scheduled()[3:] == [ids(asked_for)]
    assert until <= fresh(automatic).next_recovery_at <= until + timedelta(minutes=10)
    assert (automatic.recovery_status, automatic.recovery_attempts) == (0, 0)
    assert triage.recover(dead_letter_id=automatic.pk, user=ann).is_sent


def test_runs_of_one_scan_count_once_by_however_many_tasks(monkeypatch):
    ran(9, 1, 0)
    monkeypatch.setattr(schedule, "SCAN_ROWS", 1)
    for _ in range(4):
        due(dead_lettered_at=timezone.now() - timedelta(minutes=1), failure_reason=5)

    for _ in range(4):
        schedule.recover_due(seconds=0)

    assert len(scheduled()) == 5
    assert list(RecoveryRun.objects.order_by("created_at").values_list("fresh_count", flat=True)) == [0, 1, 1, 1, 1]
    assert not schedule.state().is_suspended


def a_minute_passes() -> None:
    """Let whatever happened have happened a minute earlier."""
    minute = timedelta(minutes=1)
    RecoveryRun.objects.update(starts_at=F("starts_at") - minute, created_at=F("created_at") - minute)
    DeadLetter.objects.update(dead_lettered_at=F("dead_lettered_at") - minute)


def test_letters_that_die_again_as_soon_as_they_are_recovered_suspend_the_schedule(handlers):
    @handles("test.N", max_attempts=1)
    def handle(message):
        raise ValueError("no such order")

    RecoveryPolicy.objects.filter(cause="budget_spent").update(max_recoveries=99, cooldown_seconds=0)
    due(message_type="test.N")
    old = due(next_recovery_at=timezone.now() + timedelta(days=1))

    for _ in range(8):
        a_minute_passes()
        DeadLetter.objects.exclude(pk=old.pk).update(next_recovery_at=timezone.now())
        scan()
        step(30)
        drain("wh_inbox", seconds=None)

    assert [run.fresh_count for run in RecoveryRun.objects.order_by("created_at")] == [0, 1, 1, 1]
    assert schedule.state().is_suspended
