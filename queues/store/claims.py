"""Claims of work rows: lease, fence, renew, release. Every function is one statement of `sql/claim_v1.sql`."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from operator import attrgetter
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection

from queues.sql import WORK_TABLES
from queues.store.arrays import uuids
from queues.words.sources import PERSPECTIVES, Queue


class Claimed(NamedTuple):
    """One claimed row without its body; a tuple of the columns that a claim returns, since each message makes one.

    `attempts` is as stored. `suspect` rows run alone; `was_started`: this row's process was lost while it ran
    alone, and its charge is in `attempts` already.
    """

    message_id: UUID
    position: int
    stream_id: UUID | None
    message_type: str
    attempts: int
    delays: int
    releases: int
    life: int
    suspect: bool
    failure_reason: int
    max_attempts: int | None
    max_delays: int | None
    dead_letter_id: UUID | None
    body_bytes: int
    lapsed: bool
    was_started: bool


def admit(queue: Queue, limit: int) -> int:
    """Turn up to `limit` arrivals into stream rows; return how many were eaten."""
    return int(_value("SELECT admit_arrivals(%s, %s)", [queue.name, limit]) or 0)


def claim(
    queue: Queue,
    *,
    instance_id: UUID,
    token: UUID,
    limit: int,
    per_stream: int,
    lease: timedelta,
    generation: str | None = None,
    lanes: Sequence[str] | None = None,
) -> list[Claimed] | None:
    """Claim up to `limit` due rows under `token`, in position order; empty = nothing is due.

    None = streams that are due were looked at and may not run now; there may be others behind them: claim again.
    generation: the claimer's build; None = only rows for any build. lanes: of the rows without a stream those to
    claim from; None = all that are due.
    """
    known = None if lanes is None else list(lanes)
    arguments: list[Any] = [queue.name, instance_id, token, limit, per_stream, lease, generation, known]
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT * FROM claim_{queue.source}(%s, %s, %s, %s, %s, %s, %s, %s)",  # noqa: S608 - a known source
            arguments,
        )
        rows = cursor.fetchall()
        if rows and rows[0][0] is None:
            return None
        return sorted(map(Claimed._make, rows), key=attrgetter("position"))


def lanes(queue: Queue, *, after: str | None, limit: int) -> list[tuple[str, bool]]:
    """Return lanes in which rows without a stream wait, in order from `after` on, and whether one of each is due."""
    if queue.source == PERSPECTIVES:
        return []
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT lane, is_due FROM due_lanes_{queue.source}(%s, %s)", [after, limit])  # noqa: S608
        return list(cursor.fetchall())


def due_among(queue: Queue, lanes: Sequence[str]) -> list[str]:
    """Return those of the lanes in which a row without a stream is due."""
    with connection.cursor() as cursor:
        statement = f"SELECT l FROM unnest(%s::text[]) AS l WHERE is_lane_due_{queue.source}(l)"  # noqa: S608
        cursor.execute(statement, [list(lanes)])
        return [lane for (lane,) in cursor.fetchall()]


def _present(source: str) -> str:
    """Return the columns of a `Claimed` as a row `w` has them now."""
    names = WORK_TABLES[source]
    return (
        f"w.{names['id']} AS message_id, w.position, w.stream_id, {names['type']} AS message_type, w.attempts, "
        "w.delays, w.releases, w.life, w.suspect, coalesce(w.failure_reason, 99) AS failure_reason, w.max_attempts, "
        "w.max_delays, w.dead_letter_id, 0 AS body_bytes, false AS lapsed, w.started_at IS NOT NULL AS was_started"
    )


def read(source: str, message_ids: Sequence[UUID]) -> list[Claimed]:
    """Return rows as they are now, in position order; `was_started` says that one runs alone at present."""
    work_id = WORK_TABLES[source]["id"]
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {_present(source)} FROM {source} w WHERE w.{work_id} = ANY (%s) ORDER BY w.position",  # noqa: S608
            [list(message_ids)],
        )
        return list(map(Claimed._make, cursor.fetchall()))


def held_under(queue: Queue, token: UUID, message_ids: Sequence[UUID]) -> list[Claimed]:
    """Return those of the rows that are still held under the token."""
    work_id = WORK_TABLES[queue.source]["id"]
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {_present(queue.source)} FROM {queue.source} w LEFT JOIN wh_streams s "  # noqa: S608
            "ON s.queue = %s AND s.stream_id = w.stream_id "
            f"WHERE w.{work_id} = ANY (%s) AND %s IN (w.lease_token, s.lease_token) ORDER BY w.position",
            [queue.name, list(message_ids), token],
        )
        return list(map(Claimed._make, cursor.fetchall()))


@dataclass(frozen=True, kw_only=True)
class Held:
    """What a drain holds under one token: free rows by id, others through their streams."""

    queue: Queue
    token: UUID
    messages: tuple[UUID, ...]
    streams: tuple[UUID, ...]

    @classmethod
    def of(cls, queue: Queue, token: UUID, rows: Iterable[Claimed]) -> "Held":
        """Return the part of a claim that these rows are."""
        rows = tuple(rows)
        streams = {row.stream_id for row in rows if row.stream_id is not None}
        messages = tuple(row.message_id for row in rows)
        return cls(queue=queue, token=token, messages=messages, streams=tuple(sorted(streams, key=attrgetter("int"))))

    def is_held(self) -> bool:
        """Lock what is held; False = at least one part of the claim is lost."""
        return bool(_value(f"SELECT fence_{self.queue.source}(%s, %s, %s, %s)", self._arguments))

    def renew(self, lease: timedelta) -> int:
        """Extend the leases; return how many."""
        return int(_value(f"SELECT renew_{self.queue.source}(%s, %s, %s, %s, %s)", [*self._arguments, lease]))

    def release(self) -> None:
        """Give everything back that is still held; nothing is counted."""
        _value(f"SELECT release_{self.queue.source}(%s, %s, %s, %s)", self._arguments)

    @property
    def _arguments(self) -> list[Any]:
        return [self.queue.name, self.token, uuids(self.messages), uuids(self.streams)]


def found_under(queue: Queue, token: UUID) -> Held:
    """Search for what is held under the token: reads the whole table, for a claim that nobody could note."""
    work_id = WORK_TABLES[queue.source]["id"]
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {work_id} FROM {queue.source} WHERE lease_token = %s", [token])  # noqa: S608
        messages = tuple(row[0] for row in cursor.fetchall())
        cursor.execute("SELECT stream_id FROM wh_streams WHERE queue = %s AND lease_token = %s", [queue.name, token])
        streams = tuple(sorted(row[0] for row in cursor.fetchall()))
    return Held(queue=queue, token=token, messages=messages, streams=streams)


def start(queue: Queue, *, token: UUID, message_id: UUID) -> bool:
    """Charge a run that starts alone, before its handler; False = the claim is lost."""
    return bool(_value(f"SELECT start_{queue.source}(%s, %s, %s)", [queue.name, token, message_id]))


def _value(statement: str, arguments: Sequence[Any]) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(statement, arguments)
        return cursor.fetchone()[0]
