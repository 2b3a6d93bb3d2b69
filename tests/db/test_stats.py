"""`manage.py stats`: each row counted once, by what it waits for, and sums that are computed, not assumed."""

import json
from datetime import timedelta
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from deadletters.models import DeadLetter
from deadletters.store.recovery import recover
from queues import NewMessage, Terminal, append_event, handles, projects, publish, send, send_many, stats
from queues.models import Destination, FlowDelta, SourcePause, Stream
from queues.perspectives import subscribe
from queues.store import claims
from queues.store.counts import Present
from queues.testing import drain
from queues.words.sources import INBOX, OUTBOX, PERSPECTIVES, SOURCES, STOPPED_UNTIL, Queue

pytestmark = pytest.mark.django_db


def of(source):
    return next(found for found in stats.stats().sources if found.source == source)


def present(**numbers):
    return Present(**{"waiting": 0, "delayed": 0, "held": 0, "stopped": 0, "in_flight": 0, "processed": 0, **numbers})


def as_json(capsys):
    call_command("stats", "--json")
    return json.loads(capsys.readouterr().out)


def test_an_empty_database_has_nothing_and_adds_up(capsys):
    found = as_json(capsys)

    assert found["adds_up"] is True
    assert list(found["sources"]) == ["inbox", "outbox", "perspectives"]
    numbers = found["sources"]["inbox"]
    assert numbers.pop("adds_up") is True
    assert numbers.pop("oldest_seconds") is None
    assert set(numbers.values()) == {0}


def test_each_row_is_counted_by_what_it_waits_for(work, sql):
    table, key = work.source, work.key
    waiting, delayed, stopped, processed = (work.put(name, stream=name) for name in ("w", "d", "s", "p"))
    work.put("h1", stream="held")
    holding = work.put("h2", stream="held", dead_letter_id="00000000-0000-0000-0000-000000000007")
    sql(f"UPDATE {table} SET scheduled_for = now() + interval '1 hour' WHERE {key} = %s", delayed)
    sql(f"UPDATE {table} SET scheduled_for = %s WHERE {key} = %s", STOPPED_UNTIL, stopped)
    sql(f"UPDATE {table} SET processed_at = now() WHERE {key} = %s", processed)
    claims.admit(work.queue, 1000)
    letter, stream = sql(f"SELECT dead_letter_id, stream_id FROM {table} WHERE {key} = %s", holding)[0].values()
    Stream.objects.filter(queue=work.queue.name, stream_id=stream).update(held_by=letter)

    found = of(work.source)

    assert found.present == present(waiting=2, delayed=1, stopped=1, processed=1, held=1)
    assert found.adds_up
    sql(f"DELETE FROM {table} WHERE {key} = %s", waiting)
    assert of(work.source).present == present(waiting=1, delayed=1, stopped=1, processed=1, held=1)


def make_due(work, sql, work_id, seconds_ago):
    """Move the due time of a row; a negative age lies ahead."""
    due = timezone.now() - timedelta(seconds=seconds_ago)
    sql(f"UPDATE {work.source} SET scheduled_for = %s WHERE {work.key} = %s", due, work_id)


def test_a_row_under_a_live_lease_and_the_head_of_a_leased_stream_are_in_flight(work):
    for n in range(3):
        work.put(n, stream="s")
    work.put("alone")
    _, held = work.claim()

    assert of(work.source).present == present(in_flight=2, waiting=2)
    held.release()
    assert of(work.source).present == present(waiting=4)


def test_each_leased_stream_has_one_message_in_flight_however_many_wait_behind_it(work):
    for n in range(60):
        work.put(n, stream=f"s{n % 3}")
    work.claim()

    assert of(work.source).present == present(in_flight=3, waiting=57)


def test_what_is_due_behind_a_running_message_waits_and_tells_the_oldest(work, sql):
    head, behind = work.put("head", stream="s"), work.put("behind", stream="s")
    make_due(work, sql, head, 900)
    make_due(work, sql, behind, 300)
    work.claim()

    assert of(work.source).present == present(in_flight=1, waiting=1)
    assert 300 <= of(work.source).oldest_seconds < 360
    sql(f"DELETE FROM {work.source} WHERE {work.key} = %s", behind)
    assert of(work.source).oldest_seconds is None


def test_the_head_of_a_leased_stream_is_the_first_that_is_not_processed(work, sql):
    first = work.put("done", stream="s")
    work.put("head", stream="s")
    work.put("behind", stream="s")
    sql(f"UPDATE {work.source} SET processed_at = now() WHERE {work.key} = %s", first)
    work.claim()

    assert of(work.source).present == present(processed=1, in_flight=1, waiting=1)


def test_a_running_message_that_is_stopped_counts_as_stopped(work, sql):
    head = work.put("head", stream="s")
    work.put("behind", stream="s")
    work.claim()
    sql(f"UPDATE {work.source} SET scheduled_for = %s WHERE {work.key} = %s", STOPPED_UNTIL, head)

    assert of(work.source).present == present(stopped=1, waiting=1)


def test_a_stream_that_one_perspective_applies_waits_in_the_others(handlers, sql):
    for name in ("one", "two"):
        projects(name, "test.Happened")(lambda message: None)
    subscribe()
    append_event("a", "test.Happened", 1)
    append_event("a", "test.Happened", 2)
    queue = Queue(source=PERSPECTIVES, perspective="two")
    claims.admit(queue, 10)
    claims.claim(queue, instance_id=uuid4(), token=uuid4(), limit=9, per_stream=9, lease=timedelta(seconds=30))
    assert of(PERSPECTIVES).present == present(in_flight=1, waiting=3)

    sql("UPDATE wh_perspective_events SET scheduled_for = %s WHERE perspective_name = 'one'", STOPPED_UNTIL)
    assert of(PERSPECTIVES).present == present(in_flight=1, waiting=1, stopped=2)


def test_a_stopped_row_of_a_held_stream_is_stopped_and_a_delayed_one_held(work, sql):
    stopped, delayed = work.put("stopped", stream="s"), work.put("delayed", stream="s")
    sql(f"UPDATE {work.source} SET scheduled_for = %s WHERE {work.key} = %s", STOPPED_UNTIL, stopped)
    make_due(work, sql, delayed, -3600)
    claims.admit(work.queue, 1000)
    Stream.objects.filter(queue=work.queue.name).update(held_by=uuid4())

    assert of(work.source).present == present(stopped=1, held=1)


def test_of_a_held_stream_only_the_row_of_its_letter_can_be_in_flight(work):
    letter = uuid4()
    work.put("behind", stream="s")
    work.put("returned", stream="s", dead_letter_id=letter)
    claims.admit(work.queue, 1000)
    Stream.objects.filter(queue=work.queue.name).update(held_by=letter)

    assert of(work.source).present == present(waiting=1, held=1)
    work.claim()
    assert of(work.source).present == present(in_flight=1, held=1)


def test_a_lapsed_lease_is_no_flight(work):
    work.put(0, stream="s")
    work.put(1)
    work.claim()
    work.leases_lapse()

    assert of(work.source).present == present(waiting=2)


def test_a_row_of_a_claimed_stream_that_is_not_due_is_delayed(work, sql):
    work.put(0, stream="s")
    later = work.put(1, stream="s")
    sql(f"UPDATE {work.source} SET scheduled_for = now() + interval '1 hour' WHERE {work.key} = %s", later)
    work.claim()

    assert of(work.source).present == present(in_flight=1, delayed=1)


def test_the_oldest_is_the_longest_due_of_those_that_wait(work, sql):
    ages = {"old": 300, "young": 30, "soon": -600, "stopped": 0}
    for payload, age in ages.items():
        work_id = work.put(payload, stream=payload)
        make_due(work, sql, work_id, age)
    sql(f"UPDATE {work.source} SET scheduled_for = %s WHERE {work.key} = %s", STOPPED_UNTIL, work_id)

    assert 300 <= of(work.source).oldest_seconds < 360


def test_dead_letters_and_recoveries_add_up(handlers, capsys):
    @handles("test.Bad")
    def bad(message):
        raise Terminal("no")

    send_many([NewMessage(type="test.Bad", payload=n) for n in range(3)])
    drain()
    recover(DeadLetter.objects.first().pk, actor="olga")

    numbers = as_json(capsys)["sources"]["inbox"]
    assert {name: numbers[name] for name in ("sent", "returned", "died", "dead", "waiting", "depth")} == {
        "sent": 3, "returned": 1, "died": 3, "dead": 2, "waiting": 1, "depth": 1,
    }  # fmt: skip
    assert numbers["adds_up"] is True


def test_sums_that_do_not_add_up_are_told(capsys):
    send("test.N", 1)
    FlowDelta.objects.create(source=INBOX, sent=1)

    found = as_json(capsys)

    assert (found["adds_up"], found["sources"]["inbox"]["adds_up"]) == (False, False)
    assert found["sources"]["outbox"]["adds_up"] is True
    call_command("stats")
    assert "NO" in capsys.readouterr().out.splitlines()[-1]


def test_pauses_and_open_circuits_are_told_of_their_source():
    now = timezone.now()
    SourcePause.objects.create(source=INBOX, kind="source", paused_by="olga")
    SourcePause.objects.create(source=INBOX, kind="type", value="test.A", paused_by="olga")
    SourcePause.objects.create(source=OUTBOX, kind="source", paused_by="olga", until=now - timedelta(minutes=1))
    Destination.objects.create(name="open", state="open", opened_at=now, retry_at=now)
    Destination.objects.create(name="closed")

    assert {source: (of(source).pauses, of(source).circuits_open) for source in SOURCES} == {
        INBOX: (2, 0),
        OUTBOX: (0, 1),
        PERSPECTIVES: (0, 0),
    }


def test_all_is_read_by_one_statement():
    with CaptureQueriesContext(connection) as queries:
        stats.stats()

    assert len(queries) == 1


def test_people_get_an_aligned_table(handlers, capsys):
    handles("test.Good")(lambda message: None)
    projects("test_totals", "test.Added")(lambda message: None)
    subscribe()
    send_many([NewMessage(type="test.Good", payload=n) for n in range(1200)])
    drain()
    publish("test.Good", 1, destination="here")
    append_event("a", "test.Added", 1)

    call_command("stats")
    lines = capsys.readouterr().out.splitlines()

    assert lines[0].split() == ["inbox", "outbox", "perspectives"]
    assert len({len(line) for line in lines}) == 1
    rows = {line[:16].strip(): line.split()[-3:] for line in lines[1:]}
    assert rows["succeeded"] == ["1,200", "0", "0"]
    assert rows["waiting"] == ["0", "1", "1"]
    assert rows["adds up"] == ["yes"] * 3


def test_depths_are_those_of_the_rows(work):
    for n in range(3):
        work.put(n)

    assert stats.depths() == {source: 3 * (source == work.source) for source in SOURCES}
