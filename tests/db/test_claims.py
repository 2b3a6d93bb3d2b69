"""Claims, order and charges: engine.md sections 1 and 2 on a real inbox."""

import threading
import uuid
from datetime import timedelta

import pytest
from django.db import connection, transaction

from deadletters.models import DeadLetter
from queues import NewMessage, handles, send, send_many
from queues.models import InboxMessage
from queues.store import claims
from queues.testing import drain
from queues.words.outcomes import Cause, FailureReason
from queues.words.sources import Queue
from tests.db.conftest import at_once, send_numbers

INBOX = Queue(source="wh_inbox")
LEASE = timedelta(seconds=30)


def claim(limit=100, per_stream=50):
    claims.admit(INBOX, 1000)
    token = uuid.uuid4()
    rows = claims.claim(INBOX, instance_id=uuid.uuid4(), token=token, limit=limit, per_stream=per_stream, lease=LEASE)
    return rows, claims.Held.of(INBOX, token, rows)


def numbers(rows):
    by_id = {row.message_id: row for row in rows}
    found = InboxMessage.objects.filter(message_id__in=by_id).order_by("position")
    return [int(message.event_data) for message in found]


@pytest.mark.django_db
def test_a_claim_takes_a_streams_first_rows_in_order_and_nobody_else_gets_the_rest():
    send_numbers(5, stream="s")

    first, _ = claim(per_stream=3)
    second, _ = claim()

    assert numbers(first) == [0, 1, 2]
    assert second == []


@pytest.mark.django_db
def test_a_row_that_is_not_due_holds_those_behind_it_in_its_stream():
    send("test.N", 0, stream="s", delay=timedelta(hours=1))
    send("test.N", 1, stream="s")
    send("test.N", 2, stream="other")

    rows, _ = claim()

    assert numbers(rows) == [2]


@pytest.mark.django_db
def test_a_released_claim_counts_nothing_and_is_claimed_again_at_once():
    send_numbers(2, stream="s")
    send_numbers(2)
    _, held = claim()
    held.release()

    rows, _ = claim()

    assert len(rows) == 4
    assert {(row.attempts, row.suspect, row.lapsed) for row in rows} == {(0, False, False)}


@pytest.mark.django_db
def test_an_empty_stream_row_is_deleted_and_comes_back_with_its_next_message(sql):
    send_numbers(1, stream="s")
    handled = []
    from queues.words.handlers import registry

    with registry.scratch():
        handles("test.N")(lambda message: handled.append(message.payload))
        drain()
        assert sql("SELECT * FROM wh_streams") == []
        send_numbers(1, stream="s")
        drain()

    assert handled == [0, 0]


@pytest.mark.django_db
def test_a_lost_token_fails_the_fence_and_an_unbroken_one_holds(leases_lapse):
    send_numbers(2, stream="s")
    send_numbers(2)
    _, old = claim()
    assert old.is_held()

    leases_lapse()
    assert old.is_held()
    _, new = claim()

    assert not old.is_held()
    assert new.is_held()
    assert old.renew(LEASE) == 0


@pytest.mark.django_db
def test_a_lapsed_lease_without_a_recorded_start_is_one_provisional_charge(leases_lapse):
    send_numbers(1)
    claim()
    leases_lapse()
    (once,), _ = claim()
    leases_lapse()
    (twice,), _ = claim()

    assert (once.attempts, once.suspect, once.was_started) == (1, True, False)
    assert (twice.attempts, twice.suspect) == (1, True)


@pytest.mark.django_db
def test_a_provisional_charge_is_given_back_with_the_next_report(handlers, leases_lapse, inbox_row):
    @handles("test.N", max_attempts=2)
    def fail(message):
        raise ValueError

    message_id = send("test.N", 1).message_id
    claim()
    leases_lapse()
    drain()

    row = inbox_row(message_id)
    assert (row["attempts"], row["releases"], row["suspect"]) == (2, 1, False)
    assert not DeadLetter.objects.exists()


@pytest.mark.django_db
def test_provisional_charges_alone_never_kill_a_message(handlers, leases_lapse):
    ran = []
    handles("test.N", max_attempts=1)(lambda message: ran.append(1))
    send("test.N", 1)
    for _ in range(4):
        claim()
        leases_lapse()
    drain()

    assert ran == [1]
    assert not DeadLetter.objects.exists()


@pytest.mark.django_db
def test_a_start_that_never_reported_is_charged_and_the_last_one_kills_as_worker_lost(
    handlers, leases_lapse, time_passes
):
    @handles("test.N", max_attempts=2)
    def fail(message):
        raise ValueError("the one that reported")

    message_id = send("test.N", 1).message_id
    drain()
    time_passes()
    (row,), held = claim()
    assert claims.start(INBOX, token=held.token, message_id=row.message_id)
    leases_lapse()
    drain()

    letter = DeadLetter.objects.get(source_id=message_id)
    assert (letter.cause, letter.failure_reason) == (Cause.WORKER_LOST, FailureReason.LEASE_EXPIRED)
    assert letter.error_text == "exceeded retry limit"
    assert letter.attempts_when_dlq == 2
    assert "the one that reported" in letter.death_rows.get().last_reported_error


@pytest.mark.django_db
def test_a_recorded_start_in_a_stream_explains_the_loss_of_its_followers(leases_lapse):
    send_numbers(2, stream="s")
    (head, _), held = claim()
    claims.start(INBOX, token=held.token, message_id=head.message_id)
    leases_lapse()

    (head, follower), _ = claim()

    assert (head.attempts, head.was_started) == (1, True)
    assert (follower.attempts, follower.suspect) == (0, False)


@pytest.mark.django_db
def test_a_start_under_a_lost_token_is_refused(leases_lapse):
    send_numbers(1)
    (row,), old = claim()
    leases_lapse()
    claim()

    assert not claims.start(INBOX, token=old.token, message_id=row.message_id)


@pytest.mark.django_db
def test_a_failing_head_keeps_its_stream_waiting_and_not_the_others(handlers, time_passes):
    order = []

    @handles("test.Step")
    def step(message):
        order.append((message.meta.stream, message.payload))
        if message.payload == 0 and message.meta.attempts == 1 and message.meta.stream == "a":
            raise ValueError

    for stream in "ab":
        for n in range(2):
            send("test.Step", n, stream=stream)
    drain()
    time_passes()
    drain()

    assert [n for stream, n in order if stream == "a"] == [0, 0, 1]
    assert order.index(("b", 1)) < order.index(("a", 1))


@pytest.mark.django_db
def test_a_dead_head_lets_its_stream_go_on(handlers):
    order = []

    @handles("test.Step", max_attempts=1)
    def step(message):
        order.append(message.payload)
        if message.payload == 0:
            raise ValueError

    send_many([NewMessage(type="test.Step", payload=n, stream="s") for n in range(3)])
    drain()

    assert order == [0, 1, 2]
    assert DeadLetter.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_row_that_commits_late_is_run_and_in_its_place(handlers):
    """Position 1 commits after position 2 has run: nothing is skipped for being lower."""
    order = []
    handles("test.N")(lambda message: order.append(message.payload))
    inserted, may_commit = threading.Event(), threading.Event()

    def slow_sender():
        try:
            with transaction.atomic():
                send("test.N", "late")
                send("test.N", "late in stream", stream="s")
                inserted.set()
                assert may_commit.wait(10)
        finally:
            connection.close()

    thread = threading.Thread(target=slow_sender)
    thread.start()
    assert inserted.wait(10)
    send("test.N", "early in stream", stream="s")
    drain()
    may_commit.set()
    thread.join(10)
    drain()

    assert order[0] == "early in stream"
    assert sorted(order[1:]) == ["late", "late in stream"]


@pytest.mark.django_db(transaction=True)
def test_two_drainers_on_one_inbox_run_each_message_once(sql):
    """Two claimers at a barrier, again and again, over free rows and streams."""
    send_numbers(300)
    for stream in range(20):
        send_numbers(10, stream=f"s{stream}")
    got = []

    def drainer():
        while True:
            rows, held = claim(limit=40, per_stream=5)
            if not rows:
                return
            with transaction.atomic():
                assert held.is_held()
                got.extend(row.message_id for row in rows)
                InboxMessage.objects.filter(message_id__in=held.messages).delete()
            held.release()

    at_once(drainer, drainer)

    assert sorted(map(str, got)) == sorted(set(map(str, got)))
    assert len(got) + InboxMessage.objects.count() == 500
    drained, _ = claim(limit=500)
    assert len(drained) == InboxMessage.objects.count()
