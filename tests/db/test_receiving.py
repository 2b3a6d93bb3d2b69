"""Receiving from a broker: every message once in the inbox, what cannot be read in the dead letters."""

import json
import threading
import uuid
from contextlib import nullcontext
from io import StringIO

import pytest
from django.core.management import call_command
from django.db import DataError, OperationalError
from kombu import Connection, Exchange, Producer

from deadletters.models import DeadLetter, DeadLetterDeath
from deadletters.store.recovery import Sent, recover
from queues import circuits, handles, publish, receiving
from queues.models import InboxMessage, OutboxMessage
from queues.receiving import receive
from queues.testing import drain
from queues.transports import consumers
from queues.transports.kombu import close_all, connect
from queues.words.messages import stream_uuid
from queues.words.outcomes import Cause, FailureReason

URL = "memory://"
OUTBOX = "wh_outbox"
HARD = {"text": "\x00 \ud800", "number": 10**400}


@pytest.fixture(autouse=True)
def routes(settings, monkeypatch):
    """Route everything to a broker in this process, and leave nothing open."""
    monkeypatch.setattr("kombu.transport.memory.Channel.do_restore", True)  # like a real one when a consumer goes
    settings.QUEUES = {**settings.QUEUES, "ROUTES": {"*": {"transport": "kombu", "url": URL}}}
    circuits._notes.clear()
    circuits._away_until.clear()
    yield
    close_all()


@pytest.fixture
def queue():
    """Return the name of a queue that is declared."""
    name = f"q-{uuid.uuid4()}"
    got(name)
    return name


def got(queue):
    """Receive until the queue is empty."""
    return receive(queue, url=URL, stop=threading.Event(), until_empty=True)


def put(queue, body, *, headers=None, content_type="application/json", **properties):
    """Put a message into the queue as somebody else's program would."""
    with Connection(URL) as connection:
        Producer(connection.channel(), Exchange(queue), auto_declare=False).publish(
            body,
            routing_key=queue,
            headers=headers or {},
            content_type=content_type,
            content_encoding="binary",
            **properties,
        )


@pytest.mark.django_db
def test_a_published_message_is_received_whole(queue, handlers):
    seen = []
    handles("test.Paid")(lambda message: seen.append(message))
    sent = publish("test.Paid", HARD, destination=queue, stream="order-1", headers={"trace": "t1"})
    drain(OUTBOX)
    assert not OutboxMessage.objects.exists()

    assert got(queue) == {"stored": 1}
    row = InboxMessage.objects.get()
    assert (row.message_id, row.stream_id) == (sent.message_id, stream_uuid("order-1"))
    drain()

    (message,) = seen
    assert (message.id, message.payload, message.meta.stream) == (sent.message_id, HARD, "order-1")
    assert message.headers["trace"] == "t1"
    assert message.headers["ce-id"] == str(sent.message_id)


@pytest.mark.django_db
@pytest.mark.parametrize("ends", ["empty", "error"])
def test_the_drain_command_leaves_no_connection_to_a_broker_open(queue, monkeypatch, ends):
    opened = []

    def noted(url, **options):
        opened.append(connect(url, **options))
        return opened[-1]

    def breaks(**_):
        raise RuntimeError("broken")

    monkeypatch.setattr("queues.transports.kombu.connect", noted)
    if ends == "error":
        monkeypatch.setattr("queues.store.flows.fold", breaks)
    publish("test.Paid", 1, destination=queue)

    with nullcontext() if ends == "empty" else pytest.raises(RuntimeError):
        call_command("drain", "outbox", "--until-empty", stdout=StringIO())

    assert not OutboxMessage.objects.exists()
    (connection,) = opened
    assert not connection.connected


@pytest.mark.django_db
def test_a_queue_that_nobody_declared_is_a_failure_and_no_success():
    publish("test.Paid", 1, destination="mispelt")
    drain(OUTBOX)

    row = OutboxMessage.objects.get()
    assert 'there is no queue "mispelt"' in row.error
    assert (row.attempts, row.releases) == (1, 0)


@pytest.mark.django_db
def test_a_message_that_comes_again_is_stored_once(queue):
    message_id = uuid.uuid4()
    for _ in range(2):
        put(queue, b"1", headers={"ce-type": "test.Paid"}, message_id=str(message_id))
    assert got(queue) == {"stored": 1, "seen_before": 1}

    put(queue, b"1", headers={"ce-type": "test.Paid"}, message_id=str(message_id))
    assert got(queue) == {"seen_before": 1}
    assert InboxMessage.objects.get().message_id == message_id


@pytest.mark.django_db
def test_a_crash_between_the_commit_and_the_acknowledgement_loses_and_doubles_nothing(queue, monkeypatch):
    class Killed(BaseException):
        pass

    def dies(self, arrivals):
        raise Killed

    put(queue, b"1", headers={"ce-type": "test.Paid"}, message_id=str(uuid.uuid4()))
    put(queue, b"not JSON", headers={"ce-type": "test.Paid"})
    with monkeypatch.context() as patched:
        patched.setattr(consumers.AckingConsumer, "acknowledge", dies)
        with pytest.raises(Killed):
            got(queue)

    assert got(queue) == {"seen_before": 2}
    assert InboxMessage.objects.count() == DeadLetter.objects.count() == 1


@pytest.mark.django_db
def test_a_database_that_is_away_is_waited_for_and_the_message_stays_at_the_broker(queue, monkeypatch):
    works, calls = receiving._store, []

    def away_once(batch, name):
        calls.append(len(batch))
        if len(calls) == 1:
            raise OperationalError("the server is gone")
        return works(batch, name)

    monkeypatch.setattr(receiving, "_store", away_once)
    monkeypatch.setattr(receiving, "_wait", lambda failures: 0)
    monkeypatch.setattr(receiving.connection, "close", lambda: None)
    put(queue, b"1", headers={"ce-type": "test.Paid"})

    assert got(queue) == {"stored": 1}
    assert calls == [1, 1]


UNREADABLE = {
    "not JSON": (b"{", {"ce-type": "test.Paid"}, "test.Paid", "not readable"),
    "not UTF-8": (b'"\xff"', {"ce-type": "test.Paid"}, "test.Paid", "UTF-8"),
    "too deep": (b"[" * 200 + b"]" * 200, {"ce-type": "test.Paid"}, "test.Paid", "deeper than 100"),
    "no type": (b"1", {}, "broker.untyped", "no type"),
    "a type too long": (b"1", {"ce-type": "x" * 501}, "x" * 400, "type must be"),
    "a NUL in a header": (b"1", {"ce-type": "test.Paid", "a": "\x00"}, "test.Paid", "header"),
    "a NUL in the type": (b"1", {"ce-type": "test\x00"}, "test", "type must be"),
    "too many headers": (b"1", {"ce-type": "test.Paid", **{f"h{n}": "" for n in range(101)}}, "test.Paid", "102 head"),
    "a stream that is no text": (b"1", {"ce-type": "test.Paid", "ce-partitionkey": [1]}, "test.Paid", "stream"),
}


@pytest.mark.django_db
@pytest.mark.parametrize("case", UNREADABLE)
def test_what_no_inbox_can_take_is_a_dead_letter_with_its_exact_bytes(queue, case):
    body, headers, message_type, reason = UNREADABLE[case]
    put(queue, body, headers=headers)
    put(queue, b"2", headers={"ce-type": "test.Good"})

    assert got(queue) == {"unreadable": 1, "stored": 1}
    letter = DeadLetter.objects.get()
    assert (letter.source_table, letter.destination, letter.cause) == ("broker", queue, Cause.UNREADABLE)
    assert letter.failure_reason == FailureReason.SERIALIZATION_ERROR
    assert bytes(letter.envelope_raw) == body
    assert letter.message_type.startswith(message_type)
    assert reason in letter.error_text
    assert DeadLetterDeath.objects.filter(dead_letter=letter, number=1).count() == 1
    assert InboxMessage.objects.get().message_type == "test.Good"


@pytest.mark.django_db
def test_an_unreadable_message_without_an_id_that_comes_again_makes_no_second_letter(queue):
    for _ in range(2):
        put(queue, b"{", headers={"ce-type": "test.Paid"})
        got(queue)
    put(queue, b"{", headers={"ce-type": "test.Other"})
    got(queue)

    assert sorted(DeadLetter.objects.values_list("message_type", flat=True)) == ["test.Other", "test.Paid"]


@pytest.mark.django_db
def test_a_letter_of_the_broker_is_recovered_once_its_bytes_are_mended(queue, handlers):
    seen = []
    handles("test.Paid")(lambda message: seen.append((message.payload, message.headers["trace"])))
    put(queue, b"{", headers={"ce-type": "test.Paid", "trace": "t1"}, message_id=str(uuid.uuid4()))
    got(queue)
    letter = DeadLetter.objects.get()
    letter.envelope_raw = b'{"mended": true}'
    letter.save(update_fields=["envelope_raw"])

    assert recover(letter.dead_letter_id, "ann") is Sent.SENT
    drain()

    letter.refresh_from_db()
    assert seen == [({"mended": True}, "t1")]
    assert letter.recovery_status == 3


@pytest.mark.django_db
def test_without_a_store_of_dead_letters_the_inbox_keeps_what_is_unreadable(queue, settings):
    settings.QUEUES = {**settings.QUEUES, "DEAD_LETTER_STORE": None}
    put(queue, b"{", headers={"ce-type": "test.Paid"})
    assert got(queue) == {"unreadable": 1}
    drain()

    row = InboxMessage.objects.get()
    assert (bytes(row.envelope_raw), row.message_type) == (b"{", "test.Paid")


@pytest.mark.django_db
def test_an_id_that_is_no_uuid_tells_repetitions_of_one_source_only(queue):
    for source in ("a", "a", "b"):
        put(queue, b"1", headers={"ce-type": "test.Paid", "ce-id": "order 7", "ce-source": source})

    assert got(queue) == {"stored": 2, "seen_before": 1}


@pytest.mark.django_db
def test_a_message_without_any_id_is_stored(queue):
    put(queue, b"1", headers={"ce-type": "test.Paid"})
    put(queue, b"1", headers={"ce-type": "test.Paid"})

    assert got(queue)["stored"] == 2


@pytest.mark.django_db
def test_headers_of_the_broker_itself_are_kept_as_text(queue):
    put(queue, b"1", headers={"ce-type": "test.Paid", "x-delivery-count": 3, "x-death": [{"queue": "q", "count": 1}]})
    got(queue)

    headers = json.loads(InboxMessage.objects.get().metadata)["headers"]
    assert headers["x-delivery-count"] == "3"
    assert json.loads(headers["x-death"]) == [{"queue": "q", "count": 1}]


@pytest.mark.django_db
def test_a_structured_cloud_event_is_received(queue):
    event = {"specversion": "1.0", "type": "test.Paid", "id": "7", "source": "shop", "data": {"a": 1}}
    put(queue, json.dumps(event).encode(), content_type="application/cloudevents+json; charset=utf-8")
    got(queue)

    row = InboxMessage.objects.get()
    assert (row.message_type, json.loads(row.event_data)) == ("test.Paid", {"a": 1})


@pytest.mark.django_db
def test_a_batch_is_bounded_by_number_and_by_bytes(queue, settings, monkeypatch):
    settings.QUEUES = {**settings.QUEUES, "RECEIVE_BATCH": 4, "CLAIM_BYTES": 80}
    sizes, works = [], receiving.store

    def note_size(batch, name):
        sizes.append(len(batch))
        return works(batch, name)

    monkeypatch.setattr(receiving, "store", note_size)
    for size in [1] * 6 + [90] * 4:
        put(queue, b'"' + b"x" * size + b'"', headers={"ce-type": "test.Paid"})
    got(queue)

    assert sizes == [4, 3, 1, 1, 1]


@pytest.mark.django_db
def test_what_the_database_refuses_is_found_and_its_neighbours_are_stored(queue, monkeypatch):
    works = receiving._store

    def refuse(batch, name):
        if any(arrival.body == b'"bad"' for arrival in batch):
            raise DataError("no such value")
        return works(batch, name)

    monkeypatch.setattr(receiving, "_store", refuse)
    for body in (b"1", b'"bad"', b"2"):
        put(queue, body, headers={"ce-type": "test.Paid"})

    assert got(queue) == {"stored": 2, "unreadable": 1}
    assert "the database refused it" in DeadLetter.objects.get().error_text
