"""Order within a stream and fairness between them, with races driven by hand: two connections and a barrier."""

import random
import threading
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest
from django.db import connection, transaction

from deadletters.models import DeadLetter
from deadletters.store.recovery import Sent, recover
from queues import Delay, Terminal
from queues.models import PauseKind, SourcePause
from queues.words.sources import PERSPECTIVES
from tests.db.conftest import at_once, until_somebody_waits_for_a_lock

pytestmark = pytest.mark.django_db
BARRIER = 4242
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def in_thread(action):
    """Run an action on a connection of its own; return what waits for it and returns what it returned."""
    got = []

    def run():
        try:
            got.append(action())
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()

    def result():
        thread.join(20)
        assert got, "the action did not end"
        return got[0]

    return result


@pytest.fixture
def barrier(sql):
    """Return the block for a claim that stops once it has leased its streams, before it reads them.

    A trigger on the leases waits for an advisory lock of the block's session.
    """
    sql(
        f"CREATE FUNCTION test_barrier() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        f" PERFORM pg_advisory_xact_lock({BARRIER}); RETURN NULL; END $$;"
        "CREATE TRIGGER test_barrier AFTER UPDATE OF lease_token ON wh_streams"
        " FOR EACH STATEMENT EXECUTE FUNCTION test_barrier()"
    )

    @contextmanager
    def held():
        sql("SELECT pg_advisory_lock(%s)", BARRIER)
        try:
            yield
        finally:
            sql("SELECT pg_advisory_unlock(%s)", BARRIER)

    yield held
    sql("DROP FUNCTION test_barrier CASCADE")


# --- one stream


def test_a_failing_head_keeps_its_own_stream_waiting_and_no_other(work):
    def head_fails_once(run):
        if run.payload == "a0" and run.number == 1:
            raise ValueError

    work.does = head_fails_once
    for n in range(3):
        for stream in "ab":
            work.put(f"{stream}{n}", stream=stream)
    work.drain()
    assert sorted(work.ran) == ["a0", "b0", "b1", "b2"]
    work.drain_for(1)

    assert [payload for payload in work.ran if payload[0] == "a"] == ["a0", "a0", "a1", "a2"]


def test_a_delayed_head_holds_its_stream_and_comes_first_when_it_is_due(work):
    def head_waits_once(run):
        if run.payload == 0 and run.number == 1:
            raise Delay(3600)

    work.does = head_waits_once
    for n in range(3):
        work.put(n, stream="s")
    work.drain()
    assert work.ran == [0]
    work.drain_for(1)

    assert work.ran == [0, 0, 1, 2]


def test_behind_a_dead_head_its_stream_goes_on(work):
    def head_is_declined(run):
        if run.payload == 0:
            raise Terminal("declined")

    work.does = head_is_declined
    for n in range(3):
        work.put(n, stream="s")
    work.drain()

    assert work.ran == [0, 1, 2]
    assert DeadLetter.objects.count() == 1


def test_nobody_claims_a_message_of_a_stream_of_which_one_is_in_flight(work):
    for n in range(4):
        work.put(n, stream="s")

    first, held = work.claim(limit=1)
    assert (len(first), work.claim()[0]) == (1, [])
    work.put(4, stream="s")
    assert work.claim()[0] == []
    held.release()

    assert len(work.claim()[0]) == 5


# --- others


def test_a_long_stream_leaves_every_other_stream_its_head(work):
    for n in range(120):
        work.put(n, stream="long")
    heads = {work.put(f"head {n}", stream=f"other {n}") for n in range(10)}

    rows, _ = work.claim(limit=40, per_stream=50)

    assert heads <= {row.message_id for row in rows}
    assert len(rows) == 40


@pytest.mark.parametrize("stream", [None, "s"], ids=["free", "stream"])
def test_a_row_for_one_build_is_run_by_that_build_only_and_holds_its_stream_until_then(work, configure, stream):
    configure(GENERATION="old")
    work.put("for the new build", stream=stream, only_generation="new")
    work.put("behind", stream=stream)
    work.put("beside")
    work.drain()
    by_the_old_one = sorted(work.ran)
    configure(GENERATION="new")
    work.drain_for(1)

    assert by_the_old_one == (["beside"] if stream else ["behind", "beside"])
    assert sorted(work.ran) == ["behind", "beside", "for the new build"]
    assert not stream or work.ran.index("for the new build") < work.ran.index("behind")
    assert work.rows() == []


@pytest.mark.parametrize("stream", [None, "s"], ids=["free", "stream"])
def test_nothing_of_a_paused_source_is_run_or_counted_until_it_is_resumed_or_the_pause_is_over(work, sql, stream):
    pause = SourcePause.objects.create(source=work.source, kind=PauseKind.SOURCE, paused_by="ann")
    for n in range(3):
        work.put(n, stream=stream)
    work.drain_for(2)
    waiting = work.rows()
    pause.until = LONG_AGO
    pause.save()
    work.drain_for(1)

    assert [(row["attempts"], row["lease_token"]) for row in waiting] == [(0, None)] * 3
    assert sorted(work.ran) == [0, 1, 2]


# --- two claimers, and what commits between them


@pytest.mark.django_db(transaction=True)
def test_of_two_claimers_at_one_stream_one_gets_it_and_the_other_goes_past(work, barrier):
    ids = [work.put(n, stream="s") for n in range(3)]
    with barrier():
        first = in_thread(work.claim)
        until_somebody_waits_for_a_lock()
        other = work.put("other", stream="other")
        second = in_thread(work.claim)

    assert [row.message_id for row in first()[0]] == ids
    assert [row.message_id for row in second()[0]] in ([other], [])
    left = [row.message_id for row in work.claim()[0]]
    assert left in ([], [other])


@pytest.mark.django_db(transaction=True)
def test_an_earlier_row_that_commits_while_its_stream_is_being_claimed_comes_first(work, barrier):
    """Between the lease and the read: the claim must see the row, or it would run behind a later one."""
    late = work.put("late", stream="s")
    with barrier():
        claimed = in_thread(work.claim)
        until_somebody_waits_for_a_lock()

        early = in_thread(lambda: work.put("early", stream="s", position=-1, scheduled_for=LONG_AGO))()
    rows, _ = claimed()

    assert [row.message_id for row in rows] == [early, late]


@pytest.mark.django_db(transaction=True)
def test_a_recovered_head_that_returns_while_its_stream_is_being_claimed_is_not_overtaken(work, barrier):
    def head_is_declined_once(run):
        if run.payload == "head" and run.number == 1:
            raise Terminal("declined")

    work.does = head_is_declined_once
    head = work.put("head", stream="s")
    work.drain()
    follower = work.put("follower", stream="s")
    letter = DeadLetter.objects.get()
    with barrier():
        claimed = in_thread(work.claim)
        until_somebody_waits_for_a_lock()
        assert in_thread(lambda: recover(letter.pk, "ann"))() is Sent.SENT
    rows, _ = claimed()

    assert rows == [], "the head is due a moment after the claim began, and holds its stream"
    assert [row.message_id for row in work.claim()[0]] == [head, follower]


@pytest.mark.django_db(transaction=True)
def test_an_earlier_row_that_commits_after_the_claim_waits_for_it_and_runs_next(work):
    """What is in flight is not overtaken: one of a stream at a time, the earlier one as soon as that has ended."""
    if work.source == PERSPECTIVES:
        pytest.skip("events have their versions, and no event can come before one that is stored")
    work.put("in flight", stream="s")
    (running,), held = work.claim()
    work.put("early", stream="s", position=-1)
    work.put("later", stream="s")

    assert work.claim()[0] == []
    held.release()
    work.drain()

    assert work.ran == ["early", "in flight", "later"]
    assert running.position > -1


@pytest.mark.django_db(transaction=True)
def test_an_arrival_while_its_stream_is_being_emptied_is_not_forgotten(work):
    """The stream's row is deleted only if nothing arrived since it was claimed."""
    work.put("first", stream="s")
    rows, held = work.claim()
    with connection.cursor() as cursor:
        cursor.execute(f"DELETE FROM {work.source} WHERE {work.key} = %s", [rows[0].message_id])

    def arrives():
        work.put("second", stream="s")
        work.claim()

    in_thread(arrives)()
    held.release()
    work.drain()

    assert work.ran == ["second"]


# --- late commits


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("ends", ["commit", "rollback"])
@pytest.mark.parametrize("stream", [None, "s"], ids=["free", "stream"])
def test_m3_an_earlier_row_that_commits_late_is_run_and_one_rolled_back_keeps_nobody_waiting(work, ends, stream):
    if work.source == PERSPECTIVES and stream is not None:
        pytest.skip("appends to one stream wait for each other: tests/db/test_events.py")
    inserted, may_end = threading.Event(), threading.Event()

    def writes_slowly():
        with transaction.atomic():
            work.put("late", stream=stream)
            inserted.set()
            assert may_end.wait(20)
            transaction.set_rollback(ends == "rollback")
        return True

    ended = in_thread(writes_slowly)
    assert inserted.wait(20)
    work.put("early", stream=stream)
    work.drain()
    assert work.ran == ["early"]
    may_end.set()
    assert ended()
    work.put("last", stream=stream)
    work.drain()

    assert work.ran == (["early", "late", "last"] if ends == "commit" else ["early", "last"])
    assert work.rows() == []


@pytest.mark.django_db(transaction=True)
def test_m3_of_two_hundred_writers_that_commit_in_any_order_each_message_runs_once_in_its_streams_order(work):
    """Eight writers at a time hold their transactions open across drains; some roll back."""
    chance = random.Random(7)
    plans = [(n, f"s{n % 5}", chance.random() < 0.2) for n in range(200)]
    committed, lock, drained = [], threading.Lock(), threading.Event()
    turns = iter(plans)

    def writes():
        while True:
            with lock:
                plan = next(turns, None)
            if plan is None:
                return
            n, stream, rolls_back = plan
            with transaction.atomic():
                work.put(n, stream=stream)
                if work.source != PERSPECTIVES and n % 3 == 0:
                    drained.wait(0.01)
                transaction.set_rollback(rolls_back)
            if not rolls_back:
                committed.append(n)

    def drains():
        while len(committed) < sum(not rolls_back for *_, rolls_back in plans):
            work.drain()
            drained.set()
            drained.clear()

    at_once(*[writes] * 8, drains)
    work.drain()

    assert sorted(work.ran) == sorted(committed)
    assert len(committed) == sum(not rolls_back for *_, rolls_back in plans)
    assert work.rows() == []


# --- rows that fill a batch


@pytest.mark.parametrize("bad", ["failing", "unreadable"])
@pytest.mark.parametrize("stream", [None, "one of its own"])
def test_m2_sixty_bad_rows_at_the_head_do_not_keep_the_good_ones_waiting(work, configure, sql, bad, stream):
    """Batches of fifty: the bad rows fill more than one."""

    def bad_ones_fail(run):
        if str(run.payload).startswith("bad"):
            raise ValueError("never")

    configure(CLAIM_BATCH=50, MAX_ATTEMPTS=2)
    work.does = bad_ones_fail
    for n in range(60):
        work_id = work.put(f"bad {n}", stream=stream and f"bad {n}")
        if bad == "unreadable":
            spoil(work, work_id, sql)
    for n in range(250):
        work.put(n, stream=stream and f"good {n % 20}")
    work.drain()

    assert sorted(payload for payload in work.ran if isinstance(payload, int)) == list(range(250))
    work.drain_for(2)
    assert DeadLetter.objects.count() == 60
    assert set(DeadLetter.objects.values_list("cause", "attempts_when_dlq")) == {
        ("budget_spent", 2) if bad == "failing" else ("unreadable", 0)
    }
    assert work.rows() == []


def spoil(work, work_id, sql):
    """Make the message's bytes unreadable, as a foreign writer may."""
    if work.source == PERSPECTIVES:
        sql(
            "UPDATE wh_event_store e SET envelope_raw = '\\xff' FROM wh_perspective_events w"
            " WHERE e.event_id = w.event_id AND w.event_work_id = %s",
            work_id,
        )
    else:
        sql(f"UPDATE {work.source} SET envelope_raw = '\\xff' WHERE message_id = %s", work_id)
