"""How many messages each source has, by what they wait for."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, Min, Q, QuerySet

from deadletters.queries import pauses
from deadletters.queries.live import IS_LET_THROUGH, ORDER, annotated
from queues import stats
from queues.models import CircuitState, Destination, PerspectiveSubscription, SourcePause, Stream
from queues.store.live import clock, planned_for_little
from queues.words.sources import OUTBOX, PERSPECTIVES, SOURCES, STOPPED_UNTIL, Queue

COUNT_CAP = 1_000
LOOKED_AT = 1_000
"""How many messages are counted one by one of those that are due, of those that are delayed, and of the stopped."""
MAX_PERSPECTIVES = 200
MAX_DOWN = 1_000

STATES = ("waiting", "in_flight", "delayed", "held", "paused", "stopped")


@dataclass(frozen=True, kw_only=True)
class Depth:
    """What is in one source: `depth` exactly, and its parts by state, which add up to it unless some are `capped`.

    `capped`: the states of which there may be more. `oldest_due_at`: since when the message has been due that waits
    longest for a worker, and for nothing else; `looked_at`: among how many it was looked for, None = all.
    """

    source: str
    depth: int
    parts: Mapping[str, int]
    capped: Set[str]
    held_streams: int
    oldest_due_at: datetime | None
    looked_at: int | None
    pause: SourcePause | None


@dataclass(frozen=True, kw_only=True)
class _Range:
    """The messages of a range of due times, counted by state; `is_cut`: there are more than were looked at."""

    parts: Mapping[str, int]
    oldest: datetime | None
    is_cut: bool


@dataclass(frozen=True, kw_only=True)
class Brief:
    """What is in one source: `depth` exactly. The others as in Depth."""

    source: str
    depth: int
    oldest_due_at: datetime | None
    looked_at: int | None
    pause: SourcePause | None


def briefly(*, now: datetime) -> Sequence[Brief]:
    """Return how many messages each source has, and since when the one is due that waits longest."""
    whole = stats.depths()
    paused = pauses.of_whole_sources(now)
    return [_brief(source, whole[source], now, paused.get(source)) for source in SOURCES]


def _brief(source: str, depth: int, now: datetime, pause: SourcePause | None) -> Brief:
    counted, oldest = _counted(_due(source, now), source)
    looked_at = LOOKED_AT if sum(counted.values()) == LOOKED_AT else None
    return Brief(source=source, depth=depth, oldest_due_at=oldest, looked_at=looked_at, pause=pause)


def depths() -> Sequence[Depth]:
    """Return what is in each source."""
    with planned_for_little():
        now, whole = clock(), stats.depths()
        paused = pauses.of_whole_sources(now)
        return [_depth(source, whole[source], now, paused.get(source)) for source in SOURCES]


def _depth(source: str, depth: int, now: datetime, pause: SourcePause | None) -> Depth:
    due = _range(source, now, Q(scheduled_for__lte=now))
    later = _range(source, now, Q(scheduled_for__gt=now, scheduled_for__lt=STOPPED_UNTIL))
    stopped = _range(source, now, Q(scheduled_for__gte=STOPPED_UNTIL))
    parts = {state: due.parts[state] + later.parts[state] + stopped.parts[state] for state in STATES}
    capped = _capped(due, later, stopped)
    held = Stream.objects.filter(held_by__isnull=False, queue__in=_queues_of(source))
    return Depth(
        source=source,
        depth=max(depth, sum(parts.values())) if capped else sum(parts.values()),
        parts=parts,
        capped=capped,
        held_streams=held.values("stream_id")[: COUNT_CAP + 1].count(),
        oldest_due_at=due.oldest,
        looked_at=LOOKED_AT if due.is_cut else None,
        pause=pause,
    )


def _capped(due: _Range, later: _Range, stopped: _Range) -> Set[str]:
    """Return the states of which there may be more than were counted."""
    capped = {"waiting", "paused", "held", "in_flight"} if due.is_cut else set()
    capped |= {"delayed", "held"} if later.is_cut else set()
    return capped | ({"stopped"} if stopped.is_cut else set())


def _range(source: str, now: datetime, of: Q) -> _Range:
    rows: QuerySet[Any] = annotated(source, now).filter(of).order_by(*ORDER)
    parts, oldest = _counted(rows, source)
    is_full = sum(parts.values()) == LOOKED_AT
    is_cut = is_full and rows.values("position")[LOOKED_AT : LOOKED_AT + 1].exists()
    return _Range(parts=parts, oldest=oldest, is_cut=is_cut)


def _due(source: str, now: datetime) -> QuerySet[Any]:
    rows: QuerySet[Any] = annotated(source, now).filter(scheduled_for__lte=now).order_by(*ORDER)
    return rows


def _counted(rows: QuerySet[Any], source: str) -> tuple[Mapping[str, int], datetime | None]:
    """Count the first LOOKED_AT rows by state; return it with the due time of the first that waits for a worker."""
    columns = [
        "state",
        "is_behind",
        "held_by",
        "dead_letter_id",
        *ORDER,
        *(["destination"] if source == OUTBOX else []),
    ]
    found = rows.values(*columns)[:LOOKED_AT]
    counts: dict[str, Any] = {state: Count("position", filter=Q(state=state)) for state in STATES}
    read = found.aggregate(**counts, oldest=Min("scheduled_for", filter=_waits_for_a_worker(source)))
    return {state: read[state] for state in STATES}, read["oldest"]


def _waits_for_a_worker(source: str) -> Q:
    """Return which of the waiting messages wait for no other message and for no destination."""
    waits = Q(state="waiting") & (Q(is_behind=False) | IS_LET_THROUGH)
    if source != OUTBOX:
        return waits
    down = Destination.objects.exclude(state=CircuitState.CLOSED).order_by("name").values_list("name", flat=True)
    return waits & (Q(destination=None) | ~Q(destination__in=list(down[:MAX_DOWN])))


def _queues_of(source: str) -> Sequence[str]:
    if source != PERSPECTIVES:
        return [source]
    known = PerspectiveSubscription.objects.order_by("perspective_name").values_list("perspective_name", flat=True)
    return [Queue(source=source, perspective=name).name for name in known.distinct()[:MAX_PERSPECTIVES]]
