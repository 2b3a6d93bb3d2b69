"""Drainers of the outbox and of perspectives that die: the same accounts as the inbox's."""

import signal

import pytest

from deadletters.models import DeadLetter
from queues import append_event, publish
from queues.models import DeliveryLogEntry, InboxMessage, OutboxMessage, PerspectiveCursor, PerspectiveEvent
from queues.words.outcomes import Cause
from tests.worker.conftest import eventually, is_publishing, publishing_hangs, subscribe_the_shop

OUTBOX = "wh_outbox"


def kill_while_publishing(shop, message_id):
    with publishing_hangs(message_id):
        process = shop.drainer("outbox")
        eventually(is_publishing, "the message is being published")
        process.send_signal(signal.SIGKILL)
        assert process.wait(60) == -signal.SIGKILL


def test_a_drainer_killed_while_publishing_loses_nothing_and_charges_only_that_message(shop):
    before = [publish("test.Good", f"before-{n}", destination="here").message_id for n in range(5)]
    hung = publish("test.Good", "hung", destination="here", stream="s").message_id
    after = [publish("test.Good", f"after-{n}", destination="here", stream="s").message_id for n in range(5)]

    kill_while_publishing(shop, hung)
    assert shop.drain_to_the_end("outbox") == [0]

    assert not OutboxMessage.objects.exists()
    arrived = list(InboxMessage.objects.order_by("position").values_list("message_id", flat=True))
    assert sorted(arrived) == sorted([*before, hung, *after])
    assert [message_id for message_id in arrived if message_id not in before] == [hung, *after]
    charged = DeliveryLogEntry.objects.filter(source=OUTBOX).exclude(outcome="released")
    assert list(charged.values_list("message_id", "outcome", "attempt")) == [(hung, "worker_lost", 1)]
    assert not DeadLetter.objects.exists()


def test_a_message_whose_last_run_took_its_drainer_dies_as_worker_lost_and_is_not_published(shop):
    hung = publish("test.Good", "hung", destination="here", max_attempts=1).message_id

    kill_while_publishing(shop, hung)
    shop.drain_to_the_end("outbox")

    letter = DeadLetter.objects.get()
    assert (letter.source_id, letter.cause, letter.destination) == (hung, Cause.WORKER_LOST, "here")
    assert letter.attempts_when_dlq == 1
    assert not InboxMessage.objects.exists()


@pytest.mark.parametrize("drainers", [2, 3])
def test_drainers_of_one_outbox_publish_each_message_once(shop, drainers):
    sent = {
        publish("test.Good", n, destination="here", stream=f"s{n % 7}" if n % 2 else None).message_id
        for n in range(300)
    }

    processes = [shop.drainer("outbox") for _ in range(drainers)]

    assert [process.wait(60) for process in processes] == [0] * drainers
    shop.drain_to_the_end("outbox")
    assert set(InboxMessage.objects.values_list("message_id", flat=True)) == sent
    for stream in range(1, 7, 2):
        positions = InboxMessage.objects.filter(metadata__stream=f"s{stream}").order_by("position")
        numbers = [int(message.event_data) for message in positions]
        assert len(numbers) > 10
        assert numbers == sorted(numbers)


def test_an_event_that_kills_its_drainer_dies_by_its_budget_and_those_behind_it_are_applied(shop):
    subscribe_the_shop()
    append_event("a", "test.Added", "first")
    append_event("a", "test.KillAdded", "killer")
    append_event("a", "test.Added", "last")

    codes = shop.drain_to_the_end("perspectives")

    assert codes == [-signal.SIGKILL] * 2 + [0]
    assert len(shop.starts("test.KillAdded")) == 2
    letter = DeadLetter.objects.get()
    assert (letter.perspective_name, letter.cause, letter.attempts_when_dlq) == ("test_totals", Cause.WORKER_LOST, 2)
    assert shop.effects() == ["first", "last"]
    assert PerspectiveCursor.objects.get().version == 3
    assert not PerspectiveEvent.objects.exists()


def test_one_command_drains_all_sources_until_nothing_is_left(shop):
    subscribe_the_shop()
    publish("test.Good", "published", destination="here")
    append_event("a", "test.Added", "appended")

    assert shop.drain_to_the_end("all") == [0]

    assert shop.effects() == ["appended", "published"]
    assert not InboxMessage.objects.exists()
