"""The schedule on real rows: what is due goes into one run, what is not leaves the range of what is due."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.utils import timezone

from deadletters import counting, triage
from deadletters.models import DeadLetter, FailureGroup, Generation, RecoveryItem, RecoveryPolicy, RecoveryRun, RunState
from deadletters.recovery import runs
from deadletters.recovery.stepping import step
from deadletters.words.scopes import Letters
from queues.drainer import drain
from queues.words.handlers import handles
from tests.db.rows import write_row
from tests.db.scheduling import due, fresh, ids, scan, scheduled

pytestmark = pytest.mark.django_db


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
    stream = uuid4()
    letter = due(failure_reason=8, recovery_attempts=3, stream_id=stream)
    sql(
        "INSERT INTO wh_streams (queue, stream_id, due_at, held_by) VALUES ('wh_inbox', %s, now(), %s)",
        stream,
        letter.pk,
    )

    scan()

    assert fresh(letter).recovery_status == 4
    assert sql("SELECT held_by FROM wh_streams") == [{"held_by": None}]
