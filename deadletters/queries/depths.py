"""How many messages each source has, by what they wait for."""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, Min, Q

from deadletters.queries import pauses
from deadletters.queries.live import IS_LET_THROUGH, ORDER, annotated, bare
from queues import stats
from queues.models import CircuitState, Destination, PerspectiveSubscription, SourcePause, Stream
from queues.words.sources import OUTBOX, PERSPECTIVES, SOURCES, STOPPED_UNTIL, Queue

COUNT_CAP = 1_000
LOOKED_AT = 1_000
"""How many messages are counted one by one of those that are due, of those that are delayed, and of the stopped."""
MAX_PERSPECTIVES = 200
MAX_DOWN = 1_000

STATES = ("waiting", "in_flight", "delayed", "held", "paused", "stopped")


@dataclass(frozen=True, kw_only=True)
class Depth:
    """What the messages of one source wait for: `parts` by state, all of them unless some are `capped`.

    `capped`: the states of which there may be more. `oldest_due_at`: since when the message has been due that waits
    longest for a worker, and for nothing else; `looked_at`: among how many it was looked for, None = all.
    """

    parts: Mapping[str, int]
    capped: Set[str]
    held_streams: int
    oldest_due_at: datetime | None
    looked_at: int | None

    def total(self, counted: int | None) -> int | None:
        """Return how many messages there are: those looked at where that were all, else as many as were counted."""
        seen = sum(self.parts.values())
        if not self.capped:
            return seen
        return None if counted is None else max(counted, seen)


@dataclass(frozen=True, kw_only=True)
class _Looked:
    """Messages of a source by state, and the ranges of due times of which there are more than were looked at."""

    parts: Mapping[str, int]
    oldest: datetime | None
    cut: Set[str]


@dataclass(frozen=True, kw_only=True)
class Brief:
    """How many messages one source has, exactly. The others as in Depth."""

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
    looked = _look(source, {"due": _RANGES["due"]}, now)
    looked_at = LOOKED_AT if looked.cut else None
    return Brief(source=source, depth=depth, oldest_due_at=looked.oldest, looked_at=looked_at, pause=pause)


def of_source(source: str, *, now: datetime) -> Depth:
    """Return what the messages of a source wait for."""
    looked = _look(source, _RANGES, now)
    held = Stream.objects.filter(held_by__isnull=False, queue__in=_queues_of(source))
    return Depth(
        parts=looked.parts,
        capped=frozenset[str]().union(*(_STATES_OF[name] for name in looked.cut)),
        held_streams=held.values("stream_id")[: COUNT_CAP + 1].count(),
        oldest_due_at=looked.oldest,
        looked_at=LOOKED_AT if "due" in looked.cut else None,
    )


_RANGES: Mapping[str, Callable[[datetime], Q]] = {
    "due": lambda now: Q(scheduled_for__lte=now),
    "later": lambda now: Q(scheduled_for__gt=now, scheduled_for__lt=STOPPED_UNTIL),
    "stopped": lambda _: Q(scheduled_for__gte=STOPPED_UNTIL),
}
"""Ranges of due times. The first messages of each are counted, all by one statement: compiling it costs most."""
_STATES_OF = {
    "due": frozenset({"waiting", "paused", "held", "in_flight"}),
    "later": frozenset({"delayed", "held"}),
    "stopped": frozenset({"stopped"}),
}
_COLUMNS = ("state", "is_behind", "held_by", "dead_letter_id", *ORDER)


def _look(source: str, ranges: Mapping[str, Callable[[datetime], Q]], now: datetime) -> _Looked:
    of = {name: within(now) for name, within in ranges.items()}
    first, *others = (bare(source).filter(within).order_by(*ORDER).values("pk")[:LOOKED_AT] for within in of.values())
    keys = first.union(*others, all=True) if others else first
    columns = (*_COLUMNS, "destination") if source == OUTBOX else _COLUMNS
    rows = annotated(source, now).filter(pk__in=keys).values(*columns)[: LOOKED_AT * len(of)]
    counts: dict[str, Any] = {state: Count("position", filter=Q(state=state)) for state in STATES}
    sizes: dict[str, Any] = {f"n_{name}": Count("position", filter=within) for name, within in of.items()}
    read = rows.aggregate(**counts, **sizes, oldest=Min("scheduled_for", filter=_waits_for_a_worker(source)))
    full = [name for name in of if read[f"n_{name}"] == LOOKED_AT]
    return _Looked(
        parts={state: read[state] for state in STATES},
        oldest=read["oldest"],
        cut={name for name in full if _are_more(source, of[name])},
    )


def _are_more(source: str, within: Q) -> bool:
    rows = bare(source).filter(within).order_by(*ORDER)
    return rows.values("position")[LOOKED_AT : LOOKED_AT + 1].exists()


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
