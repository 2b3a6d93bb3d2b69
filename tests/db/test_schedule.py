"""The schedule on real rows: what is due goes into one run, what is not leaves the range of what is due."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import F
from django.utils import timezone

from deadletters import counting, tasks, triage
from deadletters.models import (
    DeadLetter,
    FailureGroup,
    Generation,
    RecoveryItem,
    RecoveryPolicy,
    RecoveryRun,
    RunKind,
    RunState,
)
from deadletters.recovery import passes, runs, schedule
from deadletters.recovery.stepping import step
from deadletters.store import decisions
from deadletters.words.plans import Plan
from deadletters.words.policies import LAST_LOOK
from deadletters.words.scopes import Letters
from queues import Terminal
from queues.drainer import drain
from queues.words.handlers import handles
from tests.db.conftest import at_once, send_numbers
from tests.db.rows import write_row
from tests.factories import a_letter, a_user

pytestmark = pytest.mark.django_db

AGO = timedelta(hours=2)


def due(**fields: Any) -> DeadLetter:
    """Make a letter of a policy that recovers it once; its time came a minute ago."""
    now = timezone.now()
    return a_letter(**{"dead_lettered_at": now - AGO, "next_recovery_at": now - timedelta(minutes=1), **fields})


def scan() -> int:
    return schedule.recover_due(seconds=60).looked_at


def scheduled() -> list[set[Any]]:
    """Return the letters of each of the schedule's runs, in order."""
    found = RecoveryRun.objects.filter(kind=RunKind.SCHEDULE).order_by("created_at", "run_id")
    return [set(run.scope["letters"]) for run in found]


def ids(*letters: DeadLetter) -> set[str]:
    return {str(letter.pk) for letter in letters}


def fresh(letter: DeadLetter) -> DeadLetter:
    letter.refresh_from_db()
    return letter


@pytest.fixture
def ann(db: None) -> Any:
    return a_user("ann", "Operators")


def test_what_is_due_goes_into_one_run_that_is_sent(handlers):
    @handles("test.N")
    def handle(message): ...

    letters = [due(message_type="test.N") for _ in range(3)]

    assert scan() == 3
    step(30)
    drain("wh_inbox", seconds=None)

    assert scheduled() == [ids(*letters)]
    run = RecoveryRun.objects.get()
    assert (run.actor, run.frozen_count, run.fresh_count) == ("schedule", 3, 0)
    assert {fresh(letter).recovery_status for letter in letters} == {3}
    assert {letter.recovery_attempts for letter in letters} == {1}


@pytest.mark.parametrize(
    "fields",
    [
        {"next_recovery_at": None},
        {"next_recovery_at": timezone.now() + timedelta(hours=1)},
        {"status": 2},
        {"status": 4},
        {"status": 1},
        {"status": 3},
    ],
    ids=["unscheduled", "later", "held", "given up", "in flight", "recovered"],
)
def test_what_is_not_due_is_not_even_looked_at(fields):
    due(**fields)

    assert scan() == 0
    assert scheduled() == []


@pytest.mark.parametrize(
    ("fields", "status", "disposition"),
    [
        ({"failure_reason": 4}, 2, 0),
        ({"failure_reason": 8, "recovery_attempts": 3}, 4, 0),
        ({"recovery_attempts": 1}, 2, 0),
        ({"operator_disposition": 2}, 2, 2),
        ({"operator_disposition": 3}, 4, 3),
        ({"cause": "terminal"}, 0, 0),
        ({"cause": "of_the_future"}, 0, 0),
        ({"source_table": "other_queue"}, 0, 0),
        ({"source_table": "other_queue", "operator_disposition": 1}, 0, 1),
        ({"cause": None, "failure_reason": 6}, 0, 0),
    ],
    ids=[
        "not valid",
        "throttled, spent",
        "any, spent",
        "person's hold",
        "person's end",
        "never",
        "unknown",
        "foreign",
        "foreign, retry",
        "lost",
    ],
)
def test_what_is_due_but_not_to_be_recovered_ends_as_its_policy_or_a_person_says(fields, status, disposition):
    letter = due(**fields)

    assert scan() == 1
    assert scan() == 0

    assert scheduled() == []
    assert (fresh(letter).recovery_status, letter.operator_disposition) == (status, disposition)
    assert letter.next_recovery_at is None


def test_a_letter_of_an_adopted_database_without_a_cause_has_its_reason_s_policy():
    letter = due(cause=None, failure_reason=8)
    DeadLetter.objects.filter(pk=letter.pk).update(cause=None)

    scan()

    assert scheduled() == [ids(letter)]


def test_a_policy_edited_since_the_death_decides():
    letter = due(recovery_attempts=1)
    RecoveryPolicy.objects.filter(cause="budget_spent", failure_reason=None).update(max_recoveries=2)

    scan()

    assert scheduled() == [ids(letter)]


@pytest.mark.parametrize("fields", [{"cause": "terminal"}, {"recovery_attempts": 9}, {"failure_reason": 4}])
def test_retry_now_goes_at_once_whatever_the_policy_says_and_costs_no_automatic_recovery(ann, fields):
    letter = due(next_recovery_at=None, **fields)
    triage.change_letter(dead_letter_id=letter.pk, user=ann, changes={"operator_disposition": 1})

    scan()
    step(30)

    assert scheduled() == [ids(letter)]
    assert fresh(letter).recovery_status == 1
    assert (letter.operator_disposition, letter.recovery_attempts) == (0, fields.get("recovery_attempts", 0))


def test_600_letters_that_are_not_to_be_recovered_do_not_keep_one_behind_them_waiting():
    blocked = [due(cause="terminal", next_recovery_at=timezone.now() - timedelta(days=1)) for _ in range(200)]
    DeadLetter.objects.filter(pk__in=[each.pk for each in blocked[:100]]).update(
        cause="budget_spent", quiet_until=timezone.now() + timedelta(days=9)
    )
    copy_often(blocked, times=3)
    letter = due()

    assert DeadLetter.objects.filter(next_recovery_at__lt=timezone.now()).count() == 601
    assert scan() == 601

    assert scheduled() == [ids(letter)]
    assert not DeadLetter.objects.filter(next_recovery_at__lt=timezone.now()).exists()


def copy_often(letters: list[DeadLetter], *, times: int) -> None:
    """Make so many letters of each, itself among them."""
    rows = DeadLetter.objects.filter(pk__in=[letter.pk for letter in letters])
    copies = []
    for row in rows:
        for _ in range(times - 1):
            copy = DeadLetter.objects.get(pk=row.pk)
            copy.pk, copy.source_id = uuid(), uuid()
            copies.append(copy)
    DeadLetter.objects.bulk_create(copies)


def uuid() -> Any:
    with connection.cursor() as cursor:
        cursor.execute("SELECT gen_random_uuid()")
        return cursor.fetchone()[0]


def test_a_scan_of_more_than_its_rows_goes_on_and_is_bounded_by_its_time(monkeypatch):
    monkeypatch.setattr(schedule, "SCAN_ROWS", 2)
    letters = [due() for _ in range(5)]

    assert schedule.recover_due(seconds=0) == passes.Report(looked_at=2, more=True)
    assert scan() == 3

    assert [len(each) for each in scheduled()] == [2, 2, 1]
    assert set.union(*scheduled()) == ids(*letters)


@pytest.mark.parametrize("of", ["letter", "group"])
def test_what_is_quiet_until_a_time_is_looked_at_again_then(of):
    until = timezone.now() + timedelta(days=3)
    letter = due(quiet_until=until if of == "letter" else None)
    counting.fold()
    if of == "group":
        FailureGroup.objects.update(quiet_until=until)

    scan()

    assert scheduled() == []
    assert fresh(letter).next_recovery_at == until


@pytest.mark.parametrize("of", ["letter", "group", "fix"])
def test_what_waits_for_a_build_waits_until_a_worker_reports_it(of):
    letter = due(quiet_until_generation="build-9" if of == "letter" else None)
    counting.fold()
    if of == "group":
        FailureGroup.objects.update(quiet_until_generation="build-9")
    if of == "fix":
        FailureGroup.objects.update(state="fixed", fixed_in_generation="build-9")

    scan()
    assert scheduled() == []
    wait = fresh(letter).next_recovery_at - timezone.now()
    assert timedelta(minutes=59) < wait <= timedelta(hours=1)

    Generation.objects.create(service="shop", build="build-9")
    DeadLetter.objects.update(next_recovery_at=timezone.now())
    scan()
    assert scheduled() == [ids(letter)]


def test_a_letter_whose_group_was_held_meanwhile_is_held_and_not_sent():
    letter = due()
    counting.fold()
    FailureGroup.objects.update(operator_disposition=2, held_at=timezone.now())

    scan()

    assert scheduled() == []
    assert (fresh(letter).recovery_status, letter.held_by_group) == (2, FailureGroup.objects.get().pk)


def test_a_letter_that_waits_in_a_person_s_run_is_left_to_that(ann):
    letter = due()
    run_id = runs.prepare(user=ann, scope=Letters(ids=[letter.pk]))
    RecoveryRun.objects.filter(pk=run_id).update(state=RunState.PAUSED, starts_at=timezone.now())

    scan()

    assert scheduled() == []
    assert fresh(letter).next_recovery_at > timezone.now() + timedelta(minutes=20)


def test_a_run_that_waits_for_its_start_holds_the_schedule_up_from_nothing(ann):
    letter = due()
    runs.prepare(user=ann, scope=Letters(ids=[letter.pk]))

    scan()

    assert scheduled() == [ids(letter)]


def test_what_a_run_of_the_schedule_could_not_send_is_looked_at_again_later():
    letter = due()
    write_row("wh_inbox", message_id=letter.source_id)

    scan()
    step(30)

    item = RecoveryItem.objects.get()
    assert item.state == "skipped"
    wait = fresh(letter).next_recovery_at - timezone.now()
    assert timedelta(minutes=29) < wait <= timedelta(minutes=30)
    assert letter.recovery_attempts == 0


def test_a_policy_s_end_lets_the_stream_run_on_that_waits_behind_the_letter(sql):
    stream = uuid()
    letter = due(failure_reason=8, recovery_attempts=3, stream_id=stream)
    sql(
        "INSERT INTO wh_streams (queue, stream_id, due_at, held_by) VALUES ('wh_inbox', %s, now(), %s)",
        stream,
        letter.pk,
    )

    scan()

    assert fresh(letter).recovery_status == 4
    assert sql("SELECT held_by FROM wh_streams") == [{"held_by": None}]


def test_a_letter_that_changed_since_it_was_looked_at_is_left_alone():
    letter = due(cause="terminal")
    (looked,) = decisions.look_at([letter.pk])
    DeadLetter.objects.update(row_version=7)

    written = decisions.write([decisions.Decided(letter=looked, decision=decisions.Decision.NEVER)])

    assert written == {}
    assert fresh(letter).next_recovery_at is not None


@pytest.mark.django_db(transaction=True)
def test_two_scans_at_once_put_each_letter_into_one_run():
    letters = [due() for _ in range(40)]

    at_once(scan, scan)
    scan()

    found = scheduled()
    assert sum(map(len, found)) == 40
    assert set.union(*found) == ids(*letters)


@pytest.mark.django_db(transaction=True)
def test_a_letter_that_somebody_has_locked_does_not_hold_the_scan_up():
    locked, free = due(), due()

    def scan_while_it_is_locked() -> int:
        return at_once(scan)[0]

    with transaction.atomic():
        decisions.lock([locked.pk])
        assert scan_while_it_is_locked() == 1

    assert scheduled() == [ids(free)]
    assert scan() == 1


def test_the_task_brings_letters_in_line_and_recovers_what_is_due(ann):
    held, free = due(), due(error="KeyError: other")
    counting.fold()
    group = FailureGroup.objects.get(sample_letter_id=held.pk)
    FailureGroup.objects.filter(pk=group.pk).update(operator_disposition=2, held_at=timezone.now())
    passes.RecoveryPass.objects.create(group_id=group.pk)

    tasks.recover_due()
    tasks.recover_due()

    assert fresh(held).recovery_status == 2
    assert scheduled() == [ids(free)]


# --- letters that go round in a circle


def ran(minutes_ago: float, letters: int, fresh_count: int | None) -> RecoveryRun:
    """Make a run that a scan of so many minutes ago began."""
    at = timezone.now() - timedelta(minutes=minutes_ago)
    return RecoveryRun.objects.create(
        run_id=uuid(), kind="schedule", state="finished", scope={"letters": [str(uuid()) for _ in range(letters)]},
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


# --- with the move: a message that dies again and again


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


def test_a_letter_of_a_mover_whose_clock_is_wrong_stops_no_scan():
    odd = due(dead_lettered_at=datetime(9998, 12, 31, 23, tzinfo=UTC), quiet_until=timezone.now() + timedelta(days=1))
    letter = due()

    assert scan() == 2

    assert scheduled() == [ids(letter)]
    assert fresh(odd).next_recovery_at == LAST_LOOK
