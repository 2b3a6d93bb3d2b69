"""Operators and drainers at the same messages at once: whatever they do, each message ends once."""

import random
import threading
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection, transaction

from deadletters import triage
from deadletters.models import DeadLetter
from deadletters.words.errors import NoSuchMessage
from queues import handles, send, wakeups
from queues.models import InboxMessage, Stream
from queues.store import claims, live
from queues.testing import drain
from queues.words.sources import Queue
from tests.db.conftest import at_once, until_somebody_waits_for_a_lock

pytestmark = pytest.mark.django_db(transaction=True)

MESSAGES, STREAMS = 60, 4


@pytest.fixture(autouse=True)
def _no_broker(monkeypatch):
    monkeypatch.setattr(wakeups, "send", lambda wakeup: None)


@pytest.fixture
def effects(sql):
    sql("CREATE TABLE demo_effects_of_races (n int)")
    yield lambda: [row["n"] for row in sql("SELECT n FROM demo_effects_of_races ORDER BY n")]
    sql("DROP TABLE demo_effects_of_races")


def act(user, ids, seed):
    """Stop, run and dead-letter messages in a random order."""
    chosen = random.Random(seed)
    for _ in range(MESSAGES):
        named = {"source": "wh_inbox", "message_id": chosen.choice(ids), "user": user}
        try:
            match chosen.randrange(5):
                case 0:
                    triage.dead_letter(**named, reason="by chance")
                case 1 | 2:
                    triage.stop(**named)
                case _:
                    triage.run_now(**named)
        except NoSuchMessage:
            pass


def drain_for_a_while():
    for _ in range(6):
        drain()


def test_a_start_that_races_with_a_stop_in_its_stream_is_not_charged(olga, sql, inbox_row):
    """The stop revokes the claim before the start is there to be seen, so the start must see that."""
    token, queue = uuid4(), Queue(source="wh_inbox")
    head = send("t.Race", 1, stream="s").message_id
    follower = send("t.Race", 2, stream="s").message_id
    claims.admit(queue, 10)
    claims.claim(
        queue,
        instance_id=uuid4(),
        token=token,
        limit=10,
        per_stream=10,
        lease=timedelta(minutes=1),
    )
    stopping = threading.Event()

    def stop():
        with transaction.atomic():
            stopped = live.stop("wh_inbox", follower)
            stopping.set()
            until_somebody_waits_for_a_lock()
        return stopped

    def start():
        assert stopping.wait(20)
        return claims.start(queue, token=token, message_id=head)

    assert at_once(stop, start) == [live.Stopped.REVOKED, False]
    assert (inbox_row(head)["attempts"], inbox_row(head)["started_at"]) == (0, None)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_each_message_has_its_effect_once_or_is_a_letter_and_nobody_waits_for_nobody(olga, handlers, effects, seed):
    @handles("t.Race", max_attempts=1 + seed % 2)
    def write(message):
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO demo_effects_of_races VALUES (%s)", [message.payload])

    streams = [None, *(f"s{n}" for n in range(STREAMS))]
    ids = [send("t.Race", n, stream=streams[n % len(streams)]).message_id for n in range(MESSAGES)]
    at_once(
        drain_for_a_while,
        drain_for_a_while,
        lambda: act(olga, ids, seed),
        lambda: act(olga, ids, seed + 100),
    )

    for message_id in InboxMessage.objects.values_list("message_id", flat=True):
        triage.run_now(source="wh_inbox", message_id=message_id, user=olga)
    drain()
    drain()
    dead = set(DeadLetter.objects.values_list("source_id", flat=True))
    assert effects() == [n for n, message_id in enumerate(ids) if message_id not in dead]
    assert not InboxMessage.objects.exists()
    assert not Stream.objects.exclude(lease_token=None).exists()
    others = DeadLetter.objects.exclude(cause="operator")
    assert list(others.values_list("cause", "error_text")) == []
