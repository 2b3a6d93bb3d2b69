"""The transport to brokers, without a broker."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from amqp.exceptions import AccessRefused, MessageNacked, PreconditionFailed
from kombu import Exchange, Queue
from kombu.connection import Connection
from kombu.transport.virtual.base import Channel
from redis.exceptions import OutOfMemoryError, ReadOnlyError, ResponseError

from queues.transports import kombu, wire
from queues.transports.base import Outgoing
from queues.words.errors import DestinationMissing, NotReady, Unpublishable

ID = UUID("0f0ee6ee-7d5c-4c8a-9d2a-6a1b8e3a52d4")


@pytest.fixture(autouse=True)
def nothing_stays_open():
    yield
    kombu.close_all()


def outgoing(**fields):
    known = {
        "message_id": ID,
        "message_type": "a.B",
        "destination": "orders",
        "event_data": '{"a": 1}',
        "envelope_raw": None,
        "envelope_bytes": 8,
        "metadata": {},
        "stream_id": None,
        "scope": None,
        "is_event": False,
        "flags": None,
        "sent_at": datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC),
        "waited": timedelta(0),
    }
    return Outgoing(**{**known, **fields})


def test_headers_are_those_of_a_cloud_event():
    assert wire.headers_of(outgoing(metadata={"stream": "order-1"})) == {
        "ce-specversion": "1.0",
        "ce-id": str(ID),
        "ce-type": "a.B",
        "ce-source": "deadletters",
        "ce-time": "2030-01-02T03:04:05+00:00",
        "ce-partitionkey": "order-1",
    }


def test_a_message_s_own_headers_win_but_cannot_make_it_another_message():
    given = {"ce-id": "x", "ce-type": "x", "ce-source": "mine", "trace": "t", "n": 7}
    headers = wire.headers_of(outgoing(metadata={"headers": given}))

    assert (headers["ce-id"], headers["ce-type"]) == (str(ID), "a.B")
    assert (headers["ce-source"], headers["trace"], headers["n"]) == ("mine", "t", "7")


def test_a_stream_without_a_name_goes_by_its_id():
    assert wire.headers_of(outgoing(stream_id=ID))["ce-partitionkey"] == str(ID)


def test_the_exact_bytes_go_out_where_they_are_kept():
    assert wire.body_of(outgoing()) == b'{"a": 1}'
    assert wire.body_of(outgoing(envelope_raw=b"1.0e2")) == b"1.0e2"


def test_a_queue_that_nobody_declared_is_missing():
    with pytest.raises(DestinationMissing, match='no queue "orders"'):
        kombu.KombuTransport(url="memory://").publish(outgoing())


def test_a_broker_that_refuses_connections_is_not_ready():
    with pytest.raises(NotReady, match="cannot be reached"):
        kombu.KombuTransport(url="redis+socket:///nowhere/at/all").publish(outgoing())


@pytest.mark.parametrize(
    ("headers", "queue"),
    [({"n" * 256: "x"}, "orders"), ({f"h{n}": "x" * 8_000 for n in range(20)}, "orders"), ({}, "ä" * 128)],
)
def test_what_makes_amqp_hang_up_is_the_message_s_own_failure(headers, queue):
    with pytest.raises(Unpublishable):
        kombu._refuse_unfit(queue, headers)


AWAY = [ConnectionResetError(), TimeoutError(), MessageNacked(), OutOfMemoryError(), ReadOnlyError(), NotReady("x")]
ANSWERS = [PreconditionFailed(), AccessRefused(), ResponseError("wrong kind"), ValueError(), UnicodeError()]


@pytest.mark.parametrize("exc", [*AWAY, *ANSWERS], ids=lambda exc: type(exc).__name__)
def test_only_what_concerns_every_message_says_that_a_broker_is_away(exc):
    with Connection("memory://") as connection:
        assert kombu._is_away(exc, connection) is (exc in AWAY)


def test_a_fork_gets_connections_of_its_own_and_leaves_its_parent_s_alone(monkeypatch):
    of_parent = kombu.publisher_to("memory://")
    assert kombu.publisher_to("memory://") is of_parent
    monkeypatch.setattr(kombu.os, "getpid", lambda: -1)

    assert kombu.publisher_to("memory://") is not of_parent
    assert any(of_parent in publishers.values() for publishers in kombu._of_parents)
    monkeypatch.undo()
    kombu._process_id = kombu.os.getpid()


def test_a_url_and_a_queue_are_celery_s_and_the_destination_s_unless_given(settings, monkeypatch):
    asked = []
    monkeypatch.setattr(kombu, "publisher_to", lambda url: asked.append(url) or Asked(asked))
    monkeypatch.setattr(kombu, "default_url", lambda: "memory://celery")

    kombu.KombuTransport().publish(outgoing())
    kombu.KombuTransport(url="memory://own", queue="q").publish(outgoing())

    assert asked == ["memory://celery", "orders", "memory://own", "q"]


class Asked:
    def __init__(self, asked):
        self.asked = asked

    def publish(self, queue, message):
        self.asked.append(queue)


def test_where_a_message_goes_is_asked_once_for_each_and_anew_for_the_next(monkeypatch):
    look_up, asked = Channel.get_table, []
    monkeypatch.setattr(Channel, "get_table", lambda channel, queue: asked.append(queue) or look_up(channel, queue))
    transport = kombu.KombuTransport(url="memory://")
    with Connection("memory://") as broker:
        queue = Queue("orders", Exchange("orders"), routing_key="orders")(broker.channel())
        queue.declare()
        asked.clear()
        for _ in range(2):
            transport.publish(outgoing())

        assert asked == ["orders", "orders"]
        assert [queue.get() is not None for _ in range(3)] == [True, True, False]

        queue.delete()
        queue.exchange.delete()
        with pytest.raises(DestinationMissing):
            transport.publish(outgoing())
