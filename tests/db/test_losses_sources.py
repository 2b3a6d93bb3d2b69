"""Runs that never reported, whichever source they are of: who is charged for a crash, and who never is."""

from uuid import uuid4

import pytest

from deadletters.models import DeadLetter
from queues import Delay, Terminal
from queues.drainer.losses import sweep
from queues.models import DeliveryLogEntry
from queues.runfile import RunFile
from queues.store.claims import Held
from queues.words.outcomes import Cause, FailureReason
from queues.words.sources import Queue
from tests.db.sources import counts, fails

pytestmark = pytest.mark.django_db


def test_a_lapsed_claim_without_a_recorded_start_is_one_provisional_charge_however_often(work):
    work_id = work.put()
    for _ in range(4):
        work.claim()
        work.leases_lapse()
    work.claim()

    assert counts(work.row(work_id)) == (1, 0, True)


def test_claims_alone_never_kill_and_one_claim_of_a_spent_message_moves_it(work, configure):
    """Many leases and no failure: it runs. One lease and a spent budget: it is moved."""
    configure(MAX_ATTEMPTS=2)
    work.put("leased")
    for _ in range(9):
        work.claim()
        work.leases_lapse()
    work.put("spent", attempts=2, error="it failed twice")
    work.drain()

    assert work.ran == ["leased"]
    assert DeadLetter.objects.get().error_text == "it failed twice"


def test_a_provisional_charge_ends_with_the_next_report_and_costs_no_run(work, configure):
    configure(MAX_ATTEMPTS=2)
    work.does = fails
    work_id = work.put()
    work.claim()
    work.leases_lapse()
    work.drain()
    row = work.row(work_id)
    work.drain_for(2)

    assert counts(row) == (2, 1, False)
    assert len(work.runs) == 2
    assert DeadLetter.objects.get().attempts_when_dlq == 3


@pytest.mark.parametrize("cap", [1, 3])
def test_a1_a_killer_starts_so_often_as_its_cap_and_dies_as_worker_lost(work, configure, cap):
    configure(MAX_ATTEMPTS=cap)
    work_id = work.put("killer")
    for _ in range(cap):
        assert not DeadLetter.objects.exists()
        assert work.start_and_vanish().message_id == work_id
    for n in range(5):
        work.put(n)
    work.drain()

    letter = DeadLetter.objects.get()
    assert work.ran == list(range(5)), "it is not started once more"
    assert (letter.source_id, letter.cause, letter.attempts_when_dlq) == (work_id, Cause.WORKER_LOST, cap)
    assert (letter.error_text, letter.failure_reason) == ("exceeded retry limit", FailureReason.LEASE_EXPIRED)


def test_a_run_that_never_reported_overwrites_no_failure_and_invents_none(work):
    fresh = work.put("fresh")
    work.start_and_vanish()
    assert (work.row(fresh)["attempts"], work.row(fresh)["error"]) == (1, None)
    work.does = fails
    work.drain()
    (before,) = work.rows()
    work.time_passes()
    work.start_and_vanish()
    work.claim()

    (after,) = work.rows()
    assert (after["error"], after["failure_detail"]) == (before["error"], before["failure_detail"])
    assert after["attempts"] == before["attempts"] + 1 == 3


def test_a_lost_run_stays_lost_when_its_next_claim_is_given_back(work, configure):
    """Else a killer would die of a spent budget, for which the schedule brings messages back."""
    configure(MAX_ATTEMPTS=1)
    work.put()
    work.start_and_vanish()
    _, held = work.claim()
    held.release()
    work.drain()

    assert work.runs == []
    assert DeadLetter.objects.get().cause == Cause.WORKER_LOST


def test_a_neighbours_crash_after_a_lost_run_does_not_kill(work, configure):
    configure(MAX_ATTEMPTS=2)
    work.put()
    work.start_and_vanish()
    work.claim()
    work.leases_lapse()
    work.claim()
    work.leases_lapse()
    work.drain()

    assert len(work.runs) == 1
    assert not DeadLetter.objects.exists()


def test_a_loss_is_forgotten_with_the_next_report(work, configure):
    def waits(run):
        raise Delay(60)

    configure(MAX_ATTEMPTS=5)
    work.does = waits
    work.put()
    work.start_and_vanish()
    work.drain()
    configure(MAX_ATTEMPTS=1)
    work.drain_for(1)

    assert DeadLetter.objects.get().cause == Cause.BUDGET_SPENT


def test_a_message_lost_for_good_has_the_last_reported_failure_beside_it(work, configure):
    configure(MAX_ATTEMPTS=2)
    work.does = fails
    work.put()
    work.drain()
    work.time_passes()
    work.start_and_vanish()
    work.drain()

    letter = DeadLetter.objects.get()
    assert (letter.cause, letter.error_text) == (Cause.WORKER_LOST, "exceeded retry limit")
    assert letter.death_rows.get().last_reported_error.startswith("ValueError: run 1")
    assert len(work.runs) == 1


def test_a_message_lost_for_good_without_a_reported_failure_says_none_beside_it(work, configure):
    configure(MAX_ATTEMPTS=1)
    work.put()
    work.start_and_vanish()
    work.drain()

    assert DeadLetter.objects.get().death_rows.get().last_reported_error is None


def test_a_lost_run_at_the_delay_cap_is_a_failing_run_and_only_another_delay_kills(work, configure):
    def waits(run):
        raise Delay(60)

    configure(MAX_ATTEMPTS=3)
    work.does = waits
    work_id = work.put(max_delays=1)
    work.drain()
    work.time_passes()
    work.start_and_vanish()
    assert work.row(work_id)["attempts"] == 2
    work.drain()

    letter = DeadLetter.objects.get()
    assert (letter.cause, letter.attempts_when_dlq, letter.delays_when_dlq) == (Cause.DELAY_CAP, 3, 1)


def test_of_one_success_one_rejection_and_one_crash_the_crashed_one_goes_to_another_drainer(work):
    def second_is_declined(run):
        if run.payload == 2:
            raise Terminal("declined")

    work.does = second_is_declined
    for n in (1, 2):
        work.put(n)
    work.drain()
    third = work.put(3)
    work.start_and_vanish()
    work.drain()

    assert work.ran == [1, 2, 3]
    assert work.rows() == []
    assert DeadLetter.objects.get().source_id != third
    outcomes = DeliveryLogEntry.objects.filter(message_id=third).values_list("attempt", "outcome")
    assert list(outcomes) == [(1, "worker_lost")]


@pytest.fixture
def run_file(tmp_path):
    """Return what notes a claim as a drainer does whose process then dies: the lock on its file goes with it."""

    def note(held, running=None):
        file = RunFile(tmp_path, uuid4(), capacity=100)
        file.claimed(held)
        if running is not None:
            file._set_running(running + 1)
        file._map.close()
        file._file.close()
        return tmp_path

    return note


def test_a_crash_charges_the_message_that_was_running_and_gives_the_others_back(work, run_file):
    ids = [work.put(n, stream=f"s{n % 2}") for n in range(4)]
    rows, held = work.claim()
    running = next(index for index, row in enumerate(rows) if row.message_id == ids[1])

    assert sweep(run_file(held, running)) == 1

    assert [counts(work.row(work_id))[0] for work_id in ids] == [0, 1, 0, 0]
    assert not any(row["suspect"] or row["lease_token"] for row in work.rows())
    outcomes = DeliveryLogEntry.objects.values_list("message_id", "outcome")
    assert dict(outcomes) == {**dict.fromkeys(ids, "released"), ids[1]: "worker_lost"}


def test_a_note_that_cannot_be_settled_keeps_no_drain_from_its_work(work, run_file, configure):
    folder = run_file(Held(queue=Queue(source="wh_gone"), token=uuid4(), messages=(uuid4(),), streams=()), 0)
    configure(RUN_DIR=folder)
    work.put("behind")
    work.drain()

    assert work.ran == ["behind"]


def test_a_crash_between_two_messages_charges_nobody(work, run_file):
    ids = [work.put(n) for n in range(3)]
    _, held = work.claim()

    sweep(run_file(held))

    assert [counts(work.row(work_id)) for work_id in ids] == [(0, 0, False)] * 3
    assert len(work.claim()[0]) == 3


def test_a_crash_on_the_last_attempt_dies_without_another_run(work, configure, run_file):
    configure(MAX_ATTEMPTS=2)
    work.does = fails
    work_id = work.put()
    work.drain()
    work.time_passes()
    _, held = work.claim()
    sweep(run_file(held, 0))
    work.drain()

    letter = DeadLetter.objects.get()
    assert (letter.source_id, letter.cause, letter.attempts_when_dlq) == (work_id, Cause.WORKER_LOST, 2)
    assert len(work.runs) == 1
