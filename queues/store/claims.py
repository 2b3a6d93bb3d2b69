"""Claims of work rows: lease, fence, renew, release. Every function is one statement of `sql/claim_v1.sql`."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import connection


@dataclass(frozen=True, kw_only=True)
class Claimed:
    """One claimed row without its body.

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


@dataclass(frozen=True, kw_only=True)
class Body:
    """The body of one row, as text; nothing is parsed here."""

    event_data: str
    metadata: str
    envelope_raw: bytes | None
    received_at: Any
    error: str | None
    failure_detail: str | None


def admit(queue: str, limit: int) -> int:
    """Turn up to `limit` arrivals into stream rows; return how many were eaten."""
    return int(_value("SELECT admit_arrivals(%s, %s)", [queue, limit]) or 0)


def claim(
    source: str, *, instance_id: UUID, token: UUID, limit: int, per_stream: int, lease: timedelta
) -> list[Claimed]:
    """Claim up to `limit` due rows under `token`, in position order; empty = nothing is due."""
    arguments: list[Any] = [source, instance_id, token, limit, per_stream, lease]
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT * FROM claim_{source}(%s, %s, %s, %s, %s, %s)",  # noqa: S608 - a Source value
            arguments,
        )
        return _claimed(cursor)


_PRESENT = (
    "w.message_id, w.position, w.stream_id, w.message_type, w.attempts, w.delays, w.releases, w.life, w.suspect, "
    "w.failure_reason, w.max_attempts, w.max_delays, w.dead_letter_id, 0 AS body_bytes, false AS lapsed, "
    "w.started_at IS NOT NULL AS was_started"
)


def read(source: str, message_ids: Sequence[UUID]) -> list[Claimed]:
    """Return rows as they are now, in position order; `was_started` says that one runs alone at present."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {_PRESENT} FROM {source} w WHERE w.message_id = ANY (%s) ORDER BY w.position",  # noqa: S608
            [list(message_ids)],
        )
        return _claimed(cursor)


def held_under(source: str, token: UUID, message_ids: Sequence[UUID]) -> list[Claimed]:
    """Return those of the rows that are still held under the token."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {_PRESENT} FROM {source} w LEFT JOIN wh_streams s "  # noqa: S608
            "ON s.queue = %s AND s.stream_id = w.stream_id "
            "WHERE w.message_id = ANY (%s) AND %s IN (w.lease_token, s.lease_token) ORDER BY w.position",
            [source, list(message_ids), token],
        )
        return _claimed(cursor)


def _claimed(cursor: Any) -> list[Claimed]:
    names = [column.name for column in cursor.description]
    return [Claimed(**dict(zip(names, row, strict=True))) for row in cursor.fetchall()]


def bodies(source: str, message_ids: Sequence[UUID]) -> dict[UUID, Body]:
    """Return the bodies of the rows that still exist."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT message_id, event_data::text, metadata::text, envelope_raw, received_at, error, "  # noqa: S608
            f"failure_detail::text FROM {source} WHERE message_id = ANY (%s)",
            [list(message_ids)],
        )
        return {row[0]: _body(row[1:]) for row in cursor.fetchall()}


def _body(row: Sequence[Any]) -> Body:
    event_data, metadata, raw, received_at, error, failure_detail = row
    return Body(
        event_data=event_data,
        metadata=metadata,
        envelope_raw=None if raw is None else bytes(raw),
        received_at=received_at,
        error=error,
        failure_detail=failure_detail,
    )


@dataclass(frozen=True, kw_only=True)
class Held:
    """What a drain holds under one token: free rows by id, others through their streams."""

    source: str
    token: UUID
    messages: tuple[UUID, ...]
    streams: tuple[UUID, ...]

    @property
    def _arguments(self) -> list[Any]:
        return [self.source, self.token, list(self.messages), list(self.streams)]

    def is_held(self) -> bool:
        """Lock what is held; False = at least one part of the claim is lost."""
        return bool(_value(f"SELECT fence_{self.source}(%s, %s, %s, %s)", self._arguments))

    def renew(self, lease: timedelta) -> int:
        """Extend the leases; return how many."""
        return int(_value(f"SELECT renew_{self.source}(%s, %s, %s, %s, %s)", [*self._arguments, lease]))

    def release(self) -> None:
        """Give everything back that is still held; nothing is counted."""
        _value(f"SELECT release_{self.source}(%s, %s, %s, %s)", self._arguments)


def start(source: str, *, token: UUID, message_id: UUID) -> bool:
    """Charge a run that starts alone, before its handler; False = the claim is lost."""
    return bool(_value(f"SELECT start_{source}(%s, %s, %s)", [source, token, message_id]))


def _value(statement: str, arguments: Sequence[Any]) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(statement, arguments)
        return cursor.fetchone()[0]
