"""Reads of the queues as a whole: streams that dead letters hold, destinations that are down."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet

from deadletters.models import DeadLetter
from deadletters.words.filters import StreamCursor, StreamFilter
from queues.models import CircuitState, Destination, Stream
from queues.store.live import rows_behind
from queues.words.sources import Queue

MAX_BEHIND = 100
"""How many messages behind a letter are counted."""
MAX_DESTINATIONS = 200
MAX_ERROR = 2_000


@dataclass(frozen=True, kw_only=True)
class HeldStream:
    """A stream that runs no further until its letter is recovered or a person lets it go."""

    queue: Queue
    stream_id: UUID
    held_by: UUID


@dataclass(frozen=True, kw_only=True)
class StreamPage:
    """A page of held streams."""

    rows: Sequence[HeldStream]
    next: StreamCursor | None


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
    rows = [
        HeldStream(queue=Queue.named(queue), stream_id=stream_id, held_by=held_by)
        for queue, stream_id, held_by in shown
    ]
    last = StreamCursor(queue=shown[-1][0], id=shown[-1][1]) if len(found) > filters.size else None
    return StreamPage(rows=rows, next=last)


def holders(streams: Sequence[HeldStream]) -> Mapping[UUID, DeadLetter]:
    """Return the letters that hold streams, by their ids; one that is gone is missing."""
    columns = ("dead_letter_id", "message_type", "error_line", "dead_lettered_at", "recovery_status", "source_id")
    ids = {stream.held_by for stream in streams}
    return {letter.pk: letter for letter in DeadLetter.objects.filter(pk__in=ids).only(*columns)}


def behind(streams: Sequence[HeldStream]) -> Mapping[HeldStream, int]:
    """Return how many messages wait in each stream, MAX_BEHIND + 1 at most."""
    counted = rows_behind([(stream.queue.name, stream.stream_id) for stream in streams], MAX_BEHIND + 1)
    return {stream: counted[(stream.queue.name, stream.stream_id)] for stream in streams}


def destinations() -> Sequence[Destination]:
    """Return the destinations that have a circuit, those that are down first."""
    down = Q(state=CircuitState.CLOSED)
    rows: QuerySet[Any] = Destination.objects.alias(is_up=Exists(Destination.objects.filter(down, pk=OuterRef("pk"))))
    return list(rows.order_by("is_up", "name")[:MAX_DESTINATIONS])


def down() -> Sequence[str]:
    """Return the destinations that messages are not sent to at present, MAX_DESTINATIONS at most."""
    rows = Destination.objects.exclude(state=CircuitState.CLOSED).order_by("name")
    return list(rows.values_list("name", flat=True)[:MAX_DESTINATIONS])
