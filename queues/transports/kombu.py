"""The transport to message brokers: RabbitMQ, Redis, Valkey and what else kombu knows."""

import os
import threading
from contextlib import nullcontext
from typing import Any

from amqp.exceptions import ChannelError, MessageNacked, NotFound
from celery import current_app
from kombu.connection import Connection
from kombu.messaging import Producer

from queues.conf import conf
from queues.transports import wire
from queues.transports.base import Outgoing
from queues.words.classifiers import is_away
from queues.words.errors import DestinationMissing, NotReady, Unpublishable

MAX_NAME_BYTES = 255
MAX_HEADERS_BYTES = 100_000
"""AMQP: names are short strings, and the headers must fit in one frame of 128 KiB."""


class KombuTransport:
    """Publishes to a queue at a broker, by the exchange of the queue's name; the broker has confirmed what returns.

    url: the broker's, by default Celery's. queue: by default the destination's name. A receiver declares it:
    publishing where nothing is declared raises DestinationMissing.
    """

    def __init__(self, *, url: str = "", queue: str = "") -> None:
        self.url, self.queue = url, queue

    def publish(self, message: Outgoing) -> None:
        """Publish one message; raises NotReady, DestinationMissing, Unpublishable, or what the broker says of it."""
        queue = self.queue or message.destination or ""
        publisher_to(self.url or default_url()).publish(queue, message)


def default_url() -> str:
    """Return the URL of Celery's broker."""
    return str(current_app.connection_for_write().as_uri(include_password=True))


def connect(url: str, **options: Any) -> Connection:
    """Return a connection that opens on first use; each wait of it is bounded."""
    seconds = conf().transport_timeout_seconds
    made = Connection(url, connect_timeout=seconds)
    made.transport_options = {**_limits(made.transport.driver_type, seconds), **options}
    return made


def _limits(driver: str, seconds: float) -> dict[str, Any]:
    if driver == "amqp":
        return {"confirm_publish": True, "read_timeout": seconds, "write_timeout": seconds}
    if driver == "redis":
        return {"socket_timeout": seconds, "socket_connect_timeout": seconds, "socket_keepalive": True}
    return {}


class Publisher:
    """One connection of this process to a broker, opened when it is needed and again after it was lost."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._producer: Any = None
        self._ways: _Ways | None = None
        self._returned: list[Any] = []

    def publish(self, queue: str, message: Outgoing) -> None:
        """Publish one message; one connection that was lost since the last message is replaced at once."""
        with self._lock:
            if self._producer is not None:
                try:
                    return self._publish(queue, message)
                except NotReady:
                    self.close()
            return self._publish(queue, message)

    def close(self) -> None:
        """Leave the broker without a word: it may be gone."""
        connection, self._connection, self._producer, self._ways = self._connection, None, None, None
        if connection is not None:
            connection.collect()

    def _publish(self, queue: str, message: Outgoing) -> None:
        producer = self._open()
        try:
            self._refuse_missing(queue)
            self._send(producer, queue, message)
        except DestinationMissing:
            raise
        except Exception as exc:
            is_away = _is_away(exc, self._connection)
            self.close()  # a confirmation that comes late must not be taken for the next message's
            if isinstance(exc, NotFound):
                raise DestinationMissing(queue) from exc
            if is_away:
                raise NotReady(f"the broker is away: {exc}") from exc
            raise

    def _open(self) -> Any:
        if self._producer is None:
            self._connection = connect(self._url, heartbeat=0)
            try:
                channel = self._connection.channel()
            except Exception as exc:  # whatever keeps it from answering, the message is not at fault
                self.close()
                raise NotReady(f"the broker cannot be reached: {exc}") from exc
            if self._connection.transport.driver_type == "redis":
                _keep_client(channel)
            if not self._is_amqp():
                self._ways = _Ways(channel)
            noted = (lambda *args: self._returned.append(args)) if self._is_amqp() else None
            self._producer = Producer(channel, auto_declare=False, on_return=noted)
        return self._producer

    def _refuse_missing(self, queue: str) -> None:
        """Ask a broker that drops what it cannot route; AMQP says it by itself."""
        if self._ways is None:
            return
        try:
            is_bound = bool(self._ways.to(queue))
        except KeyError:
            is_bound = False
        if not is_bound:
            raise DestinationMissing(queue)

    def _send(self, producer: Any, queue: str, message: Outgoing) -> None:
        headers = wire.headers_of(message)
        if self._is_amqp():
            _refuse_unfit(queue, headers)
        self._returned.clear()
        producer.publish(
            wire.body_of(message),
            exchange=queue,
            routing_key=queue,
            mandatory=True,
            delivery_mode=2,
            content_type=wire.CONTENT_TYPE,
            content_encoding="utf-8",
            headers=headers,
            message_id=str(message.message_id),
            timeout=conf().transport_timeout_seconds,
            confirm_timeout=conf().transport_timeout_seconds,
        )
        if self._returned:
            raise DestinationMissing(queue)

    def _is_amqp(self) -> bool:
        return self._connection is not None and self._connection.transport.driver_type == "amqp"


def _keep_client(channel: Any) -> None:
    """Let a channel keep one client of the broker, and that its connection: to get them takes longer than a command.

    A connection that was lost meanwhile is found out when it is used.
    """
    with channel.conn_or_acquire() as client:
        client.connection = client.connection_pool.get_connection()
        channel.conn_or_acquire = lambda given=None: nullcontext(given or client)


class _Ways:
    """Where messages go: asked by us, that it is somewhere, and by kombu right after, for which one answer does."""

    def __init__(self, channel: Any) -> None:
        self._look_up = channel.get_table
        self._answer: tuple[str, Any] | None = None
        channel.get_table = self._again

    def to(self, queue: str) -> Any:
        """Ask the broker for the bindings of a queue's exchange."""
        self._answer = None
        self._answer = queue, self._look_up(queue)
        return self._answer[1]

    def _again(self, queue: str) -> Any:
        answer, self._answer = self._answer, None
        return answer[1] if answer is not None and answer[0] == queue else self._look_up(queue)


def _refuse_unfit(queue: str, headers: dict[str, str]) -> None:
    """Refuse what makes an AMQP broker close the connection, as if it were away."""
    for name in (queue, *headers):
        if len(name.encode()) > MAX_NAME_BYTES:
            raise Unpublishable(f'the name "{name[:50]}…" has more than {MAX_NAME_BYTES} bytes, the most AMQP takes')
    size = sum(len(name.encode()) + len(value.encode()) for name, value in headers.items())
    if size > MAX_HEADERS_BYTES:
        raise Unpublishable(f"the headers have {size:,} bytes; AMQP takes {MAX_HEADERS_BYTES:,}")


def _is_away(exc: Exception, connection: Connection | None) -> bool:
    """Say whether the broker takes nothing now: it is out of reach, busy, full or a replica."""
    if isinstance(exc, ChannelError | NotReady):
        return isinstance(exc, NotReady)
    known = connection is not None and isinstance(exc, connection.connection_errors)
    return known or isinstance(exc, MessageNacked) or is_away(exc)


_publishers: dict[str, Publisher] = {}
_process_id = os.getpid()
_of_parents: list[dict[str, Publisher]] = []
"""Kept for ever: to collect a connection of the process that we were forked from would close it there."""


def publisher_to(url: str) -> Publisher:
    """Return this process's publisher to the broker."""
    global _publishers, _process_id
    if _process_id != os.getpid():
        _of_parents.append(_publishers)
        _publishers, _process_id = {}, os.getpid()
    return _publishers.setdefault(url, Publisher(url))


def close_all() -> None:
    """Close this process's connections; the next publish opens one again."""
    while _publishers:
        _publishers.popitem()[1].close()
