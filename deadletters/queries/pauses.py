"""Reads of what is paused: by claims' own rule, in the database, however many pauses there are."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet

from queues.models import PauseKind, Source, SourcePause

PAUSED_BY = {Source.INBOX: "message_type", Source.OUTBOX: "destination", Source.PERSPECTIVE: "perspective_name"}
"""Of each source the column whose values can be paused."""

_KINDS = {
    Source.INBOX: PauseKind.TYPE,
    Source.OUTBOX: PauseKind.DESTINATION,
    Source.PERSPECTIVE: PauseKind.TYPE,
}
MAX_SHOWN = 50
COUNT_CAP = 1_000


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What is paused: whole sources by name, the newest MAX_SHOWN parts of sources, and how many more of them.

    `more`: COUNT_CAP + 1 at most.
    """

    whole: Mapping[str, SourcePause]
    parts: Sequence[SourcePause]
    more: int


def in_force(now: datetime) -> QuerySet[SourcePause]:
    """Return the pauses that claims honour at a time."""
    return SourcePause.objects.filter(Q(until=None) | Q(until__gt=now))


def covered(source: str, now: datetime) -> Q:
    """Return which messages of the source a pause covers."""
    mine = in_force(now).filter(source=source)
    column = PAUSED_BY[Source(source)]
    own = mine.filter(kind=_KINDS[Source(source)], value=OuterRef(column))
    return Q(Exists(mine.filter(kind=PauseKind.SOURCE))) | Q(Exists(own))


def of_source(source: str, names: Set[str], now: datetime) -> tuple[SourcePause | None, Mapping[str, SourcePause]]:
    """Return the pause of the whole source, and those of the named types, destinations or perspectives."""
    mine = in_force(now).filter(source=source)
    whole = mine.filter(kind=PauseKind.SOURCE).first()
    parts = mine.filter(kind=_KINDS[Source(source)], value__in=names)
    return whole, {pause.value: pause for pause in parts}


def unpaused(source: str, names: Set[str], now: datetime) -> Set[str]:
    """Return which of the types or perspectives may be claimed."""
    whole, parts = of_source(source, names, now)
    return set() if whole else names - set(parts)


def of_whole_sources(now: datetime) -> Mapping[str, SourcePause]:
    """Return the pauses of whole sources."""
    return {pause.source: pause for pause in in_force(now).filter(kind=PauseKind.SOURCE)}


def shown(now: datetime) -> Shown:
    """Return what is paused, as a page shows it."""
    parts: QuerySet[Any] = in_force(now).exclude(kind=PauseKind.SOURCE).order_by("-paused_at", "-id")
    more = parts.values("pk")[MAX_SHOWN : MAX_SHOWN + COUNT_CAP + 1].count()
    return Shown(whole=of_whole_sources(now), parts=list(parts[:MAX_SHOWN]), more=more)
