"""A drainer killed at each point between claim and commit: only what was running is charged, each effect is once."""

import signal

import pytest
from django.db import connection

from deadletters.models import DeadLetter
from queues import NewMessage, append_event, publish, send, send_many
from queues.models import DeliveryLogEntry, InboxMessage, ServiceInstance
from tests.worker.conftest import subscribe_the_shop
from tests.worker.shop.faults import VICTIM

STREAM = ["1", VICTIM, "3"]
PAYLOADS = ["0", *STREAM, "4", "5"]
STREAMS = [None, "s", "s", "s", None, "t"]
INBOX, OUTBOX, PERSPECTIVES = "inbox", "outbox", "perspectives"
TABLES = {INBOX: "wh_inbox", OUTBOX: "wh_outbox", PERSPECTIVES: "wh_perspective_events"}

NOBODY = None
POINTS = {
    "after_claim": NOBODY,
    "after_note": NOBODY,
    "before_handler": VICTIM,
    "in_handler": VICTIM,
    "after_effect": VICTIM,
    "after_handler": "0",
    "after_run": NOBODY,
    "before_record": NOBODY,
    "after_fence": NOBODY,
    "after_record": NOBODY,
    "before_commit": NOBODY,
    "after_commit": NOBODY,
    "before_release": NOBODY,
    "after_release": NOBODY,
    "before_close": NOBODY,
}
"""Each point, and the message that is charged for a death there."""

SWEEPS = ["before_charge", "after_charge", "before_sweep_release"]
"""Points at which the next drainer dies while it settles the first one's death."""

OF_PUBLISHING = {"in_handler": "in_publish", "after_effect": "after_publish"}


def store(source):
    """Store the messages; return the ids of their rows by payload."""
    if source == INBOX:
        new = [NewMessage(type="test.Good", payload=p, stream=s) for p, s in zip(PAYLOADS, STREAMS, strict=True)]
        receipts = send_many(new)
    elif source == OUTBOX:
        both = zip(PAYLOADS, STREAMS, strict=True)
        receipts = [publish("test.Good", p, destination="here", stream=s) for p, s in both]
    else:
        subscribe_the_shop()
        for payload, stream in zip(PAYLOADS, STREAMS, strict=True):
            append_event(stream or "a", "test.Added", payload)
        with connection.cursor() as cursor:
            cursor.execute("SELECT event_work_id FROM wh_perspective_events ORDER BY position")
            return dict(zip(PAYLOADS, [row[0] for row in cursor.fetchall()], strict=True))
    return {payload: receipt.message_id for payload, receipt in zip(PAYLOADS, receipts, strict=True)}


def effects(shop, source):
    """Return what the source's messages left, in the order in which they left it."""
    if source == OUTBOX:
        return [row.event_data for row in InboxMessage.objects.order_by("position")]
    with connection.cursor() as cursor:
        cursor.execute("SELECT payload FROM test_effects ORDER BY ctid")
        return [row[0] for row in cursor.fetchall()]


def charged(ids):
    """Return who was charged with what, and check that whoever else was logged had merely been claimed."""
    payload_of = {message_id: payload for payload, message_id in ids.items()}
    released = DeliveryLogEntry.objects.filter(outcome="released")
    assert set(released.values_list("attempt", flat=True)) <= {0}
    entries = DeliveryLogEntry.objects.exclude(outcome="released").order_by("id")
    return [(payload_of[entry.message_id], entry.outcome, entry.attempt) for entry in entries]


def assert_all_ended_well(shop, source):
    left = [payload.strip('"') for payload in effects(shop, source)]
    assert sorted(left) == sorted(PAYLOADS)
    assert [payload for payload in left if payload in STREAM] == STREAM
    assert nothing_is_left(source)
    assert not DeadLetter.objects.exists()
    assert list((shop.folder / "run").iterdir()) == []
    assert not ServiceInstance.objects.exclude(metadata__draining=None).exists()


def nothing_is_left(source):
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT (SELECT count(*) FROM {TABLES[source]}) + (SELECT count(*) FROM wh_streams WHERE queue LIKE %s)",
            [f"{TABLES[source]}%"],
        )
        return cursor.fetchone()[0] == 0


@pytest.mark.parametrize("source", TABLES)
@pytest.mark.parametrize("point", POINTS)
def test_a_drainer_killed_anywhere_loses_nothing_doubles_nothing_and_charges_only_what_ran(shop, source, point):
    ids = store(source)
    kill_at = OF_PUBLISHING.get(point, point) if source == OUTBOX else point

    codes = shop.drain_to_the_end(source, TEST_KILL_AT=kill_at)

    assert codes == [-signal.SIGKILL, 0]
    assert_all_ended_well(shop, source)
    guilty = POINTS[point]
    assert charged(ids) == ([] if guilty is NOBODY else [(guilty, "worker_lost", 1)])


@pytest.mark.parametrize("source", TABLES)
@pytest.mark.parametrize("point", SWEEPS)
def test_a_drainer_killed_while_it_settles_another_ones_death_charges_no_second_time(shop, source, point):
    ids = store(source)

    codes = shop.drain_to_the_end(source, TEST_KILL_AT=f"before_handler,{point}")

    assert codes == [-signal.SIGKILL, -signal.SIGKILL, 0]
    assert_all_ended_well(shop, source)
    assert charged(ids) == [(VICTIM, "worker_lost", 1)]


@pytest.mark.parametrize("point", ["after_start", "before_record", "after_move", "after_record", "before_commit"])
def test_a_last_run_that_is_killed_before_its_commit_is_the_death_of_its_message_alone(shop, point):
    ids = {p: send("test.Good", p, stream="s", max_attempts=1 if p == VICTIM else None).message_id for p in STREAM}
    if point == "after_move":
        send("test.Terminal", "terminal")

    codes = shop.drain_to_the_end(TEST_KILL_AT=point)

    assert codes == [-signal.SIGKILL, 0]
    assert nothing_is_left(INBOX)
    if point == "after_start":
        letter = DeadLetter.objects.get()
        assert (letter.source_id, letter.attempts_when_dlq) == (ids[VICTIM], 1)
        assert shop.effects() == ["1", "3"]
