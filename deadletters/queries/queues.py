"""Reads of the queues as a whole: the sources, streams that dead letters hold, destinations that are down."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet

from deadletters.models import DeadLetter
from deadletters.queries.live import WORK, pauses_in_force
from deadletters.words.filters import StreamCursor, StreamFilter
from queues import stats
from queues.models import CircuitState, Destination, PauseKind, PerspectiveSubscription, SourcePause, Stream
from queues.store.live import clock, count_in_flight, planned_for_little, rows_behind
from queues.words.sources import PERSPECTIVES, SOURCES, STOPPED_UNTIL, Queue

COUNT_CAP = 1_000
LOOKED_AT = 2_000
"""How many of the messages, and of the streams of each queue, that are due first are looked at for leases."""
MAX_PERSPECTIVES = 200
MAX_BEHIND = 100
"""How many messages behind a letter are counted."""
MAX_DESTINATIONS = 200
MAX_ERROR = 2_000


@dataclass(frozen=True, kw_only=True)
class Depth:
    """What is in one source: `depth` exactly; due, delayed, stopped and in flight, each at most COUNT_CAP + 1.

    `oldest_due_at`: since when the message has been due that waits longest. `pauses` covers the source itself and
    parts of it.
    """

    source: str
    depth: int
    due: int
    delayed: int
    stopped: int
    in_flight: int
    held_streams: int
    oldest_due_at: datetime | None
    pauses: Sequence[SourcePause]

    @property
    def pause(self) -> SourcePause | None:
        """The pause of the whole source."""
        return next((pause for pause in self.pauses if pause.kind == PauseKind.SOURCE), None)


@dataclass(frozen=True, kw_only=True)
class HeldStream:
    """A stream that runs no further until its letter is recovered or a person lets it go.

    `behind`: how many messages wait, at most MAX_BEHIND + 1.
    """

    queue: Queue
    stream_id: UUID
    held_by: UUID
    letter: DeadLetter | None
    behind: int

    @property
    def is_capped(self) -> bool:
        return self.behind > MAX_BEHIND


@dataclass(frozen=True, kw_only=True)
class StreamPage:
    """A page of held streams."""

    rows: Sequence[HeldStream]
    next: StreamCursor | None


def depths() -> Sequence[Depth]:
    """Return what is in each source."""
    with planned_for_little():
        now, pauses, depth = clock(), pauses_in_force(), stats.depths()
        of = {source: [row for row in pauses if row.source == source] for source in SOURCES}
        return [_depth(source, depth[source], now, of[source]) for source in SOURCES]


def _depth(source: str, depth: int, now: datetime, pauses: Sequence[SourcePause]) -> Depth:
    rows: QuerySet[Any] = WORK[source]._default_manager.filter(processed_at=None)
    due = rows.filter(scheduled_for__lte=now)
    first = due.order_by("scheduled_for", "position").values_list("scheduled_for", flat=True).first()
    queues = _queues_of(source)
    return Depth(
        source=source,
        depth=depth,
        due=_capped(due),
        delayed=_capped(rows.filter(scheduled_for__gt=now, scheduled_for__lt=STOPPED_UNTIL)),
        stopped=_capped(rows.filter(scheduled_for__gte=STOPPED_UNTIL)),
        in_flight=count_in_flight(source, queues, LOOKED_AT),
        held_streams=Stream.objects.filter(held_by__isnull=False, queue__in=queues)[: COUNT_CAP + 1].count(),
        oldest_due_at=first,
        pauses=pauses,
    )


def _capped(rows: QuerySet[Any]) -> int:
    return rows.values("position")[: COUNT_CAP + 1].count()


def _queues_of(source: str) -> Sequence[str]:
    if source != PERSPECTIVES:
        return [source]
    known = PerspectiveSubscription.objects.order_by("perspective_name").values_list("perspective_name", flat=True)
    return [Queue(source=source, perspective=name).name for name in known.distinct()[:MAX_PERSPECTIVES]]


def held_streams(filters: StreamFilter) -> StreamPage:
    """Return a page of the streams that dead letters hold, by queue and id."""
    streams: QuerySet[Any] = Stream.objects.filter(held_by__isnull=False)
    if filters.stream_id is not None:
        streams = streams.filter(stream_id=filters.stream_id)
    if filters.after is not None:
        later = Q(queue=filters.after.queue, stream_id__gt=filters.after.id) | Q(queue__gt=filters.after.queue)
        streams = streams.filter(later)
    columns = ("queue", "stream_id", "held_by")
    found = list(streams.order_by("queue", "stream_id").values_list(*columns)[: filters.size + 1])
    shown = found[: filters.size]
    letters = _letters([held_by for _, _, held_by in shown])
    behind = rows_behind([(queue, stream_id) for queue, stream_id, _ in shown], MAX_BEHIND + 1)
    rows = [
        HeldStream(
            queue=Queue.named(queue),
            stream_id=stream_id,
            held_by=held_by,
            letter=letters.get(held_by),
            behind=behind[(queue, stream_id)],
        )
        for queue, stream_id, held_by in shown
    ]
    last = StreamCursor(queue=shown[-1][0], id=shown[-1][1]) if len(found) > filters.size else None
    return StreamPage(rows=rows, next=last)


def _letters(ids: Sequence[UUID]) -> Mapping[UUID, DeadLetter]:
    columns = ("dead_letter_id", "message_type", "error_line", "dead_lettered_at", "recovery_status", "source_id")
    return {letter.pk: letter for letter in DeadLetter.objects.filter(pk__in=ids).only(*columns)}


def destinations() -> Sequence[Destination]:
    """Return the destinations that have a circuit, those that are down first."""
    down = Q(state=CircuitState.CLOSED)
    rows: QuerySet[Any] = Destination.objects.alias(is_up=Exists(Destination.objects.filter(down, pk=OuterRef("pk"))))
    return list(rows.order_by("is_up", "name")[:MAX_DESTINATIONS])
