"""Which messages the soak sends, by which door, and what must become of them: the number of a message decides."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import uuid4

from django.db import connection, transaction

from queues import NewMessage, append_event, publish, send_many
from queues.store.events import subscribe
from queues.words.messages import stream_uuid
from queues.words.sources import INBOX, OUTBOX, PERSPECTIVES

GOOD, FAILING, DELAYED, UNREADABLE, KILLER = "good", "failing", "delayed", "unreadable", "killer"
TYPES = ("soak.Placed", "soak.Paid", "soak.Shipped", "soak.Returned")
EVENT, PERSPECTIVE, DESTINATION = "soak.Counted", "soak_counts", "soak.elsewhere"
BATCH = 500
BROKEN = b"\xff{"
"""No JSON, and no UTF-8 either."""


@dataclass(frozen=True, kw_only=True)
class Sent:
    """One message: an outbox one is published into the inbox of the same service, and has its effect there."""

    number: int
    kind: str
    door: str
    stream: str | None

    @property
    def type(self) -> str:
        return EVENT if self.door == PERSPECTIVES else TYPES[self.number % len(TYPES)]

    @property
    def payload(self) -> list[object]:
        return [self.kind, self.number, self.stream]

    @property
    def has_effect(self) -> bool:
        return self.kind in (GOOD, DELAYED)


def messages(count: int) -> Iterator[Sent]:
    """Yield 5 % failing messages, 5 % delayed ones, 1 % unreadable ones and three killers among good ones.

    Eight in ten go to the inbox, one to the outbox, one is an event; a third of the messages is in streams.
    """
    killers = {count // 5, count // 2, count * 4 // 5}
    for number in range(count):
        door = {8: OUTBOX, 9: PERSPECTIVES}.get(number // 3 % 10, INBOX)
        in_stream = number % 3 == 0 or door == PERSPECTIVES
        stream = f"{door}-{number % 97}" if in_stream else None
        yield Sent(number=number, kind=_kind(number, killers), door=door, stream=stream)


def _kind(number: int, killers: set[int]) -> str:
    if number in killers:
        return KILLER
    place = number * 37 % 101  # prime to the numbers that choose doors and streams: each kind comes by each door
    return FAILING if place < 5 else DELAYED if place < 10 else UNREADABLE if place == 10 else GOOD


def send(sent: Sequence[Sent]) -> None:
    """Store messages in batches, in their order, each batch in one transaction."""
    subscribe([(PERSPECTIVE, EVENT)])
    for start in range(0, len(sent), BATCH):
        with transaction.atomic():
            _send_batch(sent[start : start + BATCH])


def _send_batch(batch: Sequence[Sent]) -> None:
    inbox = [message for message in batch if message.door == INBOX and message.kind != UNREADABLE]
    send_many([NewMessage(type=message.type, payload=message.payload, stream=message.stream) for message in inbox])
    for message in batch:
        if message.kind == UNREADABLE:
            _insert_unreadable(message)
        elif message.door == OUTBOX:
            publish(message.type, message.payload, destination=DESTINATION, stream=message.stream)
        elif message.door == PERSPECTIVES:
            append_event(message.stream or "", message.type, message.payload)


_UNREADABLE = {
    INBOX: "INSERT INTO wh_inbox (message_id, message_type, stream_id, event_data, envelope_raw, envelope_bytes)"
    " VALUES (%s, %s, %s, '{}', %s, 2)",
    OUTBOX: "INSERT INTO wh_outbox (message_id, message_type, stream_id, event_data, envelope_raw, envelope_bytes,"
    f" destination) VALUES (%s, %s, %s, '{{}}', %s, 2, '{DESTINATION}')",
    PERSPECTIVES: "SELECT append_event(p_event_id => %s, p_event_type => %s, p_stream_id => %s, p_event_data => '{}',"
    " p_envelope_raw => %s, p_envelope_bytes => 2)",
}


def _insert_unreadable(message: Sent) -> None:
    """Write what no sender of ours would: as a service in another language may."""
    stream = stream_uuid(message.stream)
    with connection.cursor() as cursor:
        cursor.execute(_UNREADABLE[message.door], [uuid4(), message.type, stream, BROKEN])
