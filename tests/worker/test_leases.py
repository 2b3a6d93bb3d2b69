"""Leases across processes: renewed while a handler runs, lost by who slept, judged by the database's clock alone."""

import json
import signal
from datetime import timedelta

import pytest
from django.db import connection

from deadletters.models import DeadLetter
from queues import NewMessage, append_event, publish, send, send_many
from queues.models import InboxMessage, OutboxMessage, PerspectiveEvent
from tests.worker.conftest import eventually, is_publishing, publishing_hangs, subscribe_the_shop

SHORT_LEASE = json.dumps({"LEASE_SECONDS": 1})
AHEAD = "600"


def leases_lapse():
    with connection.cursor() as cursor:
        for table in ("wh_inbox", "wh_outbox", "wh_perspective_events", "wh_streams"):
            cursor.execute(f"UPDATE {table} SET lease_expiry = now() - interval '1 s' WHERE lease_token IS NOT NULL")


def is_blocked():
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return cursor.fetchone()[0] > 0


def test_a_handler_that_runs_longer_than_its_lease_keeps_it(shop):
    send("test.Gate", "gate")
    first = shop.drainer(TEST_QUEUES=SHORT_LEASE)
    eventually(lambda: shop.starts("test.Gate"), "the start")
    lease_at_first = InboxMessage.objects.get().lease_expiry
    eventually(lambda: database_time() > lease_at_first, "the first lease would be over")

    assert shop.drainer(TEST_QUEUES=SHORT_LEASE).wait() == 0

    shop.gate.touch()
    assert first.wait() == 0
    assert shop.starts("test.Gate") == ["gate"]
    assert shop.effects() == ["gate"]


def database_time():
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        return cursor.fetchone()[0]


@pytest.mark.parametrize("stream", [None, "s"])
def test_a_drainer_whose_clock_is_ahead_takes_nothing_that_is_leased_or_not_due(shop, stream):
    send("test.Gate", "gate", stream=stream)
    first = shop.drainer()
    eventually(lambda: shop.starts("test.Gate"), "the start")
    send("test.Good", "later", delay=timedelta(minutes=5))

    assert shop.drainer(TEST_CLOCK_AHEAD_SECONDS=AHEAD).wait() == 0

    assert shop.starts("test.Gate") == ["gate"]
    assert shop.effects() == []
    shop.gate.touch()
    assert first.wait() == 0
    assert shop.effects() == ["gate"]


def test_a_drainer_whose_clock_is_ahead_drains_as_any_other(shop):
    payloads = [f"{n:02}" for n in range(20)]
    send_many([NewMessage(type="test.Good", payload=n) for n in payloads])
    failing = send("test.FailKill", "fails").message_id

    shop.drainer(TEST_CLOCK_AHEAD_SECONDS=AHEAD).wait()

    assert shop.effects() == payloads
    row = InboxMessage.objects.filter(message_id=failing).first()
    assert row is None or row.scheduled_for < database_time() + timedelta(minutes=1)


def test_a_sleeper_of_a_stream_finds_its_claim_gone_and_changes_nothing(shop):
    send_many([NewMessage(type="test.Gate", payload="head", stream="s")])
    send_many([NewMessage(type="test.Good", payload="behind", stream="s")])
    first = shop.drainer()
    eventually(lambda: shop.starts("test.Gate"), "the first start")
    first.send_signal(signal.SIGSTOP)
    leases_lapse()
    shop.gate.touch()

    assert shop.drainer().wait() == 0
    assert shop.effects() == ["behind", "head"]
    first.send_signal(signal.SIGCONT)

    assert first.wait() == 0
    assert shop.effects() == ["behind", "head"]
    assert not InboxMessage.objects.exists()
    assert not DeadLetter.objects.exists()


def test_a_sleeper_of_the_outbox_finds_its_claim_gone_and_publishes_nothing(shop):
    sent = [publish("test.Good", "first", destination="here", stream="s").message_id]
    sent.append(publish("test.Good", "second", destination="here", stream="s").message_id)
    with publishing_hangs(sent[0]):
        first = shop.drainer("outbox")
        eventually(is_publishing, "the message is being published")
        first.send_signal(signal.SIGSTOP)
        leases_lapse()
    second = shop.drainer("outbox")
    eventually(lambda: second.poll() is not None or is_blocked(), "the second is done, or waits for the first")

    first.send_signal(signal.SIGCONT)

    assert (first.wait(), second.wait()) == (0, 0)
    shop.drain_to_the_end("outbox")
    assert list(InboxMessage.objects.order_by("position").values_list("message_id", flat=True)) == sent
    assert not OutboxMessage.objects.exists()
    assert not DeadLetter.objects.exists()


def test_a_sleeper_of_a_perspective_finds_its_claim_gone_and_applies_nothing(shop):
    subscribe_the_shop()
    append_event("a", "test.GateAdded", "head")
    append_event("a", "test.Added", "behind")
    first = shop.drainer("perspectives")
    eventually(lambda: shop.starts("test.GateAdded"), "the first start")
    first.send_signal(signal.SIGSTOP)
    leases_lapse()
    shop.gate.touch()
    second = shop.drainer("perspectives")
    eventually(lambda: second.poll() is not None or is_blocked(), "the second is done, or waits for the first")

    first.send_signal(signal.SIGCONT)

    assert (first.wait(), second.wait()) == (0, 0)
    shop.drain_to_the_end("perspectives")
    assert shop.effects() == ["behind", "head"]
    assert not PerspectiveEvent.objects.exists()
    assert not DeadLetter.objects.exists()
