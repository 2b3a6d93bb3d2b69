"""Brokers for real: what one process publishes another receives, each message once, whoever dies in between."""

import json
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from kombu import Connection, Exchange, Producer, Queue

from deadletters.embedded.places import Places, make_data_dir
from deadletters.embedded.services import held, services
from deadletters.models import DeadLetter
from queues import NewMessage, circuits, publish
from queues.models import DeliveryLogEntry, InboxMessage, OutboxMessage
from queues.sending import row_of
from queues.store.messages import insert_outgoing
from queues.transports.base import Outgoing
from queues.transports.consumers import open_consumer
from queues.transports.kombu import KombuTransport, close_all
from queues.words.errors import DestinationMissing, NotReady
from tests.worker import rabbitmq
from tests.worker.conftest import eventually

OUTBOX = "wh_outbox"


@dataclass(frozen=True, kw_only=True)
class Broker:
    """One broker of the tests' own; what it has confirmed survives `kill`."""

    url: str
    kill: Callable[[], None]
    start: Callable[[], None]
    control: Callable[..., None] | None = None


@pytest.fixture(scope="module")
def rabbit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    script = rabbitmq.server()
    if script is None:
        assert "CI" not in os.environ, "the gate needs rabbitmq-server"
        pytest.skip("there is no rabbitmq-server here")
    node = rabbitmq.Node(tmp_path_factory.mktemp("rabbitmq"), script)
    try:
        node.start()
        yield Broker(url=node.url, kill=lambda: node.stop(signal.SIGKILL), start=node.start, control=node.control)
    finally:
        node.close()


@pytest.fixture(scope="module")
def valkey() -> Iterator[Broker]:
    data = make_data_dir(Path(tempfile.mkdtemp(prefix="dl-broker-")))
    try:
        with held(Places(data=data)):
            servers = services(Places(data=data), database=False, broker=True)
            server = servers.valkey
            assert server is not None

            def kill() -> None:
                assert server.process is not None
                server.process.kill()
                server.process.wait()

            try:
                servers.start()
                yield Broker(url=servers.environment["CELERY_BROKER_URL"], kill=kill, start=server.start)
            finally:
                servers.stop()
                shutil.rmtree(servers.places.sockets, ignore_errors=True)
    finally:
        shutil.rmtree(data, ignore_errors=True)


@pytest.fixture(params=["rabbit", "valkey"])
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    yield request.getfixturevalue(request.param)
    close_all()
    circuits._notes.clear()
    circuits._away_until.clear()


@dataclass(frozen=True, kw_only=True)
class Way:
    """One queue from the outbox to the inbox, and the processes at its two ends."""

    shop: object
    broker: Broker
    queue: str

    def declare(self) -> None:
        assert self.receiver("--until-empty").wait() == 0, self.shop.log()

    def publisher(self, *options: str):
        route = {self.queue: {"transport": "kombu", "url": self.broker.url}}
        quick = {"ROUTES": route, "TRANSPORT_TIMEOUT_SECONDS": 2, "TICK_SECONDS": 0.05}
        return self.shop.run("drain", "outbox", *options, TEST_QUEUES=json.dumps(quick))

    def receiver(self, *options: str):
        settings = json.dumps({"RECEIVE_BATCH": 20, "TRANSPORT_TIMEOUT_SECONDS": 2})
        return self.shop.run("receive", "--queue", self.queue, "--url", self.broker.url, *options, TEST_QUEUES=settings)

    def publish(self, count: int) -> set:
        return {publish("test.Good", n, destination=self.queue).message_id for n in range(count)}

    def waiting(self) -> list:
        """Return what waits at the broker."""
        consumer = open_consumer(self.broker.url, self.queue)
        try:
            return consumer.fetch(wait=0.2)
        finally:
            consumer.close()


@pytest.fixture
def way(shop, broker) -> Way:
    made = Way(shop=shop, broker=broker, queue=f"q-{uuid4()}")
    made.declare()
    return made


def received() -> set:
    ids = list(InboxMessage.objects.values_list("message_id", flat=True))
    assert len(ids) == len(set(ids))
    return set(ids)


def outgoing(queue: str) -> Outgoing:
    return Outgoing(
        message_id=uuid4(),
        message_type="test.Good",
        destination=queue,
        event_data="1",
        envelope_raw=b"1.0e2",
        envelope_bytes=5,
        metadata={"stream": "order-1", "headers": {"trace": "t1", "ce-id": "another"}},
        stream_id=None,
        scope=None,
        is_event=False,
        flags=None,
        sent_at=datetime.now(UTC),
        waited=timedelta(0),
    )


def test_what_is_published_is_on_the_wire_byte_for_byte_as_a_cloud_event(way):
    message = outgoing(way.queue)
    KombuTransport(url=way.broker.url).publish(message)

    (arrival,) = way.waiting()
    assert (arrival.body, arrival.content_type) == (b"1.0e2", "application/json")
    assert arrival.message_id == str(message.message_id)
    assert arrival.headers == {
        "ce-specversion": "1.0",
        "ce-id": str(message.message_id),
        "ce-type": "test.Good",
        "ce-source": "deadletters",
        "ce-time": message.sent_at.isoformat(),
        "ce-partitionkey": "order-1",
        "trace": "t1",
    }


def test_a_queue_that_nobody_declared_takes_nothing_and_the_next_one_does(way):
    with pytest.raises(DestinationMissing, match="mispelt"):
        KombuTransport(url=way.broker.url).publish(outgoing("mispelt"))

    KombuTransport(url=way.broker.url, queue=way.queue).publish(outgoing("anything"))
    assert len(way.waiting()) == 1


def test_a_broker_that_is_away_is_not_ready_and_one_that_is_back_takes_the_next_message(way):
    transport = KombuTransport(url=way.broker.url)
    transport.publish(outgoing(way.queue))
    way.broker.kill()
    with pytest.raises(NotReady):
        transport.publish(outgoing(way.queue))
    way.broker.start()
    transport.publish(outgoing(way.queue))

    way.broker.kill()
    way.broker.start()
    transport.publish(outgoing(way.queue))  # by a connection that was lost without anybody knowing
    assert len(way.waiting()) == 3


def test_messages_of_one_process_reach_another_each_once(way):
    sent = way.publish(150)

    assert way.publisher("--until-empty").wait() == 0, way.shop.log()
    assert way.receiver("--until-empty").wait() == 0, way.shop.log()

    assert received() == sent
    assert not OutboxMessage.objects.exists()
    assert way.waiting() == []


def test_a_broker_killed_in_the_middle_loses_and_doubles_nothing_and_costs_no_attempt(way):
    sent = way.publish(200)
    publisher, receiver = way.publisher(), way.receiver()
    eventually(lambda: len(received()) > 10, "messages arrive")

    way.broker.kill()
    sent |= way.publish(50)
    way.broker.start()

    eventually(lambda: received() == sent, "all have arrived")
    eventually(lambda: not OutboxMessage.objects.exists(), "the outbox is empty")
    assert set(DeliveryLogEntry.objects.values_list("outcome", flat=True)) <= {"released"}
    for process in (publisher, receiver):
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
    assert way.waiting() == []


def test_a_receiver_killed_again_and_again_loses_and_doubles_nothing(way):
    sent = way.publish(300)
    assert way.publisher("--until-empty").wait() == 0, way.shop.log()

    for _ in range(4):
        before = len(received())
        receiver = way.receiver()
        eventually(lambda before=before: len(received()) > before, "messages arrive")
        receiver.kill()
        receiver.wait()

    eventually(lambda: way.receiver("--until-empty").wait() == 0 and received() == sent, "all have arrived")
    assert way.waiting() == []


def test_a_receiver_asked_to_end_ends_well_and_the_rest_stays(way):
    sent = way.publish(200)
    assert way.publisher("--until-empty").wait() == 0, way.shop.log()
    receiver = way.receiver()
    eventually(lambda: received(), "messages arrive")

    receiver.send_signal(signal.SIGTERM)

    assert receiver.wait() == 0
    assert way.receiver("--until-empty").wait() == 0
    assert received() == sent


def test_two_receivers_share_a_queue_and_store_each_message_once(way):
    sent = way.publish(300)
    receivers = [way.receiver(), way.receiver()]
    assert way.publisher("--until-empty").wait() == 0, way.shop.log()

    eventually(lambda: received() == sent, "all have arrived")
    for receiver in receivers:
        receiver.send_signal(signal.SIGTERM)
        assert receiver.wait() == 0


def test_an_id_that_was_received_and_handled_is_published_again_without_effect(way):
    row = row_of(NewMessage(type="test.Good", payload=1, id=uuid4()))
    for _ in range(2):
        assert insert_outgoing(row, way.queue)
        assert way.publisher("--until-empty").wait() == 0
        assert way.receiver("--until-empty").wait() == 0
        assert way.shop.drainer().wait() == 0

    assert way.shop.effects() == ["1"]


def test_the_bytes_are_received_as_they_came_whatever_encoding_they_claim(way):
    with Connection(way.broker.url) as broker:
        exchange = Exchange(way.queue)
        for encoding in ("utf-16", "nonsense", "utf-8"):
            Producer(broker.channel(), auto_declare=False).publish(
                b'"\xc3\xa4"',
                exchange=exchange,
                routing_key=way.queue,
                headers={"ce-type": "test.Good", "claims": encoding},
                content_type="application/json",
                content_encoding=encoding,
            )
    assert way.receiver("--until-empty").wait() == 0

    assert list(InboxMessage.objects.values_list("event_data", flat=True)) == ['"ä"'] * 3


@pytest.mark.parametrize("raw", [b"\x00\xff", b'{"a": 1}', b'{"body": 1, "properties": 2}', b"[" * 5000])
def test_a_list_member_that_is_no_kombu_message_is_a_dead_letter(shop, valkey, raw):
    way = Way(shop=shop, broker=valkey, queue=f"q-{uuid4()}")
    with Connection(valkey.url) as broker:
        broker.channel().client.lpush(way.queue, raw)
    assert way.receiver("--until-empty").wait() == 0, way.shop.log()

    assert bytes(DeadLetter.objects.get().envelope_raw) == raw
    assert way.waiting() == []


def test_messages_of_every_priority_are_received(shop, valkey):
    way = Way(shop=shop, broker=valkey, queue=f"q-{uuid4()}")
    way.declare()
    with Connection(valkey.url) as broker:
        producer = Producer(broker.channel(), auto_declare=False)
        for priority in range(10):
            headers = {"ce-type": "test.Good"}
            producer.publish(b"1", exchange=way.queue, routing_key=way.queue, headers=headers, priority=priority)
    assert way.receiver("--until-empty").wait() == 0

    assert len(received()) == 10


@pytest.fixture
def impatient(settings):
    """Let nobody wait for a broker that does not answer."""
    settings.QUEUES = {**settings.QUEUES, "TRANSPORT_TIMEOUT_SECONDS": 1}
    yield
    close_all()


def test_a_broker_out_of_memory_is_not_ready_until_it_has_some(rabbit, impatient):
    queue = f"q-{uuid4()}"
    open_consumer(rabbit.url, queue).close()
    transport = KombuTransport(url=rabbit.url)
    transport.publish(outgoing(queue))
    rabbit.control("set_vm_memory_high_watermark", "0")
    try:
        with pytest.raises(NotReady):
            transport.publish(outgoing(queue))
    finally:
        rabbit.control("set_vm_memory_high_watermark", "0.4")

    transport.publish(outgoing(queue))


def test_a_queue_that_is_full_is_not_ready(rabbit, impatient):
    queue = f"q-{uuid4()}"
    full = {"x-max-length": 1, "x-overflow": "reject-publish"}
    with Connection(rabbit.url) as broker:
        Queue(queue, Exchange(queue), routing_key=queue, queue_arguments=full)(broker.channel()).declare()
    transport = KombuTransport(url=rabbit.url)
    transport.publish(outgoing(queue))

    with pytest.raises(NotReady):
        transport.publish(outgoing(queue))


def test_a_broker_that_does_not_let_us_in_is_not_ready(rabbit, impatient):
    with pytest.raises(NotReady, match="cannot be reached") as refused:
        KombuTransport(url=rabbit.url.replace("guest:guest", "guest:hunter2")).publish(outgoing("any"))

    assert "hunter2" not in str(refused.value)


def test_an_exchange_without_a_queue_takes_nothing(rabbit, impatient):
    name = f"q-{uuid4()}"
    with Connection(rabbit.url) as broker:
        Exchange(name, durable=True)(broker.channel()).declare()
    transport = KombuTransport(url=rabbit.url)

    for _ in range(2):
        with pytest.raises(DestinationMissing):
            transport.publish(outgoing(name))
