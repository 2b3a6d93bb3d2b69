"""Reads of messages that are alive: a page of a source's list, and one message.

Lists never select bodies or whole error texts. What is due and whose lease runs is told by the database's clock.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Case, CharField, Exists, F, Model, OuterRef, Q, QuerySet, Subquery, TextField, Value, When
from django.db.models.functions import Cast, Concat, Left

from deadletters.models import DeadLetter
from deadletters.queries import workers
from deadletters.queries.workers import Worker
from deadletters.words.errors import NoSuchMessage
from deadletters.words.filters import DueCursor, LiveFilter
from queues.conf import conf
from queues.models import (
    DeliveryLogEntry,
    InboxMessage,
    OutboxMessage,
    PauseKind,
    PerspectiveEvent,
    Source,
    SourcePause,
    StoredEvent,
    Stream,
)
from queues.store.live import clock
from queues.words.handlers import registry
from queues.words.outcomes import used
from queues.words.sources import PERSPECTIVES, STOPPED_UNTIL, Queue

WORK: Mapping[str, type[Model]] = {
    Source.INBOX: InboxMessage,
    Source.OUTBOX: OutboxMessage,
    Source.PERSPECTIVE: PerspectiveEvent,
}

COUNT_CAP = 10_000
SEARCHED = 20_000
"""How many of the messages that are due first are looked through for what no index finds: a type, a state."""
MAX_LINE = 400
"""Characters of an error that a list reads."""
MAX_PAUSES = 1_000

ORDER = ("scheduled_for", "position")
STREAM_ORDER = ("position",)

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
    `held_by`: the letter that holds its stream. `why`: the outcome that made it wait, "sent" = its sender asked.
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
    """A page of a list. `total` is at most COUNT_CAP + 1; `cut_short`: only the first SEARCHED were looked at."""

    rows: Sequence[Live]
    total: int
    next: DueCursor | None
    cut_short: bool
    now: datetime
    searched: int = SEARCHED

    @property
    def is_capped(self) -> bool:
        return self.total > COUNT_CAP


@dataclass(frozen=True, kw_only=True)
class Detail:
    """One message with its body, as JSON texts; the failure's structure too."""

    live: Live
    error: str | None
    failure_detail: str | None
    message_type: str
    event_data: str | None
    metadata: str
    body_bytes: int | None
    now: datetime


def page(source: str, filters: LiveFilter) -> Page:
    """Return the page that the filter names, what is due first first; of one stream in its order."""
    now, pauses = clock(), pauses_in_force()
    matching = _matching(source, filters, now, pauses)
    order = STREAM_ORDER if filters.stream_id else ORDER
    rows = list(_after(matching, filters).order_by(*order)[: filters.size + 1])
    shown = rows[: filters.size]
    return Page(
        rows=_lives(source, shown, pauses),
        total=matching.values("pk")[: COUNT_CAP + 1].count(),
        next=DueCursor(at=shown[-1].scheduled_for, position=shown[-1].position) if len(rows) > filters.size else None,
        cut_short=_is_cut_short(source, filters, now),
        now=now,
    )


def get(source: str, message_id: UUID) -> Detail:
    """Return one message; raises NoSuchMessage."""
    now, pauses = clock(), pauses_in_force()
    whole = _annotated(source, now, pauses).filter(pk=message_id)
    found = whole.annotate(whole_error=F("error"), failure_text=Cast("failure_detail", TextField())).first()
    if found is None:
        raise NoSuchMessage(str(message_id))
    (live,) = _lives(source, [found], pauses)
    body = _body(source, found)
    return Detail(live=live, error=found.whole_error, failure_detail=found.failure_text, now=now, **body)


def letter_of(source: str, message_id: UUID) -> UUID | None:
    """Return the dead letter that a message became, if it did."""
    letters = DeadLetter.objects.filter(source_table=source, source_id=message_id, superseded_by=None)
    return letters.values_list("dead_letter_id", flat=True).first()


def pauses_in_force(source: str | None = None) -> Sequence[SourcePause]:
    """Return the pauses that claims honour now, the newest first."""
    pauses = SourcePause.objects.filter(Q(until=None) | Q(until__gt=clock()))
    return list((pauses.filter(source=source) if source else pauses).order_by("-paused_at", "-id")[:MAX_PAUSES])


# --- rows


def _annotated(source: str, now: datetime, pauses: Sequence[SourcePause]) -> QuerySet[Any]:
    """Return the messages that are alive, each with its state and what its stream says."""
    rows: QuerySet[Any] = WORK[source]._default_manager.filter(processed_at=None)
    same: dict[str, Any] = {"stream_id": OuterRef("stream_id")}
    own_queue: Any = Value(source)
    if source == PERSPECTIVES:
        same["perspective_name"] = OuterRef("perspective_name")
        own_queue = Concat(Value(f"{source}:"), OuterRef("perspective_name"), output_field=TextField())
    stream = Stream.objects.filter(queue=own_queue, stream_id=OuterRef("stream_id"))
    lean: QuerySet[Any] = rows.only(*_FIELDS, *_OWN[Source(source)])
    annotated: QuerySet[Any] = lean.annotate(
        is_behind=Exists(rows.filter(**same, position__lt=OuterRef("position"))),
        held_by=Subquery(stream.values("held_by")),
        stream_lease=Subquery(stream.values("lease_expiry")),
        stream_instance=Subquery(stream.values("instance_id")),
        error_line=Left("error", MAX_LINE),
        state=_state(now, _covered(source, pauses)),
    )
    return annotated


def _state(now: datetime, covered: Q) -> Case:
    is_held = Q(held_by__isnull=False) & (Q(dead_letter_id=None) | ~Q(dead_letter_id=F("held_by")))
    in_flight = Q(lease_expiry__gt=now) | Q(stream_lease__gt=now, is_behind=False)
    return Case(
        When(in_flight, then=Value("in_flight")),
        When(scheduled_for__gte=STOPPED_UNTIL, then=Value("stopped")),
        When(is_held, then=Value("held")),
        When(covered, then=Value("paused")),
        When(scheduled_for__gt=now, then=Value("delayed")),
        default=Value("waiting"),
        output_field=CharField(),
    )


def _covered(source: str, pauses: Sequence[SourcePause]) -> Q:
    """Return which messages of the source a pause covers."""
    mine = [pause for pause in pauses if pause.source == source]
    if any(pause.kind == PauseKind.SOURCE for pause in mine):
        return Q(position__isnull=False)
    return Q(**{f"{_paused_by(source)}__in": [pause.value for pause in mine]}) if mine else Q(pk__in=[])


def _paused_by(source: str) -> str:
    columns = {Source.INBOX: "message_type", Source.OUTBOX: "destination", Source.PERSPECTIVE: "perspective_name"}
    return columns[Source(source)]


def _lives(source: str, rows: Sequence[Any], pauses: Sequence[SourcePause]) -> Sequence[Live]:
    ids = {_instance(row) for row in rows if row.state == "in_flight"}
    running = workers.by_id(identity for identity in ids if identity is not None)
    why = _why([row for row in rows if row.state == "delayed"])
    return [_live(source, row, pauses, running, why) for row in rows]


def _live(
    source: str, row: Any, pauses: Sequence[SourcePause], running: Mapping[UUID, Worker], why: Mapping[UUID, str]
) -> Live:
    name = row.perspective_name if source == PERSPECTIVES else row.message_type
    in_flight = row.state == "in_flight"
    worker_id = _instance(row) if in_flight else None
    budget = _budget(source, name, row)
    charged = used(row.attempts, row.delays, row.releases + row.suspect)
    return Live(
        id=row.pk,
        source=source,
        name=name,
        destination=getattr(row, "destination", None) or "",
        state=row.state,
        queue=Queue(source=source, perspective=name if source == PERSPECTIVES else None).name,
        stream_id=row.stream_id,
        is_behind=row.is_behind,
        held_by=row.held_by,
        pause=next((pause for pause in pauses if _covers(pause, source, row)), None),
        due_at=row.scheduled_for,
        position=row.position,
        sent_at=row.received_at if source == Source.INBOX else row.created_at,
        started_at=row.started_at if in_flight else None,
        attempt=max(charged + (not (in_flight and row.started_at)), 1),
        max_attempts=budget.max_attempts,
        delays=row.delays,
        max_delays=budget.max_delays,
        error_line=None if row.error_line is None else row.error_line.strip().partition("\n")[0],
        why=why.get(row.pk, "sent" if row.attempts == 0 else ""),
        worker=running.get(worker_id) if worker_id else None,
        worker_id=worker_id,
        lease_until=(row.lease_expiry or row.stream_lease) if in_flight else None,
        dead_letter_id=row.dead_letter_id,
    )


def _instance(row: Any) -> UUID | None:
    instance: UUID | None = row.instance_id if row.stream_id is None else row.stream_instance
    return instance


def _covers(pause: SourcePause, source: str, row: Any) -> bool:
    if pause.source != source:
        return False
    return pause.kind == PauseKind.SOURCE or pause.value == getattr(row, _paused_by(source))


def _budget(source: str, name: str, row: Any) -> Any:
    """Return the caps of a message as a drainer of this code would apply them."""
    base = conf().budget(source)
    projection = registry.projection(name) if source == PERSPECTIVES else None
    handler = projection.handler if projection else registry.get(name) if source == Source.INBOX else None
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


def _body(source: str, row: Any) -> dict[str, Any]:
    """Return the body of a message; an event's is in the event store."""
    if source == PERSPECTIVES:
        event = StoredEvent.objects.defer("envelope_raw").filter(event_id=row.event_id).first()
        if event is None:
            return {"message_type": "", "event_data": None, "metadata": "{}", "body_bytes": None}
        kept, message_type = event, event.event_type
    else:
        kept, message_type = row, row.message_type  # its columns are read when they are asked for
    return {
        "message_type": message_type,
        "event_data": kept.event_data,
        "metadata": kept.metadata,
        "body_bytes": kept.envelope_bytes,
    }


# --- filters


def _matching(source: str, filters: LiveFilter, now: datetime, pauses: Sequence[SourcePause]) -> QuerySet[Any]:
    """Return the matching messages; look through the first SEARCHED for what no index finds."""
    rows = _annotated(source, now, pauses)
    conditions = _unindexed(filters)
    indexed = _indexed(rows, filters, now)
    if not conditions or _is_exact(filters):
        return indexed.filter(**conditions)
    bare = _indexed(WORK[source]._default_manager.filter(processed_at=None), filters, now)
    return rows.filter(**conditions, pk__in=bare.order_by(*ORDER).values("pk")[:SEARCHED])


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
    return rows.filter(scheduled_for__lte=now) if filters.state in ("waiting", "in_flight") else rows


def _unindexed(filters: LiveFilter) -> dict[str, str]:
    names = {"type": "message_type", "destination": "destination", "perspective": "perspective_name", "state": "state"}
    return {column: value for name, column in names.items() if (value := getattr(filters, name, ""))}


def _is_cut_short(source: str, filters: LiveFilter, now: datetime) -> bool:
    if not _unindexed(filters) or _is_exact(filters):
        return False
    rows = _indexed(WORK[source]._default_manager.filter(processed_at=None), filters, now)
    return rows.order_by(*ORDER)[SEARCHED : SEARCHED + 1].exists()


def _after(rows: QuerySet[Any], filters: LiveFilter) -> QuerySet[Any]:
    cursor = filters.after
    if cursor is None:
        return rows
    if filters.stream_id is not None:
        return rows.filter(position__gt=cursor.position)
    later = Q(scheduled_for=cursor.at, position__gt=cursor.position) | Q(scheduled_for__gt=cursor.at)
    return rows.filter(later, scheduled_for__gte=cursor.at)
