"""How messages are taken from a queue of a broker: looked at first, gone only when they are acknowledged."""

import base64
import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol

from kombu import entity
from kombu.connection import Connection
from kombu.messaging import Consumer as KombuConsumer

from queues.conf import conf
from queues.transports.kombu import connect
from queues.words.arrivals import Arrival

HEARTBEAT_SECONDS = 30
QUIET_SECONDS = 0.02
"""A batch is over when nothing more comes for so long."""


class Consumer(Protocol):
    """Takes messages from one queue."""

    def fetch(self, *, wait: float) -> list[Arrival]:
        """Return a bounded batch, the oldest first; empty = none came within `wait` seconds."""
        ...

    def acknowledge(self, arrivals: Sequence[Arrival]) -> None:
        """Let the broker forget these messages."""

    def is_empty(self) -> bool:
        """Say whether nothing waits in the queue for anybody."""
        ...

    def close(self) -> None:
        """Leave; what is not acknowledged stays at the broker."""


def open_consumer(url: str, queue: str) -> Consumer:
    """Connect to the broker and declare the queue: durable, and bound to an exchange of its name."""
    connection = connect(url, heartbeat=HEARTBEAT_SECONDS)
    try:
        channel = connection.channel()
        _queue(queue)(channel).declare()
        is_redis = connection.transport.driver_type == "redis"
        return RedisConsumer(connection, channel, queue) if is_redis else AckingConsumer(connection, channel, queue)
    except BaseException:
        connection.collect()
        raise


def _queue(name: str) -> Any:
    exchange = entity.Exchange(name, "direct", durable=True)
    return entity.Queue(name, exchange, routing_key=name, durable=True)


class AckingConsumer:
    """For brokers that keep what is delivered until it is acknowledged, as AMQP does.

    At most a batch is on its way at once; while a batch is full nothing more is read from the connection.
    """

    def __init__(self, connection: Connection, channel: Any, queue: str) -> None:
        self._connection, self._channel, self._queue = connection, channel, queue
        self._arrived: list[Arrival] = []
        channel.auto_decode = False  # AMQP: the bytes as they came, whatever encoding the sender names
        channel.basic_qos(0, conf().receive_batch, False)
        self._consumer = KombuConsumer(channel, [_queue(queue)], on_message=self._take, auto_declare=False)
        self._consumer.consume()

    def fetch(self, *, wait: float) -> list[Arrival]:
        self._connection.heartbeat_check()
        while not self._is_full() and self._drain(QUIET_SECONDS if self._arrived else wait):
            pass
        arrived, self._arrived = self._arrived, []
        return arrived

    def acknowledge(self, arrivals: Sequence[Arrival]) -> None:
        # AMQP: everything up to the last one at once, since whole batches are acknowledged, in their order.
        together = self._connection.transport.driver_type == "amqp"
        for arrival in arrivals[-1:] if together else arrivals:
            self._channel.basic_ack(arrival.tag, multiple=together)

    def is_empty(self) -> bool:
        waiting = _queue(self._queue)(self._channel).queue_declare(passive=True).message_count
        return int(waiting) == 0 and not self._arrived  # what was on its way has come before the answer

    def close(self) -> None:
        with suppress(Exception):  # the broker may be gone, which says the same
            self._connection.release()

    def _drain(self, wait: float) -> bool:
        """Read until something came; False = nothing did."""
        try:
            self._connection.drain_events(timeout=wait)
        except TimeoutError:
            return False
        return True

    def _is_full(self) -> bool:
        size = sum(len(arrival.body) for arrival in self._arrived)
        return len(self._arrived) >= conf().receive_batch or size >= conf().claim_bytes

    def _take(self, message: Any) -> None:
        body = message.body
        if isinstance(body, str):
            body = body.encode()
        self._arrived.append(
            Arrival(
                body=bytes(body),
                headers=message.headers or {},
                content_type=str(message.content_type or ""),
                message_id=message.properties.get("message_id"),
                message_type=message.properties.get("type"),
                delivery_id=None,
                tag=message.delivery_tag,
            )
        )


# The oldest members of a list, as many as fit: at least one. KEYS: the list. ARGV: how many, how many bytes.
_LOOK = """
local found, size = {}, 0
for i = 1, tonumber(ARGV[1]) do
  local member = redis.call('LINDEX', KEYS[1], -i)
  if not member then break end
  size = size + #member
  if i > 1 and size > tonumber(ARGV[2]) then break end
  found[i] = member
end
return found
"""


class RedisConsumer:
    """For Redis and Valkey, by the lists that kombu writes.

    kombu's own consumer takes a message off its list before it notes it elsewhere: a process killed in between
    loses it. Here a message stays in its list until it is acknowledged; two receivers may see it, one stores it.
    """

    def __init__(self, connection: Connection, channel: Any, queue: str) -> None:
        self._connection, self._client = connection, channel.client
        self._lists = [channel._q_for_pri(queue, priority) for priority in channel.priority_steps]
        self._look = self._client.register_script(_LOOK)

    def fetch(self, *, wait: float) -> list[Arrival]:
        found = self._found()
        if not found and wait > 0:
            # The last member moved to the last place: waits for one, and changes nothing.
            seconds = min(wait, conf().transport_timeout_seconds / 2)
            self._client.blmove(self._lists[0], self._lists[0], seconds, "RIGHT", "RIGHT")
            found = self._found()
        return found

    def acknowledge(self, arrivals: Sequence[Arrival]) -> None:
        with self._client.pipeline(transaction=False) as pipe:
            for arrival in arrivals:
                key, member = arrival.tag
                pipe.lrem(key, -1, member)
            pipe.execute()

    def is_empty(self) -> bool:
        return not any(self._client.llen(key) for key in self._lists)

    def close(self) -> None:
        self._connection.collect()

    def _found(self) -> list[Arrival]:
        for key in self._lists:
            members = self._look(keys=[key], args=[conf().receive_batch, conf().claim_bytes])
            if members:
                return [_arrival(key, member) for member in members]
        return []


def _arrival(key: str, member: bytes) -> Arrival:
    """Read a member as kombu writes it; one that somebody else wrote is a body without headers."""
    with suppress(ValueError, RecursionError, LookupError, TypeError, AttributeError):
        envelope = json.loads(member)
        properties = envelope["properties"]
        return Arrival(
            body=_body(envelope["body"], properties),
            headers=dict(envelope.get("headers") or {}),
            content_type=str(envelope.get("content-type") or ""),
            message_id=properties.get("message_id"),
            message_type=properties.get("type"),
            delivery_id=properties.get("delivery_tag"),
            tag=(key, member),
        )
    return Arrival(
        body=member,
        headers={},
        content_type="",
        message_id=None,
        message_type=None,
        delivery_id=None,
        tag=(key, member),
    )


def _body(body: str, properties: Any) -> bytes:
    if properties.get("body_encoding") == "base64":
        return base64.b64decode(body, validate=True)
    return body.encode()
