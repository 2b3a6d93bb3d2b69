"""Streams that wait behind a dead message: what runs, what does not, and what ends the wait."""

import json
from datetime import timedelta
from uuid import uuid4

import pytest

from deadletters.models import DeadLetter, Disposition, RecoveryStatus
from deadletters.store.recovery import dispose, recover
from queues import Terminal, handles, publish, send
from queues.models import InboxMessage, OutboxMessage, Stream
from queues.store import claims
from queues.store.claims import Held
from queues.testing import drain
from queues.words.sources import INBOX, OUTBOX, Queue
from tests.db.conftest import move_by_hand

pytestmark = pytest.mark.django_db
LEASE = timedelta(seconds=30)


@pytest.fixture
def steps(handlers):
    """Register a handler that holds its streams, notes what it runs, and dies of what it is told to."""
    ran, deadly = [], {1}

    @handles("test.Step", after_death="hold")
    def step(message):
        if message.payload in deadly:
            raise Terminal("broken")
        ran.append(message.payload)

    return ran, deadly


def send_steps(*numbers, stream="s"):
    for number in numbers:
        send("test.Step", number, stream=stream)


def test_the_followers_of_a_dead_message_wait_and_other_streams_run(steps):
    ran, _ = steps
    send_steps(0, 1, 2, 3)
    send_steps(8, 9, stream="other")
    drain()

    assert ran == [0, 8, 9]
    letter = DeadLetter.objects.get()
    assert Stream.objects.get().held_by == letter.dead_letter_id
    assert set(InboxMessage.objects.values_list("attempts", "lease_token")) == {(0, None)}
    send_steps(4)
    assert drain().messages == 0


def test_a_stream_with_nothing_behind_its_dead_message_holds_what_comes_later(steps):
    ran, _ = steps
    send_steps(1)
    drain()
    send_steps(2)
    drain()

    assert ran == []
    assert Stream.objects.get().held_by == DeadLetter.objects.get().dead_letter_id


def test_what_arrives_in_a_held_stream_does_not_make_it_due(steps, sql):
    send_steps(1)
    drain()
    send_steps(2)
    claims.admit(Queue.named(INBOX), 10)

    assert sql("SELECT due_at = never() AS waits FROM wh_streams") == [{"waits": True}]


def test_a_stream_that_is_held_stays_with_the_first_letter_that_holds_it(steps, sql):
    send_steps(1, 2)
    drain()
    first = DeadLetter.objects.get().dead_letter_id
    follower = InboxMessage.objects.get().message_id
    move = {"source_id": str(follower), "failure_reason": 99, "cause": "operator", "holds": True}
    sql("SELECT * FROM move_batch_to_dead_letters('wh_inbox', %s, NULL, 'b')", json.dumps([move]))

    assert Stream.objects.get().held_by == first


def test_a_message_that_is_back_in_its_held_stream_stays_due_when_one_behind_it_dies(steps, sql):
    ran, deadly = steps
    send_steps(1, 2, 3)
    drain()
    deadly.clear()
    recover(DeadLetter.objects.get().dead_letter_id, "ann")
    claims.admit(Queue.named(INBOX), 10)
    follower = InboxMessage.objects.filter(dead_letter_id=None).earliest("position").message_id
    move = {"source_id": str(follower), "failure_reason": 99, "cause": "operator", "holds": True}
    sql("SELECT * FROM move_batch_to_dead_letters('wh_inbox', %s, NULL, 'b')", json.dumps([move]))
    drain()

    assert ran == [1, 3]


def test_a_claim_of_a_stream_is_lost_when_somebody_else_holds_that_stream(steps, sql):
    """Else a message claimed behind the dead one would still run."""
    send_steps(2, 3)
    claims.admit(Queue.named(INBOX), 10)
    rows = claims.claim(
        Queue.named(INBOX), instance_id=uuid4(), token=(token := uuid4()), limit=9, per_stream=9, lease=LEASE
    )
    move = {"source_id": str(rows[0].message_id), "failure_reason": 99, "cause": "operator", "holds": True}
    sql("SELECT * FROM move_batch_to_dead_letters('wh_inbox', %s, NULL, 'b', NULL, true)", json.dumps([move]))

    assert not Held.of(Queue.named(INBOX), token, rows[1:]).is_held()
    assert drain().messages == 0


def test_a_recovered_message_runs_alone_and_its_success_lets_the_stream_go(steps):
    ran, deadly = steps
    send_steps(1, 2, 3)
    drain()
    recover(DeadLetter.objects.get().dead_letter_id, "ann")
    drain()
    assert ran == []
    letter = DeadLetter.objects.get()
    assert (letter.deaths, Stream.objects.get().held_by) == (2, letter.dead_letter_id)

    deadly.clear()
    recover(letter.dead_letter_id, "ann")
    drain()

    assert ran == [1, 2, 3]
    assert DeadLetter.objects.get().recovery_status == RecoveryStatus.RECOVERED
    assert not Stream.objects.exists()


def test_a_stream_runs_on_when_its_dead_message_is_given_up(steps):
    ran, _ = steps
    send_steps(1, 2, 3)
    drain()

    dispose(DeadLetter.objects.get().dead_letter_id, Disposition.MARK_PERMANENTLY_FAILED)
    drain()

    assert ran == [2, 3]


def test_a_stream_runs_on_when_its_message_was_given_up_in_flight_and_dies_again(steps):
    ran, _ = steps
    send_steps(1, 2)
    drain()
    letter = DeadLetter.objects.get()
    recover(letter.dead_letter_id, "ann")
    dispose(letter.dead_letter_id, Disposition.MARK_PERMANENTLY_FAILED)
    drain()
    drain()

    letter.refresh_from_db()
    assert (ran, letter.recovery_status) == ([2], RecoveryStatus.PERMANENTLY_FAILED)


def test_a_message_that_dies_again_does_not_hold_a_stream_that_was_let_go(steps, sql):
    ran, _ = steps
    send_steps(1, 2)
    drain()
    sql("SELECT let_stream_go(queue, stream_id) FROM wh_streams")
    drain()
    recover(DeadLetter.objects.get().dead_letter_id, "ann")
    drain()
    send_steps(3)
    drain()

    assert ran == [2, 3]
    assert DeadLetter.objects.get().deaths == 2


def test_a_stream_runs_on_when_somebody_lets_it_go(steps, sql):
    ran, _ = steps
    send_steps(1, 2)
    drain()

    assert sql("SELECT let_stream_go(queue, stream_id) FROM wh_streams") == [{"let_stream_go": True}]
    drain()

    assert ran == [2]
    assert sql("SELECT let_stream_go('wh_inbox', gen_random_uuid())") == [{"let_stream_go": False}]


def test_a_message_moved_by_sql_does_not_hold_its_stream_unless_that_is_asked(steps, sql):
    ran, _ = steps
    send_steps(2, 3)
    move_by_hand(InboxMessage.objects.earliest("position").message_id)
    drain()

    assert ran == [3]


def test_a_stream_of_the_outbox_waits_behind_a_dead_message_of_a_type_that_holds(settings, sql):
    settings.QUEUES = {**settings.QUEUES, "ROUTES": {"here": "inbox"}, "HOLD_OUTBOX_TYPES": ["bank.*"]}
    for stream, name in (("a", "bank.Paid"), ("b", "shop.Seen")):
        publish(name, 1, destination="nowhere", stream=stream, max_attempts=1)
        publish(name, 2, destination="here", stream=stream)
    drain(OUTBOX)

    assert list(InboxMessage.objects.values_list("message_type", flat=True)) == ["shop.Seen"]
    assert list(OutboxMessage.objects.values_list("message_type", flat=True)) == ["bank.Paid"]
