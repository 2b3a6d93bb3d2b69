"""Records of what came of a run: rows deleted or changed, and the delivery log."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection

from queues.store.arrays import uuids
from queues.store.claims import Held
from queues.words.failures import Failure
from queues.words.outcomes import FailureReason, OutcomeKind


@dataclass(frozen=True, kw_only=True)
class Change:
    """The new counts of one row that stays; `failure` None keeps the last reported one."""

    message_id: UUID
    attempts: int
    delays: int
    releases: int
    due_in: timedelta
    failure: Failure | None
    reason: FailureReason


@dataclass(frozen=True, kw_only=True)
class Event:
    """One row of the delivery log."""

    message_id: UUID
    life: int
    attempt: int
    outcome: OutcomeKind
    failure: Failure | None
    started_at: datetime | None
    duration_ms: int | None


def record(held: Held, *, done: Sequence[UUID], changes: Sequence[Change]) -> bool:
    """Delete what succeeded and change what stays; False = at least one row is not held any more.

    held: has the claim's token, and the streams that were fenced in this transaction.
    """
    if not done and not changes:
        return True
    arguments: list[Any] = [
        uuids(done),
        json.dumps([_change(change) for change in changes]),
        held.token,
        uuids(held.streams),
    ]
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT record_{held.queue.source}(%s, %s, %s, %s)", arguments)
        return int(cursor.fetchone()[0]) == len(done) + len(changes)


def _change(change: Change) -> dict[str, Any]:
    failure = change.failure
    return {
        "message_id": str(change.message_id),
        "attempts": change.attempts,
        "delays": change.delays,
        "releases": change.releases,
        "due_in_ms": round(change.due_in / timedelta(milliseconds=1)),
        "failed": failure is not None,
        "error": failure.text if failure else None,
        "failure_detail": failure.structure() if failure else None,
        "failure_reason": int(change.reason),
    }


def append_log(source: str, events: Sequence[Event], *, worker: UUID, generation: str) -> bool:
    """Append events; False = they could not be written, which never fails the outcome."""
    if not events:
        return True
    rows = [{**_event(event), "source": source, "worker": str(worker), "generation": generation} for event in events]
    with connection.cursor() as cursor:
        cursor.execute("SELECT append_delivery_log(%s)", [json.dumps(rows)])
        return int(cursor.fetchone()[0]) >= 0


def _event(event: Event) -> dict[str, Any]:
    failure = event.failure
    return {
        "message_id": str(event.message_id),
        "life": event.life,
        "attempt": event.attempt,
        "outcome": str(event.outcome),
        "failure_message": failure.message if failure else None,
        "failure_detail": failure.structure() if failure else None,
        "started_at": event.started_at.isoformat() if event.started_at else None,
        "duration_ms": event.duration_ms,
    }
