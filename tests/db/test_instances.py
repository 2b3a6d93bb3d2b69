"""What processes say about themselves, and who may drain."""

import threading
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import DatabaseError, connection
from django.utils import timezone

from queues import NewMessage, handles, instances, send, send_many, tasks, testing
from queues.conf import conf
from queues.drainer import drain
from queues.drainer.drain import _ALONE
from queues.models import InboxMessage, ServiceInstance
from queues.store import presence
from queues.words.sources import INBOX
from tests.db.conftest import at_once

MINE = {"service": "s", "host": "h", "process_id": 1}


def another_process_drains(source=INBOX):
    process = presence.Process(instance_id=uuid4(), **MINE)
    presence.say(process, {"draining": source})
    return process


def mine():
    return ServiceInstance.objects.get(instance_id=instances.current().id)


@pytest.mark.django_db
def test_a_process_says_its_build_and_its_types_and_that_it_drains_nothing_afterwards(handlers):
    handles("test.A")(lambda message: None)
    send("test.A", 1)

    testing.drain()

    said = mine().metadata
    assert said["generation"] == conf().generation
    assert "test.A" in said["types"]
    assert (said["draining"], said["message"]) == (None, None)
    assert "ticked_at" not in said


@pytest.mark.django_db
def test_a_process_that_serves_a_tick_says_when_by_the_clock_of_the_database(sql):
    tasks.drain_source(INBOX)

    (row,) = sql(
        "SELECT (metadata->>'ticked_at')::timestamptz BETWEEN now() AND clock_timestamp() AS is_now"
        " FROM wh_service_instances WHERE instance_id = %s",
        instances.current().id,
    )
    assert row["is_now"]


@pytest.mark.django_db
def test_a_tick_that_finds_all_places_taken_drains_nothing_and_is_seen(settings, handlers):
    settings.QUEUES = {**settings.QUEUES, "DRAINS_PER_SOURCE": 1}
    handles("test.A")(lambda message: None)
    send("test.A", 1)
    another_process_drains()

    tasks.drain_source(INBOX)

    assert InboxMessage.objects.exists()
    assert "ticked_at" in mine().metadata


@pytest.mark.django_db
def test_a_running_message_is_shown_with_the_time_of_its_start(sql):
    running = presence.Running(message_id=uuid4(), message_type="test.Slow", attempt=2, seconds=90)
    instances.keep_alive(running)

    shown = mine().metadata["message"]
    assert {**shown, "started_at": None} == {
        "id": str(running.message_id),
        "type": "test.Slow",
        "attempt": 2,
        "started_at": None,
    }
    (row,) = sql(
        "SELECT clock_timestamp() - (metadata->'message'->>'started_at')::timestamptz AS age FROM wh_service_instances"
    )
    assert timedelta(seconds=90) <= row["age"] < timedelta(seconds=120)
    instances.keep_alive(None)
    assert mine().metadata["message"] is None


@pytest.mark.django_db(transaction=True)
def test_a_handler_that_runs_long_is_shown_while_it_runs_and_counts_as_alive(settings, handlers, monkeypatch):
    settings.QUEUES = {**settings.QUEUES, "RENEWAL_SECONDS": 0.05}
    monkeypatch.setattr("queues.drainer.watch._LONG_SECONDS", 0)
    shown = threading.Event()
    said = []

    def keep_alive(running):
        if running is not None:
            said.append(running)
            shown.set()

    monkeypatch.setattr(instances, "keep_alive", keep_alive)
    handles("test.Slow")(lambda message: shown.wait(20))
    sent = send("test.Slow", 1)

    drain(INBOX, seconds=None)

    assert (said[0].message_id, said[0].message_type, said[0].attempt) == (sent.message_id, "test.Slow", 1)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("places", [1, 3])
def test_of_drains_that_start_at_once_exactly_as_many_get_a_place_as_there_are(monkeypatch, places):
    mine = threading.local()

    def each_thread_is_a_process():
        mine.instance = getattr(mine, "instance", None) or instances.Instance(id=uuid4(), process_id=1)
        return mine.instance

    monkeypatch.setattr(instances, "current", each_thread_is_a_process)

    taken = at_once(*[lambda: instances.take_place(INBOX, places)] * 6)

    assert sorted(taken) == [False] * (6 - places) + [True] * places
    assert ServiceInstance.objects.filter(metadata__draining=INBOX).count() == places


@pytest.mark.django_db(transaction=True)
def test_a_message_committed_just_as_the_last_drain_found_nothing_is_found_by_it(handlers, monkeypatch):
    """Its own wake-up found the place taken and started no drain."""
    handled, ended = [], []
    handles("test.A")(lambda message: handled.append(message.payload))
    give_up = instances.give_up_place

    def late_commit_first():
        if not ended:
            send("test.A", "late")
            ended.append(another_gets_a_place())
        give_up()

    def another_gets_a_place():
        other = instances.Instance(id=uuid4(), process_id=1)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(instances, "current", lambda: other)
            return instances.take_place(INBOX, 1)

    monkeypatch.setattr(instances, "give_up_place", late_commit_first)

    drain(INBOX, seconds=None, at_most=1)

    assert ended == [False]
    assert handled == ["late"]
    assert mine().metadata["draining"] is None


@pytest.mark.django_db(transaction=True)
def test_a_late_look_that_finds_messages_but_no_place_gives_them_back_and_asks_for_another_drain(handlers, monkeypatch):
    handles("test.A")(lambda message: None)
    give_up = instances.give_up_place

    def somebody_takes_it():
        give_up()
        send_many([NewMessage(type="test.A", payload=n, stream=s) for n, s in enumerate([None, "s"])])
        another_process_drains()

    monkeypatch.setattr(instances, "give_up_place", somebody_takes_it)

    report = drain(INBOX, seconds=None, at_most=1)

    assert (report.messages, report.more) == (0, True)
    assert InboxMessage.objects.filter(lease_token=None, attempts=0).count() == 2
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM wh_streams WHERE lease_token IS NOT NULL")
        assert cursor.fetchone()[0] == 0


@pytest.mark.django_db(transaction=True)
def test_drains_in_threads_of_one_process_take_turns(handlers):
    """A process notes one run at a time: two would write over each other's notes."""
    alone = []

    def handler(message):
        alone.append(_ALONE.locked())

    handles("test.A")(handler)
    send_many([NewMessage(type="test.A", payload=n) for n in range(40)])

    reports = at_once(*[lambda: drain(INBOX, seconds=None)] * 3)

    assert sum(report.messages for report in reports) == 40
    assert alone == [True] * 40


@pytest.mark.django_db
def test_a_process_silent_for_long_holds_no_place_and_handles_nothing():
    other = another_process_drains()
    presence.say(other, {"types": ["test.Gone"]})
    assert instances.is_handled_somewhere("test.Gone")
    ServiceInstance.objects.update(last_heartbeat_at=timezone.now() - timedelta(minutes=2))

    assert instances.take_place(INBOX, 1)
    assert not instances.is_handled_somewhere("test.Gone")


@pytest.mark.django_db
def test_a_buried_process_holds_no_place_and_its_types_count_until_its_silence_is_long():
    """It may be the only one of its service, and be started again: its messages must not die meanwhile."""
    other = another_process_drains()
    presence.say(other, {"types": ["test.Gone"]})

    presence.bury(other.instance_id)

    assert instances.take_place(INBOX, 1)
    assert instances.is_handled_somewhere("test.Gone")


@pytest.mark.django_db
def test_a_heartbeat_does_not_wait_for_the_transaction_in_which_somebody_drains():
    """A host's test drains inside its transaction, which then waits for the end of the drain's heartbeat."""
    instances.tick()  # holds the row until the test ends
    caught = []

    def beat():
        try:
            instances.keep_alive(None)
        except DatabaseError as exc:
            caught.append(exc.__cause__.sqlstate)
        finally:
            connection.close()

    thread = threading.Thread(target=beat)
    thread.start()
    thread.join(60)

    assert not thread.is_alive()
    # the process's row is not committed, so that the insert waits for its fate
    assert caught == ["55P03"]


@pytest.mark.django_db
def test_the_builds_of_live_processes_are_told_with_all_that_they_handle(sql):
    def reports(silent_seconds=0, **said):
        process = presence.Process(instance_id=uuid4(), **MINE)
        presence.say(process, said)
        last = timezone.now() - timedelta(seconds=silent_seconds)
        ServiceInstance.objects.filter(pk=process.instance_id).update(last_heartbeat_at=last)

    reports(generation="b-2", types=["t.B", "t.A"], perspectives={"totals": ["t.E"]})
    reports(generation="b-2", types=["t.C"])
    reports(generation="b-1", types=[])
    reports(generation="b-0", types=["t.Z"], silent_seconds=3600)
    reports()
    reports(generation={"odd": 1}, types="odd", perspectives=[1])
    sql("UPDATE wh_service_instances SET metadata = '[]' WHERE metadata @> '{\"types\": \"odd\"}'")

    told = {build.name: (build.types, build.perspectives) for build in instances.live_builds()}
    assert told == {"b-2": (["t.A", "t.B", "t.C"], ["totals"]), "b-1": ([], []), None: ([], [])}
