"""Claims, leases and charges, whichever source is claimed from: engine.md's accounting on all three."""

import threading
from contextlib import suppress
from uuid import uuid4

import pytest
from django.db import OperationalError

from deadletters.models import DeadLetter
from queues import Delay, Terminal
from queues.drainer.losses import sweep
from queues.models import DeliveryLogEntry, ServiceInstance
from queues.runfile import RunFile
from queues.store.claims import Held
from queues.testing import drain
from queues.words.outcomes import Cause, FailureReason
from queues.words.sources import Queue
from tests.db.conftest import at_once
from tests.db.sources import LEASE

pytestmark = pytest.mark.django_db


def fails(run):
    raise ValueError(f"run {run.number}")


def counts(row):
    return row["attempts"], row["releases"], row["suspect"]


# --- claims and leases


def test_a_claim_counts_nothing_and_a_run_counts_one(work):
    work.does = fails
    work_id = work.put()
    work.claim()
    claimed = work.row(work_id)["attempts"]
    work.leases_lapse()
    work.drain()

    assert claimed == 0
    row = work.row(work_id)
    assert row["attempts"] - row["releases"] == 1


def test_what_is_claimed_is_not_claimed_again_before_its_lease_ends(work):
    ids = {work.put(n) for n in range(3)}

    first, _ = work.claim()
    second, _ = work.claim()
    work.leases_lapse()
    third, _ = work.claim()

    assert {row.message_id for row in first} == {row.message_id for row in third} == ids
    assert second == []


def test_a_claim_given_back_counts_nothing_and_is_due_at_once(work):
    ids = [work.put(n, stream="s") for n in range(2)] + [work.put(2, attempts=4)]
    _, held = work.claim()
    held.release()

    rows, _ = work.claim()

    assert [row.message_id for row in rows] == ids
    assert [(row.attempts, row.releases, row.suspect, row.lapsed) for row in rows] == [
        (0, 0, False, False),
        (0, 0, False, False),
        (4, 0, False, False),
    ], "what was charged before stays charged"


def test_giving_back_a_claim_that_another_took_over_leaves_the_other_its_lease(work):
    work_id = work.put()
    _, old = work.claim()
    work.leases_lapse()
    _, new = work.claim()

    old.release()

    assert new.is_held()
    assert not old.is_held()
    assert counts(work.row(work_id)) == (1, 0, True), "a consumer that vanished still pays"


def test_a_renewal_extends_what_is_held_from_the_database_clock_and_nothing_that_was_lost(work, sql):
    work.put()
    _, old = work.claim()
    sql(f"UPDATE {work.source} SET lease_expiry = now() + interval '1 second' WHERE lease_token IS NOT NULL")
    sql("UPDATE wh_streams SET lease_expiry = now() + interval '1 second' WHERE lease_token IS NOT NULL")

    assert old.renew(LEASE) >= 1
    assert work.claim()[0] == []
    held = f"SELECT lease_expiry FROM {work.source} UNION SELECT lease_expiry FROM wh_streams"
    (left,) = sql(f"SELECT extract(epoch FROM max(lease_expiry) - clock_timestamp()) AS s FROM ({held}) AS leases")
    assert 20 < left["s"] <= 30

    work.leases_lapse()
    work.claim()
    assert old.renew(LEASE) == 0


def test_claimers_hold_different_streams_at_once_and_one_stream_is_held_by_one(work):
    for stream in "ab":
        for n in range(2):
            work.put(f"{stream}{n}", stream=stream)

    first, _ = work.claim(limit=1)
    second, _ = work.claim()
    third, _ = work.claim()

    assert len({row.stream_id for row in first}) == 1
    assert len({row.stream_id for row in second}) == 1
    assert {row.stream_id for row in first}.isdisjoint({row.stream_id for row in second})
    assert third == []


def test_a_stream_longer_than_its_share_of_a_claim_is_drained_to_its_end_in_order(work, configure):
    configure(CLAIM_PER_STREAM=3, CLAIM_BATCH=5)
    for n in range(11):
        work.put(n, stream="s")
        work.put(100 + n)
    work.drain()

    assert [payload for payload in work.ran if payload < 100] == list(range(11))
    assert sorted(work.ran) == [*range(11), *range(100, 111)]


def test_a_source_that_does_not_exist_is_refused_by_name_and_leaves_no_note_behind(configure, tmp_path):
    configure(RUN_DIR=tmp_path)
    with pytest.raises(ValueError, match="wh_nothing"):
        drain("wh_nothing")

    assert list(tmp_path.iterdir()) == []


# --- runs that never reported


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


# --- a claim or a connection that is lost


@pytest.mark.django_db(transaction=True)
def test_one_lost_claim_in_a_group_leaves_no_effect_of_it_and_the_others_run_again_alone(work, sql, effects):
    ids = [work.put(n) for n in range(5)]
    taken = []

    def take_one_over():
        work.leases_lapse()
        taken.extend(row.message_id for row in work.claim(limit=1)[0])

    def write(run):
        sql("INSERT INTO test_effects (payload) VALUES (%s)", str(run.payload))
        if run.payload == 3 and not taken:
            at_once(take_one_over)

    work.does = write
    work.drain()

    (lost,) = taken
    left = ids.index(lost)
    assert sorted(effects()) == [str(n) for n in range(5) if n != left]
    assert [row[work.key] for row in work.rows()] == [lost]
    assert work.row(lost)["attempts"] == 1, "what the one who took it over was charged for the lapse, and no more"


@pytest.mark.django_db(transaction=True)
def test_a_run_that_takes_the_connection_with_it_is_charged_and_its_neighbours_are_not(work, sql, effects):
    ids = [work.put(n) for n in range(5)]

    def cut_at_three(run):
        sql("INSERT INTO test_effects (payload) VALUES (%s)", str(run.payload))
        if run.payload == 3 and run.number == 1:
            sql("SELECT pg_terminate_backend(pg_backend_pid())")

    work.does = cut_at_three
    work.drain()
    work.drain()
    row = work.row(ids[3])
    work.drain_for(1)

    assert (row["attempts"], row["releases"], row["suspect"], row["lease_token"]) == (1, 0, False, None)
    assert sorted(effects()) == ["0", "1", "2", "3", "4"]
    assert work.rows() == []
    assert list(DeliveryLogEntry.objects.values_list("message_id", "attempt", "outcome")) == [(ids[3], 1, "failure")]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("at", ["claimed", "recorded"])
def test_b1_a_connection_that_goes_between_claim_and_commit_is_nobodys_attempt_and_work_goes_on(
    work, sql, effects, monkeypatch, at
):
    """The database ends the session just before the group is recorded, or before anything has run."""
    from queues.drainer import batch, recording

    for n in range(3):
        work.put(n)
    work.does = lambda run: sql("INSERT INTO test_effects (payload) VALUES (%s)", str(run.payload))
    place, name = (recording, "write") if at == "recorded" else (batch, "bodies")
    whole, cut = getattr(place, name), threading.Event()

    def cut_once(*arguments):
        if not cut.is_set():
            cut.set()
            with pytest.raises(OperationalError):
                sql("SELECT pg_terminate_backend(pg_backend_pid())")
        return whole(*arguments)

    monkeypatch.setattr(place, name, cut_once)
    for _ in range(2):
        with suppress(OperationalError):
            work.drain()

    assert cut.is_set()
    assert sorted(effects()) == ["0", "1", "2"]
    assert work.rows() == []
    assert not DeadLetter.objects.exists()
    assert "failure" not in DeliveryLogEntry.objects.values_list("outcome", flat=True)


# --- nobody to run it


def test_r5_what_nobody_alive_runs_is_dead_at_once_without_a_run_and_those_behind_it_go_on(work, sql):
    if work.source == "wh_outbox":
        pytest.skip("a destination without a route has tests of its own")
    gone = work.put("gone", stream="s")
    work.put("kept", stream="s")
    rename(work, gone, sql)
    work.drain()

    letter = DeadLetter.objects.get()
    assert (letter.source_id, letter.cause, letter.attempts_when_dlq) == (gone, Cause.NO_HANDLER, 0)
    assert "legacy.Removed" in letter.error_text
    assert work.ran == ["kept"]


def test_r5_what_another_live_process_runs_waits_for_it_uncounted(work, sql):
    if work.source == "wh_outbox":
        pytest.skip("a destination without a route has tests of its own")
    gone = work.put("gone")
    rename(work, gone, sql)
    ServiceInstance.objects.create(
        instance_id=uuid4(),
        service_name="shop",
        host_name="elsewhere",
        process_id=1,
        metadata={"types": ["legacy.Removed"], "perspectives": {"test.totals": ["legacy.Removed"]}},
    )
    work.drain()

    row = work.row(gone)
    assert counts(row) == (0, 0, False)
    assert row["waits"] > 0
    assert not DeadLetter.objects.exists()


def test_r5_a_letter_recovered_for_a_handler_that_is_still_gone_is_dead_again_untried(work, sql):
    from deadletters.store.recovery import Sent, recover

    if work.source == "wh_outbox":
        pytest.skip("a destination without a route has tests of its own")
    rename(work, work.put("gone"), sql)
    work.drain()
    assert recover(DeadLetter.objects.get().pk, "ann") is Sent.SENT
    work.drain()

    letter = DeadLetter.objects.get()
    assert (letter.deaths, letter.cause, letter.recovery_status, letter.attempts_when_dlq) == (2, "no_handler", 0, 0)
    assert work.runs == []


def rename(work, work_id, sql):
    """Let the message be of a type that was deleted from the code."""
    if work.source == "wh_inbox":
        sql("UPDATE wh_inbox SET message_type = 'legacy.Removed' WHERE message_id = %s", work_id)
    else:
        sql(
            "UPDATE wh_event_store e SET event_type = 'legacy.Removed' FROM wh_perspective_events w"
            " WHERE e.event_id = w.event_id AND w.event_work_id = %s",
            work_id,
        )
