"""Lanes: a message type or a destination has its share of each claim, can be paused, and waits for its circuit."""

import uuid
from datetime import UTC, datetime, timedelta

import pytest
from django.db import IntegrityError

from deadletters.models import DeadLetter
from queues import NewMessage, append_event, handles, projects, publish, send, send_many
from queues.drainer.lanes import Lanes
from queues.models import CircuitState, Destination, InboxMessage, OutboxMessage, PauseKind, SourcePause, Stream
from queues.perspectives import subscribe
from queues.sql import WORK_TABLES as WORK
from queues.store import claims
from queues.testing import drain
from queues.words.sources import INBOX, OUTBOX, PERSPECTIVES, SOURCES, Queue

pytestmark = pytest.mark.django_db
LEASE = timedelta(seconds=30)
LEASED = (
    "INSERT INTO wh_inbox (message_id, message_type, event_data, lease_expiry)"
    " VALUES (gen_random_uuid(), 'test.A', '1', %s)"
)


def claim(source=INBOX, *, limit=100, per_stream=50, generation="one", lanes=None):
    return claims.claim(
        Queue.named(source),
        instance_id=uuid.uuid4(),
        token=uuid.uuid4(),
        limit=limit,
        per_stream=per_stream,
        lease=LEASE,
        generation=generation,
        lanes=lanes,
    )


def types(rows):
    return sorted(row.message_type for row in rows)


def pause(kind, value="", *, source=INBOX, until=None):
    return SourcePause.objects.create(source=source, kind=kind, value=value, paused_by="ann", until=until)


@pytest.fixture
def ran(handlers):
    """Register handlers of two types that note what they ran."""
    payloads = []
    for name in ("test.A", "test.B"):
        handles(name)(lambda message: payloads.append(message.payload))
    return payloads


@pytest.fixture
def delivered(settings, monkeypatch):
    """Route everything to the inbox, and note what is published there."""
    from queues.transports.inbox import InboxTransport

    settings.QUEUES = {**settings.QUEUES, "ROUTES": {"*": "inbox"}}
    payloads = []
    monkeypatch.setattr(InboxTransport, "publish", lambda _, message: payloads.append(message.event_data))
    return payloads


# --- shares


def test_a_type_with_a_long_backlog_leaves_the_others_their_share_of_a_claim():
    send_many([NewMessage(type="test.Flood", payload=n) for n in range(500)])
    send_many([NewMessage(type=name, payload=n) for name in ("test.A", "test.B") for n in range(3)])

    rows = claim(limit=90)

    assert types(rows) == ["test.A"] * 3 + ["test.B"] * 3 + ["test.Flood"] * 84


def test_a_claim_is_full_though_it_is_smaller_than_the_number_of_types():
    send_many([NewMessage(type=f"test.{n:02}", payload=n) for n in range(40)])

    assert len({row.message_type for row in claim(limit=10)}) == 10


def test_streams_leave_half_of_a_claim_to_messages_without_one():
    send_many([NewMessage(type="test.S", payload=n, stream=f"s{n % 10}") for n in range(200)])
    send_many([NewMessage(type="test.Free", payload=n) for n in range(200)])
    claims.admit(Queue.named(INBOX), 1000)

    assert types(claim(limit=40)) == ["test.Free"] * 20 + ["test.S"] * 20


def test_streams_get_the_whole_claim_when_nothing_else_is_due():
    send_many([NewMessage(type="test.S", payload=n, stream=f"s{n % 10}") for n in range(200)])
    send("test.Free", 0, delay=timedelta(hours=1))
    claims.admit(Queue.named(INBOX), 1000)

    assert types(claim(limit=40)) == ["test.S"] * 40


def test_a_long_stream_leaves_the_others_their_heads():
    send_many([NewMessage(type="test.S", payload=n, stream="long") for n in range(100)])
    send_many([NewMessage(type="test.S", payload=n, stream=f"s{n}") for n in range(9)])
    claims.admit(Queue.named(INBOX), 1000)

    assert len({row.stream_id for row in claim(limit=20)}) == 10


def test_lanes_are_listed_once_each_however_many_wait_and_whether_one_is_due():
    send_many([NewMessage(type="test.Flood", payload=n) for n in range(50)])
    send("test.Later", 0, delay=timedelta(hours=1))
    send("test.S", 0, stream="s")

    assert claims.lanes(Queue.named(INBOX), after=None, limit=10) == [("test.Flood", True), ("test.Later", False)]
    assert claims.lanes(Queue.named(INBOX), after=None, limit=1) == [("test.Flood", True)]
    assert claims.lanes(Queue.named(INBOX), after="test.G", limit=10) == [("test.Later", False)]


def test_a_message_of_a_lane_that_is_new_is_found_by_the_drain_that_runs(ran):
    """The drain asks for lanes once a second; it does not end before it has asked again."""

    @handles("test.First")
    def first(message):
        if message.payload:
            send("test.A", "found")

    send("test.First", 1)
    drain()

    assert ran == ["found"]


def test_a_row_for_another_build_stays_and_its_own_build_takes_it(sql):
    mine, other = (send("test.A", n).message_id for n in range(2))
    head = send("test.S", 0, stream="s").message_id
    send("test.S", 1, stream="s")
    sql("UPDATE wh_inbox SET only_generation = 'two' WHERE message_id IN (%s, %s)", other, head)
    claims.admit(Queue.named(INBOX), 10)

    assert [row.message_id for row in claim(generation="one")] == [mine]
    sql("UPDATE wh_streams SET due_at = now()")
    assert [row.message_id for row in claim(generation="two")][:2] == [other, head]


@pytest.mark.parametrize("is_held", [False, True], ids=["free", "held"])
def test_a_stream_whose_head_is_for_another_build_leaves_its_place_in_the_claims_to_others(work, sql, is_held):
    letter = uuid.uuid4() if is_held else None
    work.put("other build", stream="s", only_generation="two", dead_letter_id=letter)
    claims.admit(work.queue, 10)
    Stream.objects.update(held_by=letter)
    mine = work.put("mine", stream="later")

    assert work.claim(limit=1)[0] == []
    assert [row.message_id for row in work.claim(limit=1)[0]] == [mine]
    (again,) = sql(
        "SELECT due_at >= now() + interval '5 s' AND due_at <= clock_timestamp() + interval '5 s' AS soon"
        " FROM wh_streams WHERE lease_token IS NULL"
    )
    assert again["soon"]


# --- pauses


def test_nothing_of_a_paused_source_is_claimed_and_resuming_it_goes_on(ran):
    send("test.A", 1)
    send("test.B", 2, stream="s")
    paused = pause(PauseKind.SOURCE)
    assert drain().messages == 0

    paused.delete()
    drain()

    assert sorted(ran) == [1, 2]


def test_a_paused_type_waits_untouched_and_others_run(ran):
    pause(PauseKind.TYPE, "test.A")
    send("test.A", 1)
    send("test.B", 2)
    drain()

    assert ran == [2]
    assert InboxMessage.objects.get().attempts == 0


def test_a_pause_that_is_over_stops_nothing(ran):
    pause(PauseKind.TYPE, "test.A", until=datetime(2020, 1, 1, tzinfo=UTC))
    pause(PauseKind.SOURCE, until=datetime(2020, 1, 1, tzinfo=UTC))
    send("test.A", 1)
    drain()

    assert ran == [1]


def test_a_stream_whose_head_is_of_a_paused_type_waits_as_a_whole_and_is_soon_looked_at_again(ran, sql):
    paused = pause(PauseKind.TYPE, "test.A")
    send("test.A", 1, stream="s")
    send("test.B", 2, stream="s")
    send("test.B", 3, stream="other")
    drain()

    assert ran == [3]
    (again,) = sql("SELECT due_at > now() AND due_at <= clock_timestamp() + interval '30 s' AS soon FROM wh_streams")
    assert again["soon"]
    paused.delete()
    sql("UPDATE wh_streams SET due_at = now()")
    drain()
    assert ran == [3, 1, 2]


def test_a_follower_of_a_paused_type_stops_its_stream_there(ran):
    pause(PauseKind.TYPE, "test.B")
    for payload, name in enumerate(("test.A", "test.B", "test.A")):
        send(name, payload, stream="s")
    drain()

    assert ran == [0]


def test_a_paused_perspective_applies_nothing_and_the_others_go_on(handlers):
    applied = []
    for name in ("one", "two"):
        projects(name, "test.Happened")(lambda message, name=name: applied.append(name))
    subscribe()
    append_event("a", "test.Happened", 1)
    pause(PauseKind.TYPE, "one", source=PERSPECTIVES)
    drain(PERSPECTIVES)

    assert applied == ["two"]


def test_a_paused_destination_waits_and_others_are_published(delivered):
    pause(PauseKind.DESTINATION, "there", source=OUTBOX)
    publish("test.A", 1, destination="there")
    publish("test.A", 2, destination="there", stream="s")
    publish("test.A", 3, destination="here")
    drain(OUTBOX)

    assert delivered == ["3"]
    assert set(OutboxMessage.objects.values_list("attempts", flat=True)) == {0}


def test_a_paused_type_with_a_long_backlog_costs_the_claims_of_others_nothing(sql):
    sql(
        "INSERT INTO wh_inbox (message_id, message_type, event_data)"
        " SELECT gen_random_uuid(), 'test.Flood', '1' FROM generate_series(1, 20000)"
    )
    send_many([NewMessage(type="test.A", payload=n) for n in range(5)])
    pause(PauseKind.TYPE, "test.Flood")
    sql("ANALYZE wh_inbox")

    def fetched():
        (row,) = sql(
            "SELECT sum(idx_tup_fetch + seq_tup_read) AS n FROM pg_stat_xact_user_tables WHERE relname = 'wh_inbox'"
        )
        return row["n"]

    before = fetched()
    assert types(claim(lanes=["test.A", "test.Flood"])) == ["test.A"] * 5
    assert fetched() - before < 100


# --- circuits


def open_circuit(name="there", *, retry_in=timedelta(hours=1)):
    at = datetime.now(UTC)
    return Destination.objects.create(
        name=name, state=CircuitState.OPEN, failures=3, opened_at=at, retry_at=at + retry_in
    )


def test_nothing_for_a_destination_whose_circuit_is_open_is_claimed():
    open_circuit()
    publish("test.A", 1, destination="there")
    publish("test.A", 2, destination="there", stream="s")
    here = publish("test.A", 3, destination="here").message_id
    claims.admit(Queue.named(OUTBOX), 10)

    assert [row.message_id for row in claim(OUTBOX)] == [here]
    (stream,) = Stream.objects.all()
    assert stream.due_at == Destination.objects.get().retry_at


def test_at_its_time_a_circuit_is_tried_with_one_message_by_one_claimer():
    open_circuit(retry_in=timedelta(seconds=-1))
    for n in range(5):
        publish("test.A", n, destination="there")

    assert (len(claim(OUTBOX)), len(claim(OUTBOX))) == (1, 0)
    assert Destination.objects.get().state == CircuitState.HALF_OPEN


def test_a_circuit_is_tried_with_the_head_of_one_stream_alone():
    open_circuit(retry_in=timedelta(seconds=-1))
    for n in range(6):
        publish("test.A", n, destination="there", stream=f"s{n % 2}")
    publish("test.A", 9, destination="there")
    claims.admit(Queue.named(OUTBOX), 10)

    assert len(claim(OUTBOX)) == 1


def test_a_paused_destination_is_not_tried():
    open_circuit(retry_in=timedelta(seconds=-1))
    pause(PauseKind.DESTINATION, "there", source=OUTBOX)
    publish("test.A", 1, destination="there")

    assert claim(OUTBOX) == []
    assert Destination.objects.get().state == CircuitState.OPEN


def test_a_message_without_a_destination_is_claimed_as_any_other(sql):
    sql("INSERT INTO wh_outbox (message_id, message_type, event_data) VALUES (gen_random_uuid(), 'test.A', '1')")

    assert len(claim(OUTBOX)) == 1


@pytest.mark.parametrize("source", SOURCES)
def test_a_stream_whose_delayed_head_is_deleted_or_made_due_by_hand_is_looked_at_again(source, sql):
    """It waited for the head's time, which may be years ahead; no drainer would know."""
    add = {
        "wh_inbox": "INSERT INTO wh_inbox (message_id, message_type, event_data, stream_id, scheduled_for)"
        " VALUES (%s, 'test.A', '1', %s, now() + %s::interval)",
        "wh_outbox": "INSERT INTO wh_outbox (message_id, message_type, event_data, stream_id, scheduled_for)"
        " VALUES (%s, 'test.A', '1', %s, now() + %s::interval)",
        "wh_perspective_events": "INSERT INTO wh_perspective_events (event_work_id, perspective_name, event_id,"
        " stream_id, scheduled_for) VALUES (%s, 'p', gen_random_uuid(), %s, now() + %s::interval)",
    }[source]
    queue = source + (":p" if source.startswith("wh_p") else "")
    work_id = WORK[source]["id"]
    streams = [uuid.uuid4() for _ in range(3)]
    heads = [uuid.uuid4() for _ in range(3)]
    for head, stream in zip(heads, streams, strict=True):
        sql(add, head, stream, "1 day")
        sql(add, uuid.uuid4(), stream, "-1 s")
    claims.admit(Queue.named(queue), 100)
    assert not claim(queue, limit=10)

    sql(f"DELETE FROM {source} WHERE {work_id} = %s", heads[0])
    sql(f"UPDATE {source} SET scheduled_for = now() WHERE {work_id} = %s", heads[1])
    claims.admit(Queue.named(queue), 100)

    assert {row.stream_id for row in claim(queue, limit=10)} == set(streams[:2])


def test_a_crowd_of_streams_that_are_paused_keeps_nobody_behind_it_waiting(ran, settings):
    settings.QUEUES = {**settings.QUEUES, "CLAIM_BATCH": 4}
    pause(PauseKind.TYPE, "test.A")
    send_many([NewMessage(type="test.A", payload=n, stream=f"a{n}") for n in range(30)])
    send("test.B", "behind", stream="b")
    drain()

    assert ran == ["behind"]


def test_a_crowd_of_types_that_nobody_handles_leaves_the_others_their_share(ran, settings):
    settings.QUEUES = {**settings.QUEUES, "CLAIM_BATCH": 50}
    send_many([NewMessage(type=f"nobody.{n:03}", payload=n) for n in range(200)])
    send_many([NewMessage(type="test.A", payload=n) for n in range(30)])
    lanes = Lanes(Queue.named(INBOX))

    assert lanes.due()[0] == "test.A"
    assert len(lanes.due()) == 21
    drain()
    assert (sorted(ran), DeadLetter.objects.count()) == (list(range(30)), 200)


@pytest.mark.parametrize("at", ["infinity", "-infinity"])
@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO source_pauses (source, kind, paused_by, until) VALUES ('wh_inbox', 'source', 'ann', %s)",
        "INSERT INTO source_pauses (source, kind, paused_by, paused_at) VALUES ('wh_inbox', 'source', 'ann', %s)",
        "INSERT INTO destination_circuits (name, state, opened_at, retry_at) VALUES ('there', 'open', now(), %s)",
        "INSERT INTO wh_streams (queue, stream_id, due_at) VALUES ('wh_inbox', gen_random_uuid(), %s)",
        LEASED,
    ],
)
def test_the_database_refuses_times_that_no_reader_knows(sql, statement, at):
    with pytest.raises(IntegrityError, match="in_calendar"):
        sql(statement, at)


def test_the_database_refuses_a_circuit_in_a_state_that_nobody_knows(sql):
    with pytest.raises(IntegrityError, match="state_known"):
        sql("INSERT INTO destination_circuits (name, state, opened_at, retry_at) VALUES ('there', 'x', now(), now())")
