"""Any of the three sources, driven alike: work put into it, runs that the test decides, and what came of them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection, transaction

from queues import append_event, handles, projects, publish, send
from queues.conf import conf
from queues.drainer import Report
from queues.models import DeliveryLogEntry
from queues.perspectives import subscribe
from queues.store import claims
from queues.testing import drain
from queues.transports.base import Outgoing
from queues.transports.inbox import InboxTransport
from queues.words.messages import Message
from queues.words.payloads import decode_payload
from queues.words.sources import INBOX, OUTBOX, PERSPECTIVES, Queue
from tests.db.rows import KEY

TYPE = "test.Work"
PERSPECTIVE = "test.totals"
DESTINATION = "test.orders"
LEASE = timedelta(seconds=30)
QUEUES = (Queue(source=INBOX), Queue(source=OUTBOX), Queue(source=PERSPECTIVES, perspective=PERSPECTIVE))


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run: a message handled, published or applied. `number` counts the runs of its payload from 1.

    `message` is what a handler or projection was given; a transport is given none.
    """

    payload: Any
    stream_id: UUID | None
    number: int
    message: Message | None = None


@dataclass
class Work:
    """A source whose runs the test decides: `does` is called for each, and raises or returns."""

    queue: Queue
    does: Callable[[Run], object] = lambda run: None
    runs: list[Run] = field(default_factory=list)

    @property
    def source(self) -> str:
        return self.queue.source

    @property
    def ran(self) -> list[Any]:
        """The payloads that were run, in the order of their runs."""
        return [run.payload for run in self.runs]

    def run(self, payload: Any, stream_id: UUID | None, message: Message | None = None) -> None:
        number = 1 + sum(run.payload == payload for run in self.runs)
        run = Run(payload=payload, stream_id=stream_id, number=number, message=message)
        self.runs.append(run)
        self.does(run)

    def put(self, payload: Any = 0, *, stream: str | None = None, **columns: Any) -> UUID:
        """Put one message into the source by its own door, set columns of its row, and return the row's id.

        An event without a stream is the only one of a new stream.
        """
        with transaction.atomic():
            work_id = _PUT[self.source](payload, stream)
            if columns:
                changes = ", ".join(f"{name} = %s" for name in columns)
                self._execute(f"UPDATE {self.source} SET {changes} WHERE {self.key} = %s", *columns.values(), work_id)
        return work_id

    @property
    def key(self) -> str:
        return KEY[self.source]

    def drain(self) -> Report:
        return drain(self.source)

    def drain_for(self, turns: int) -> None:
        """Drain so often, and let every wait be over before each time."""
        for _ in range(turns):
            self.time_passes()
            self.drain()

    def row(self, work_id: UUID) -> dict[str, Any] | None:
        """Return the work row as it is, or None."""
        return next(iter(self.rows(work_id)), None)

    def rows(self, *work_ids: UUID) -> list[dict[str, Any]]:
        """Return work rows, all without ids, with `waits`: the seconds until each is due."""
        with connection.cursor() as cursor:
            cursor.execute(
                f"SELECT w.*, extract(epoch FROM w.scheduled_for - clock_timestamp()) AS waits FROM {self.source} w"
                f" WHERE %s OR w.{self.key} = ANY (%s) ORDER BY w.position",
                [not work_ids, list(work_ids)],
            )
            names = [column.name for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def logged(self) -> list[tuple[int, str]]:
        """Return attempt and outcome of each event in the log of this source."""
        entries = DeliveryLogEntry.objects.filter(source=self.source).order_by("id")
        return list(entries.values_list("attempt", "outcome"))

    def claim(self, limit: int = 100, per_stream: int = 50) -> tuple[list[claims.Claimed], claims.Held]:
        """Claim as a drainer of another process does."""
        claims.admit(self.queue, 1000)
        token, instance = uuid4(), uuid4()
        found = claims.claim(
            self.queue, instance_id=instance, token=token, limit=limit, per_stream=per_stream, lease=LEASE
        )
        rows = found or []
        return rows, claims.Held.of(self.queue, token, rows)

    def start_and_vanish(self) -> claims.Claimed:
        """Let another drainer start the first due message, alone, and never be heard of again."""
        rows, held = self.claim(limit=1)
        assert claims.start(self.queue, token=held.token, message_id=rows[0].message_id)
        self.leases_lapse()
        return rows[0]

    def time_passes(self) -> None:
        """Make every waiting message due."""
        self._execute(
            f"UPDATE {self.source} SET scheduled_for = now() - interval '1 second' WHERE scheduled_for > now()"
        )
        self._execute("UPDATE wh_streams SET due_at = now() - interval '1 second' WHERE due_at > now()")

    def leases_lapse(self) -> None:
        """Let every lease run out."""
        for table in (self.source, "wh_streams"):
            self._execute(
                f"UPDATE {table} SET lease_expiry = now() - interval '1 second' WHERE lease_token IS NOT NULL"
            )

    def _execute(self, statement: str, *arguments: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute(statement, arguments)


def fails(run: Run) -> None:
    raise ValueError(f"run {run.number}")


def counts(row: dict[str, Any]) -> tuple[int, int, bool]:
    """Return what a work row was charged and given back, and whether it is a suspect."""
    return row["attempts"], row["releases"], row["suspect"]


# --- in by the front door


def _send(payload: Any, stream: str | None) -> UUID:
    return send(TYPE, payload, stream=stream).message_id


def _publish(payload: Any, stream: str | None) -> UUID:
    return publish(TYPE, payload, destination=DESTINATION, stream=stream).message_id


def _append(payload: Any, stream: str | None) -> UUID:
    event = append_event(stream or uuid4(), TYPE, payload)
    with connection.cursor() as cursor:
        cursor.execute("SELECT event_work_id FROM wh_perspective_events WHERE event_id = %s", [event.event_id])
        (found,) = cursor.fetchone()
    return UUID(str(found))


_PUT: dict[str, Callable[[Any, str | None], UUID]] = {INBOX: _send, OUTBOX: _publish, PERSPECTIVES: _append}


# --- what runs it


def working(queue: Queue, patch: pytest.MonkeyPatch, **options: Any) -> Work:
    """Register, in the test's own registry, what runs the source's messages; the destination needs a route.

    options: those of the handler or projection; unless they say so, streams run on behind a death.
    """
    work = Work(queue=queue)
    if queue.source == OUTBOX:
        patch.setattr(InboxTransport, "publish", lambda _, message: _publishes(work, message))
        return work
    register = handles if queue.source == INBOX else partial(projects, PERSPECTIVE)
    register(TYPE, **{"after_death": "continue", **options})(
        lambda message: work.run(message.payload, message.meta.stream_id, message)
    )
    subscribe()
    return work


def _publishes(work: Work, message: Outgoing) -> None:
    payload = decode_payload(message.event_data, message.envelope_raw, limits=conf().payload_limits())
    work.run(payload, message.stream_id)
