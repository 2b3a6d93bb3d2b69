"""Chosen ids: remembered while their message is about and for a while beyond, then forgotten."""

import uuid

import pytest

from deadletters.models import DeadLetter
from queues import Terminal, deduplication, handles, send
from queues.models import SeenMessage
from queues.store import seen
from queues.tasks import keep_house
from queues.testing import drain

pytestmark = pytest.mark.django_db


@pytest.fixture
def sent(handlers, sql):
    """Send messages of chosen ids that were done, are dead, wait, or are of today."""
    handles("test.Done")(lambda message: None)

    @handles("test.Dies")
    def die(message):
        raise Terminal("no")

    ids = {name: uuid.uuid4() for name in ("done", "dead", "waiting", "fresh")}
    send("test.Done", 1, message_id=ids["done"])
    send("test.Dies", 1, message_id=ids["dead"])
    drain()
    send("test.Done", 1, message_id=ids["waiting"])
    sql("UPDATE wh_message_deduplication SET first_seen_at = now() - interval '31 days'")
    send("test.Done", 1, message_id=ids["fresh"])
    return ids


def remembered():
    return set(SeenMessage.objects.values_list("message_id", flat=True))


def test_an_old_id_is_forgotten_once_its_message_is_gone(sent):
    keep_house()

    assert remembered() == {sent["dead"], sent["waiting"], sent["fresh"]}
    assert send("test.Done", 1, message_id=sent["done"]).is_new


def test_an_old_id_of_a_dead_letter_that_was_received_from_a_broker_stays(sent):
    DeadLetter.objects.update(source_table="broker")

    deduplication.forget_old()

    assert sent["dead"] in remembered()


def test_ids_are_kept_for_ever_where_that_is_set(sent, settings):
    settings.QUEUES = {**settings.QUEUES, "DEDUPLICATION_DAYS": None}

    assert deduplication.forget_old() == 0
    assert remembered() == set(sent.values())


def test_ids_that_stay_do_not_hide_old_ones_behind_them(sent, monkeypatch):
    monkeypatch.setattr(seen, "PAGE", 1)

    assert deduplication.forget_old() == 1
    assert sent["done"] not in remembered()
