"""Reads of the processes that drain: who lives, on which build, and what it runs."""

import json
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import BooleanField, Case, QuerySet, When
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.db.models.functions import Now

from deadletters.queries import pauses
from queues.conf import conf
from queues.models import InboxMessage, PerspectiveEvent, ServiceInstance
from queues.words.payloads import depth_of
from queues.words.sources import INBOX, PERSPECTIVES
from queues.words.text import cut

MAX_WORKERS = 200
MAX_NAMES = 500
"""Types and perspectives of one process that are shown."""

LOOKED_AT = 5_000
"""How many of the messages that are due first are looked at for types that nobody handles."""

_MAX_LIST = 256 * 1024
"""Characters of a list in a process's metadata that is read."""


@dataclass(frozen=True, kw_only=True)
class Running:
    """What a process has been running for a while."""

    message_id: UUID | None
    type: str
    attempt: str
    started_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class Worker:
    """One process. `is_alive`: it gave a sign of life lately, by the clock of the database."""

    instance_id: UUID
    service: str
    host: str
    process_id: int
    started_at: datetime
    heartbeat_at: datetime
    is_alive: bool
    generation: str
    draining: str
    running: Running | None
    ticked_at: datetime | None
    types: Sequence[str]
    perspectives: Sequence[str]


def all_workers() -> Sequence[Worker]:
    """Return the processes, the living first, then by their last sign of life."""
    return [_worker(row) for row in _rows().order_by("-is_alive", "-last_heartbeat_at", "instance_id")[:MAX_WORKERS]]


def by_id(ids: Iterable[UUID]) -> Mapping[UUID, Worker]:
    """Return the processes with these ids; one that is long gone is missing."""
    wanted = set(ids)
    return {row["instance_id"]: _worker(row) for row in _rows().filter(instance_id__in=wanted)} if wanted else {}


def unhandled(workers: Sequence[Worker], *, now: datetime) -> Sequence[str]:
    """Return types and perspectives with due messages that no living process handles; what is paused needs none."""
    alive = [worker for worker in workers if worker.is_alive]
    types = {name for worker in alive for name in worker.types}
    perspectives = {name for worker in alive for name in worker.perspectives}
    missing_types = _due(InboxMessage.objects.all(), "message_type", now) - types
    missing_perspectives = _due(PerspectiveEvent.objects.all(), "perspective_name", now) - perspectives
    missing_types = pauses.unpaused(INBOX, missing_types, now)
    missing_perspectives = pauses.unpaused(PERSPECTIVES, missing_perspectives, now)
    return [*sorted(missing_types), *sorted(missing_perspectives)][:MAX_NAMES]


def _due(rows: QuerySet[Any], name: str, now: datetime) -> Set[str]:
    first = rows.filter(processed_at=None, life__gt=0, scheduled_for__lte=now).order_by("scheduled_for", "position")
    return set(first.values_list(name, flat=True)[:LOOKED_AT])


def _rows() -> QuerySet[Any, dict[str, Any]]:
    """Read the metadata key by key, as text: another program's may nest deeper than Python parses."""
    silent = timedelta(seconds=conf().instance_timeout_seconds)
    message = KeyTransform("message", "metadata")
    alive = Case(When(last_heartbeat_at__gt=Now() - silent, then=True), default=False, output_field=BooleanField())
    rows: QuerySet[Any] = ServiceInstance.objects.all()
    known: QuerySet[Any, dict[str, Any]] = rows.annotate(
        is_alive=alive,
        generation=KeyTextTransform("generation", "metadata"),
        draining=KeyTextTransform("draining", "metadata"),
        ticked_at=KeyTextTransform("ticked_at", "metadata"),
        types=KeyTextTransform("types", "metadata"),
        perspectives=KeyTextTransform("perspectives", "metadata"),
        running_id=KeyTextTransform("id", message),
        running_type=KeyTextTransform("type", message),
        running_attempt=KeyTextTransform("attempt", message),
        running_since=KeyTextTransform("started_at", message),
    ).values(*_COLUMNS)
    return known


_COLUMNS = (
    *("instance_id", "service_name", "host_name", "process_id", "started_at", "last_heartbeat_at", "is_alive"),
    *("generation", "draining", "ticked_at", "types", "perspectives"),
    *("running_id", "running_type", "running_attempt", "running_since"),
)


def _worker(row: Mapping[str, Any]) -> Worker:
    return Worker(
        instance_id=row["instance_id"],
        service=row["service_name"],
        host=row["host_name"],
        process_id=row["process_id"],
        started_at=row["started_at"],
        heartbeat_at=row["last_heartbeat_at"],
        is_alive=row["is_alive"],
        generation=row["generation"] or "",
        draining=row["draining"] or "",
        running=_running(row),
        ticked_at=_moment(row["ticked_at"]),
        types=_names(row["types"]),
        perspectives=_names(row["perspectives"]),
    )


def _running(row: Mapping[str, Any]) -> Running | None:
    if not row["running_type"]:
        return None
    return Running(
        message_id=_uuid(row["running_id"]),
        type=row["running_type"],
        attempt=cut(row["running_attempt"] or "", 20),
        started_at=_moment(row["running_since"]),
    )


def _uuid(text: str | None) -> UUID | None:
    try:
        return UUID(text) if text else None
    except ValueError:
        return None


def _moment(text: str | None) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text) if text else None
        return moment if moment is None or moment.tzinfo else moment.replace(tzinfo=UTC)
    except ValueError:
        return None


def _names(text: str | None) -> Sequence[str]:
    """Read a list of names, or the names of an object; of anything else none."""
    if not text or len(text) > _MAX_LIST or depth_of(text) > 3:
        return ()
    try:
        value = json.loads(text)
    except ValueError:
        return ()
    return [name for name in value if isinstance(name, str)] if isinstance(value, list | dict) else ()
