"""What replays of other systems got wrong, on the real engine: sweeps, budgets, holds and canaries."""

import json

import pytest

from deadletters import counting, generations
from deadletters.models import DeadLetter, FailureGroup, ItemState, RecoveryItem, RecoveryRun, RunState
from deadletters.recovery.stepping import step
from queues import Terminal, handles, instances
from queues.drainer import drain
from queues.models import InboxMessage
from tests.db.conftest import send_numbers

pytestmark = pytest.mark.django_db(transaction=True)

OLD, NEW = "build-1", "build-2"


@pytest.fixture
def deploy(configure, monkeypatch):
    """Let this process be a worker of a build that reports itself, and return how many replays began."""
    monkeypatch.setattr(generations, "STAGGER_SECONDS", 0)

    def deployed(build: str) -> int:
        configure(GENERATION=build)
        instances.tick()
        return generations.check()

    deployed(OLD)
    return deployed


@pytest.fixture
def broken(handlers):
    """A handler of test.N that raises what the test says: by payload, or for all."""
    faults = {"all": ValueError("no such order")}

    @handles("test.N", max_attempts=1)
    def handle(message):
        fault = faults.get(message.payload, faults["all"])
        if fault is not None:
            raise fault

    return faults


def work():
    drain("wh_inbox", seconds=None)


def dead(count):
    send_numbers(count)
    work()
    assert DeadLetter.objects.filter(recovery_status=0).count() == count


def to_the_end():
    """Step and drain in turn until no run is open."""
    for _ in range(50):
        step(5)
        work()
        if not RecoveryRun.objects.exclude(state__in=[RunState.FINISHED, RunState.STOPPED]).exists():
            return
    raise AssertionError("the runs do not end")


def states():
    return sorted(DeadLetter.objects.values_list("recovery_status", flat=True))


def test_a_new_build_schedules_what_died_and_asking_again_schedules_nothing(broken, deploy):
    dead(3)

    assert deploy(NEW) == 1
    step(5)
    assert RecoveryItem.objects.count() == 3

    assert [generations.check() for _ in range(3)] == [0, 0, 0]


def test_the_build_is_swept_for_once_and_not_at_each_restart(broken, deploy):
    dead(1)
    assert deploy(NEW) == 1
    to_the_end()
    broken["all"] = RuntimeError("another fault")
    dead_again = DeadLetter.objects.get()
    assert (dead_again.generation, dead_again.deaths) == (NEW, 2)

    assert [deploy(NEW) for _ in range(3)] == [0, 0, 0]
    assert DeadLetter.objects.get().deaths == 2


def test_nothing_is_swept_for_a_build_that_no_worker_runs(broken, deploy):
    dead(1)
    generations.register(service="shop", build="build-9", types=["test.N"])

    assert generations.check() == 0
    assert not RecoveryRun.objects.exists()


def test_a_permanent_failure_burns_one_attempt_and_no_build_tries_it_until_it_is_said_to_be_fixed(broken, deploy):
    broken["all"] = Terminal("declined")
    dead(1)
    assert DeadLetter.objects.get().attempts_when_dlq == 1
    broken["all"] = None

    assert deploy(NEW) == 0
    FailureGroup.objects.update(state="fixed", fixed_in_generation=NEW)
    assert generations.check() == 1
    to_the_end()

    assert states() == [3]


@pytest.mark.parametrize("status", [0, 2])
def test_a_letter_whose_recoveries_are_spent_gets_one_attempt_on_the_new_build(broken, deploy, status):
    dead(1)
    DeadLetter.objects.update(recovery_attempts=99, recovery_status=status)
    broken["all"] = None

    deploy(NEW)
    to_the_end()

    letter = DeadLetter.objects.get()
    assert (letter.recovery_status, letter.recovery_attempts) == (3, 99)


def test_spent_recoveries_count_one_by_one_and_not_as_sums_of_sums(broken, deploy, sql):
    dead(1)
    spent = []
    for _ in range(4):
        spent.append(DeadLetter.objects.get().recovery_attempts)
        DeadLetter.objects.update(recovery_status=0)
        request = json.dumps([{"dead_letter_id": str(DeadLetter.objects.get().pk)}])
        assert [row["outcome"] for row in sql("SELECT * FROM recover_dead_letters(%s, 's', 'schedule')", request)] == [
            "sent"
        ]
        work()

    assert spent == [0, 1, 2, 3]


def test_a_replay_that_dies_gives_the_letter_no_new_budget(broken, deploy):
    dead(1)
    DeadLetter.objects.update(recovery_attempts=1)

    deploy(NEW)
    to_the_end()

    letter = DeadLetter.objects.get()
    assert (letter.generation, letter.deaths, letter.recovery_attempts) == (NEW, 2, 1)


def test_a_person_s_hold_survives_every_new_build_and_restart(broken, deploy):
    dead(2)
    held = DeadLetter.objects.order_by("pk").first()
    DeadLetter.objects.filter(pk=held.pk).update(operator_disposition=2, recovery_status=2)
    broken["all"] = None

    for build in (NEW, NEW, "build-3"):
        deploy(build)
        to_the_end()

    assert dict(DeadLetter.objects.values_list("pk", "recovery_status")) == {
        letter.pk: 2 if letter.pk == held.pk else 3 for letter in DeadLetter.objects.all()
    }


def test_a_hold_that_comes_after_the_freeze_is_respected_by_the_send(broken, deploy):
    dead(1)
    deploy(NEW)
    DeadLetter.objects.update(operator_disposition=2, recovery_status=2)
    broken["all"] = None

    to_the_end()

    assert states() == [2]
    assert [item.state for item in RecoveryItem.objects.all()] in ([], [ItemState.SKIPPED])


def test_a_canary_that_is_only_sent_lets_no_other_letter_go(broken, deploy):
    dead(20)
    deploy(NEW)

    for _ in range(3):
        step(5)

    assert InboxMessage.objects.count() == RecoveryItem.objects.filter(state=ItemState.SENT).count() == 5


def test_a_build_in_which_it_is_still_broken_stops_at_its_canary_and_the_group_has_regressed(broken, deploy):
    dead(20)
    counting.fold()
    FailureGroup.objects.update(state="fixed", fixed_in_generation=NEW)

    deploy(NEW)
    to_the_end()
    counting.fold()

    assert RecoveryRun.objects.get().state == RunState.STOPPED
    deaths = sorted(DeadLetter.objects.values_list("deaths", flat=True))
    assert deaths == [1] * 15 + [2] * 5
    assert states() == [0] * 20
    assert FailureGroup.objects.get().state == "regressed"
    ends = sorted(RecoveryItem.objects.values_list("state", flat=True))
    assert ends == [ItemState.FAILED_AGAIN] * 5 + [ItemState.SKIPPED] * 15


def test_a_build_that_mends_one_fault_replays_its_group_and_leaves_the_one_that_a_person_holds(broken, deploy):
    broken.update({0: ValueError("no such order"), 1: ValueError("no such order"), 2: KeyError("tax"), "all": None})
    send_numbers(3)
    work()
    counting.fold()
    letters = {letter.error_line: letter for letter in DeadLetter.objects.all()}
    assert FailureGroup.objects.count() == 2
    held = next(letter for line, letter in letters.items() if "tax" in line)
    DeadLetter.objects.filter(pk=held.pk).update(operator_disposition=2, recovery_status=2)
    broken.update({0: None, 1: None, 2: None})

    assert deploy(NEW) == 1
    to_the_end()

    assert states() == [2, 3, 3]
    assert DeadLetter.objects.get(recovery_status=2).pk == held.pk
    assert RecoveryRun.objects.get().frozen_count == 2
