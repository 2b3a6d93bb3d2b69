"""Reads of messages that are alive, as the list of a source shows them.

Lists never select bodies or whole error texts. What is due and whose lease runs is told by the database's clock.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Case, CharField, Exists, F, Model, OuterRef, Q, QuerySet, Subquery, TextField, Value, When
from django.db.models.functions import Concat, Left

from deadletters.queries import pauses, workers
from deadletters.queries.workers import Worker
from deadletters.words.filters import LiveFilter, NumberedCursor
from queues import stats
from queues.conf import conf
from queues.models import (
    CircuitState,
    DeliveryLogEntry,
    Destination,
    InboxMessage,
    OutboxMessage,
    PerspectiveEvent,
    Source,
    SourcePause,
    Stream,
)
from queues.store.live import clock
from queues.words.handlers import Handler, registry
from queues.words.outcomes import Budget, used
from queues.words.sources import PERSPECTIVES, STOPPED_UNTIL, Queue

WORK: Mapping[str, type[Model]] = {
    Source.INBOX: InboxMessage,
    Source.OUTBOX: OutboxMessage,
    Source.PERSPECTIVE: PerspectiveEvent,
}

COUNT_CAP = 1_000
SEARCHED = 10_000
"""How many of the messages that are due first are looked through for what no index finds: a type, a state."""
MAX_LINE = 400
"""Characters of an error that a list reads."""

_DUE = ("waiting", "paused")
ORDER = ("scheduled_for", "position")
STREAM_ORDER = ("position",)

IS_LET_THROUGH = Q(dead_letter_id__isnull=False) & Q(held_by__isnull=False) & Q(dead_letter_id=F("held_by"))
"""The message of the letter that holds its stream: it alone may run."""

_OWN = {
    Source.INBOX: ("message_type", "received_at"),
    Source.OUTBOX: ("message_type", "destination", "created_at"),
    Source.PERSPECTIVE: ("perspective_name", "event_id", "created_at"),
}
_FIELDS = (
    *("stream_id", "scheduled_for", "position", "attempts", "delays", "releases", "life", "suspect"),
    *("started_at", "lease_expiry", "instance_id", "max_attempts", "max_delays", "dead_letter_id"),
)


@dataclass(frozen=True, kw_only=True)
class Live:
    """One message that is alive, without its body.

    `name`: its type, or the perspective that is to apply it. `attempt`: the run that is next, or the present one.
    `held_by`: the letter that holds its stream. `is_down`: its destination's circuit is not closed. `why`: the outcome
    that made it wait, "sent" = its sender asked.
    """

    id: UUID
    source: str
    name: str
    destination: str
    state: str
    queue: str
    stream_id: UUID | None
    is_behind: bool
    held_by: UUID | None
    pause: SourcePause | None
    is_down: bool
    due_at: datetime
    position: int
    sent_at: datetime
    started_at: datetime | None
    attempt: int
    max_attempts: int | None
    delays: int
    max_delays: int | None
    error_line: str | None
    why: str
    worker: Worker | None
    worker_id: UUID | None
    lease_until: datetime | None
    dead_letter_id: UUID | None

    @property
    def is_in_flight(self) -> bool:
        return self.state == "in_flight"

    @property
    def is_stopped(self) -> bool:
        return self.due_at >= STOPPED_UNTIL


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page of a list, its rows as `lives_of` takes them.

    `is_capped`: more than `total` match; `cut_short`: only the first SEARCHED were looked at.
    """

    rows: Sequence[Any]
    total: int
    is_capped: bool
    next: NumberedCursor | None
    cut_short: bool
    now: datetime
    searched: int = SEARCHED


@dataclass(frozen=True, kw_only=True)
class _Part:
    """The rows of a page and the first of the next one, and how many match, counted to `counted_to`."""

    rows: Sequence[Any]
    total: int
    counted_to: int


def page(source: str, filters: LiveFilter) -> Page:
    """Return the page that the filter names, what is due first first; of one stream in its order."""
    now = clock()
    looks = bool(_unindexed(filters)) and not _is_exact(filters)
    part = _looked_through(source, filters, now) if looks else _read(source, filters, now)
    last = part.rows[filters.size - 1] if len(part.rows) > filters.size else None
    return Page(
        rows=part.rows[: filters.size],
        total=min(part.total, part.counted_to),
        is_capped=part.total > part.counted_to,
        next=NumberedCursor(at=last.scheduled_for, position=last.position) if last else None,
        cut_short=looks and _is_cut_short(source, filters, now),
        now=now,
    )


# --- rows


def annotated(source: str, now: datetime) -> QuerySet[Any]:
    """Return the messages that are alive, each with its state and what its stream says."""
    rows = bare(source)
    same: dict[str, Any] = {"stream_id": OuterRef("stream_id")}
    own_queue: Any = Value(source)
    if source == PERSPECTIVES:
        same["perspective_name"] = OuterRef("perspective_name")
        own_queue = Concat(Value(f"{source}:"), OuterRef("perspective_name"), output_field=TextField())
    stream = Stream.objects.filter(queue=own_queue, stream_id=OuterRef("stream_id"))
    lean: QuerySet[Any] = rows.only(*_FIELDS, *_OWN[Source(source)])
    annotated: QuerySet[Any] = lean.annotate(
        is_behind=Exists(rows.filter(**same, position__lt=OuterRef("position"))),
        held_by=Subquery(stream.values("held_by")[:1]),
        stream_lease=Subquery(stream.values("lease_expiry")[:1]),
        stream_instance=Subquery(stream.values("instance_id")[:1]),
        error_line=Left("error", MAX_LINE),
        state=_state(source, now),
    )
    return annotated


def _state(source: str, now: datetime) -> Case:
    """Say what a message waits for, each thing before those that matter only without it."""
    is_held = Q(stream_id__isnull=False) & Q(held_by__isnull=False) & ~IS_LET_THROUGH
    # What is cheap comes first, since each name of a stream's column reads the stream again.
    is_of_leased = Q(stream_id__isnull=False) & Q(scheduled_for__lte=now) & Q(stream_lease__gt=now)
    in_flight = Q(lease_expiry__gt=now) | is_of_leased & (Q(held_by=None) & Q(is_behind=False) | IS_LET_THROUGH)
    return Case(
        When(in_flight, then=Value("in_flight")),
        When(scheduled_for__gte=STOPPED_UNTIL, then=Value("stopped")),
        When(is_held, then=Value("held")),
        When(scheduled_for__gt=now, then=Value("delayed")),
        When(pauses.covered(source, now), then=Value("paused")),
        default=Value("waiting"),
        output_field=CharField(),
    )


@dataclass(frozen=True, kw_only=True)
class Around:
    """What is known around the rows of a page: pauses, processes, outcomes of the delayed, destinations down."""

    pause: SourcePause | None
    pauses: Mapping[str, SourcePause]
    running: Mapping[UUID, Worker]
    why: Mapping[UUID, str]
    down: Set[str]


NOTHING_AROUND = Around(pause=None, pauses={}, running={}, why={}, down=frozenset())
"""Stands for what could not be read."""


def around(source: str, rows: Sequence[Any], now: datetime) -> Around:
    """Return what is known around annotated rows."""
    ids = {_instance(row) for row in rows if row.state == "in_flight"}
    names = {getattr(row, pauses.PAUSED_BY[Source(source)]) for row in rows} - {None}
    whole, parts = pauses.of_source(source, names, now)
    return Around(
        pause=whole,
        pauses=parts,
        running=workers.by_id(identity for identity in ids if identity is not None),
        why=_why([row for row in rows if row.state == "delayed"]),
        down=_down({row.destination for row in rows}) if source == Source.OUTBOX else frozenset(),
    )


def lives_of(source: str, rows: Sequence[Any], around: Around) -> Sequence[Live]:
    """Return annotated rows as they are shown."""
    return [_live(source, row, around) for row in rows]


def _down(destinations: Iterable[str | None]) -> Set[str]:
    """Return which destinations messages are not sent to at present."""
    wanted = [name for name in destinations if name]
    open_ones = Destination.objects.filter(name__in=wanted).exclude(state=CircuitState.CLOSED)
    return set(open_ones.values_list("name", flat=True))


def _live(source: str, row: Any, around: Around) -> Live:
    name = row.perspective_name if source == PERSPECTIVES else row.message_type
    destination = getattr(row, "destination", None)
    return Live(
        id=row.pk,
        source=source,
        name=name,
        destination=destination or "",
        state=row.state,
        queue=Queue(source=source, perspective=name if source == PERSPECTIVES else None).name,
        stream_id=row.stream_id,
        is_behind=row.is_behind,
        held_by=row.held_by,
        pause=around.pause or around.pauses.get(getattr(row, pauses.PAUSED_BY[Source(source)])),
        is_down=destination in around.down,
        due_at=row.scheduled_for,
        position=row.position,
        sent_at=row.received_at if source == Source.INBOX else row.created_at,
        error_line=None if row.error_line is None else row.error_line.strip().partition("\n")[0],
        why=around.why.get(row.pk, "sent" if row.attempts == 0 else ""),
        dead_letter_id=row.dead_letter_id,
        **_counted(source, name, row),
        **_lease(row, around),
    )


def _counted(source: str, name: str, row: Any) -> dict[str, Any]:
    """Return how often a message was tried and put off, and how often it may be."""
    budget = _budget(source, name, row)
    charged = used(row.attempts, row.delays, row.releases + row.suspect)
    is_charged = row.state == "in_flight" and row.started_at
    return {
        "attempt": max(charged + (not is_charged), 1),
        "max_attempts": budget.max_attempts,
        "delays": row.delays,
        "max_delays": budget.max_delays,
    }


def _lease(row: Any, around: Around) -> dict[str, Any]:
    """Return who runs a message, since when and until when at most; nothing of one that is not in flight."""
    if row.state != "in_flight":
        return {"started_at": None, "worker": None, "worker_id": None, "lease_until": None}
    worker_id = _instance(row)
    return {
        "started_at": row.started_at,
        "worker": around.running.get(worker_id) if worker_id else None,
        "worker_id": worker_id,
        "lease_until": row.lease_expiry or row.stream_lease,
    }


def _instance(row: Any) -> UUID | None:
    instance: UUID | None = row.instance_id if row.stream_id is None else row.stream_instance
    return instance


def handler_of(source: str, name: str) -> Handler | None:
    """Return what this code runs for a type, or for the events of a perspective; a transport is no handler."""
    if source == PERSPECTIVES:
        projection = registry.projection(name)
        return projection.handler if projection else None
    return registry.get(name) if source == Source.INBOX else None


def _budget(source: str, name: str, row: Any) -> Budget:
    """Return the caps of a message as a drainer of this code would apply them."""
    base, handler = conf().budget(source), handler_of(source, name)
    return conf().clamped(source, handler.budget(base) if handler else base, row.max_attempts, row.max_delays)


def _why(delayed: Sequence[Any]) -> Mapping[UUID, str]:
    """Return the last logged outcome of each message that waits for a time."""
    if not delayed:
        return {}
    log = DeliveryLogEntry.objects.filter(message_id__in=[row.pk for row in delayed])
    last = log.order_by("message_id", "-logged_at", "-id").distinct("message_id")
    lives = {row.pk: row.life for row in delayed}
    found = last.values_list("message_id", "life", "outcome")
    return {message_id: outcome for message_id, life, outcome in found if life == lives[message_id]}


# --- filters


def _read(source: str, filters: LiveFilter, now: datetime) -> _Part:
    """Read a page by an index. All of a source are counted by its counters, others up to a cap."""
    matching = _indexed(annotated(source, now), filters, now).filter(**_unindexed(filters))
    order = STREAM_ORDER if filters.stream_id else ORDER
    rows = list(_after(matching, filters).order_by(*order)[: filters.size + 1])
    if filters.is_empty:
        depth = stats.depths()[source]
        return _Part(rows=rows, total=depth, counted_to=depth)
    total = matching.values("position")[: COUNT_CAP + 1].count()
    return _Part(rows=rows, total=total, counted_to=COUNT_CAP)


def _looked_through(source: str, filters: LiveFilter, now: datetime) -> _Part:
    """Look once through the first SEARCHED for what no index finds, then read the page out of what was found."""
    rows = annotated(source, now)
    first = _indexed(bare(source), filters, now).order_by(*ORDER).values("pk")[:SEARCHED]
    found = rows.filter(**_unindexed(filters), pk__in=first).order_by(*ORDER)
    keys = list(found.values_list("scheduled_for", "position", "pk"))
    after = (filters.after.at, filters.after.position) if filters.after else None
    following = [pk for at, position, pk in keys if after is None or (at, position) > after]
    shown = rows.filter(pk__in=following[: filters.size + 1])
    return _Part(rows=list(shown.order_by(*ORDER)), total=len(keys), counted_to=SEARCHED)


def bare(source: str) -> QuerySet[Any]:
    """Return the messages that are alive, as they are."""
    rows: QuerySet[Any] = WORK[source]._default_manager.filter(processed_at=None, life__gt=0)
    return rows


def _is_exact(filters: LiveFilter) -> bool:
    return filters.message_id is not None or filters.stream_id is not None


def _indexed(rows: QuerySet[Any], filters: LiveFilter, now: datetime) -> QuerySet[Any]:
    if filters.message_id is not None:
        rows = rows.filter(pk=filters.message_id)
    if filters.stream_id is not None:
        rows = rows.filter(stream_id=filters.stream_id)
    if filters.state == "stopped":
        return rows.filter(scheduled_for__gte=STOPPED_UNTIL)
    if filters.state == "delayed":
        return rows.filter(scheduled_for__gt=now, scheduled_for__lt=STOPPED_UNTIL)
    return rows.filter(scheduled_for__lte=now) if filters.state in _DUE else rows


def _unindexed(filters: LiveFilter) -> dict[str, str]:
    """Return what no index finds; what is stopped is a range of the one by which the list is ordered."""
    names = {"type": "message_type", "destination": "destination", "perspective": "perspective_name", "state": "state"}
    given = {column: value for name, column in names.items() if (value := getattr(filters, name, ""))}
    return {column: value for column, value in given.items() if column != "state" or value != "stopped"}


def _is_cut_short(source: str, filters: LiveFilter, now: datetime) -> bool:
    rows = _indexed(bare(source), filters, now).order_by(*ORDER)
    return rows.values("position")[SEARCHED : SEARCHED + 1].exists()


def _after(rows: QuerySet[Any], filters: LiveFilter) -> QuerySet[Any]:
    cursor = filters.after
    if cursor is None:
        return rows
    if filters.stream_id is not None:
        return rows.filter(position__gt=cursor.position)
    later = Q(scheduled_for=cursor.at, position__gt=cursor.position) | Q(scheduled_for__gt=cursor.at)
    return rows.filter(later, scheduled_for__gte=cursor.at)
