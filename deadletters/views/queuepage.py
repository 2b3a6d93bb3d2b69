"""What the pages of the queues show, each region read in a time of its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from django.http import HttpRequest
from django.utils.translation import gettext as _

from deadletters.models import DeadLetter
from deadletters.queries import depths, pauses, queues, regions, replays, workers
from deadletters.queries.depths import Depth
from deadletters.queries.queues import HeldStream
from deadletters.queries.regions import Region
from deadletters.words import access
from deadletters.words.filters import StreamFilter
from queues import stats
from queues.models import SourcePause
from queues.store.live import clock
from queues.words.sources import SOURCES


@dataclass(frozen=True, kw_only=True)
class Card:
    """One source. `total`: how many messages it has, None = not known; `pause`: of the whole source."""

    source: str
    total: int | None
    pause: SourcePause | None
    depth: Region[Depth]


def overview(request: HttpRequest) -> dict[str, Any]:
    """Return what the page of all sources shows."""
    now = clock()
    with regions.reading() as read:
        counted = read("messages of the sources", stats.depths)
        paused = read("pauses", lambda: pauses.shown(now))
        found = {
            source: read(f"depth of {source}", partial(depths.of_source, source, now=now), needs=[paused])
            for source in SOURCES
        }
        known = read("workers", workers.all_workers)
        unhandled = read(
            "unhandled types", lambda: workers.unhandled(known.value or (), now=now), needs=[known, paused]
        )
        down = read("destinations that are down", queues.down)
    return {
        "cards": [_card(source, depth, counted, paused) for source, depth in found.items()],
        "paused": paused,
        "workers": known,
        "alive": sum(worker.is_alive for worker in known.value or ()),
        "unhandled": unhandled,
        "down": down,
        "pausable": choices(),
        "may_triage": request.user.has_perm(access.TRIAGE),
        "now": now,
    }


def _card(source: str, depth: Region[Depth], counted: Region[Mapping[str, int]], paused: Region[pauses.Shown]) -> Card:
    by_counter = counted.value[source] if counted.value else None
    return Card(
        source=source,
        total=depth.value.total(by_counter) if depth.value else by_counter,
        pause=paused.value.whole.get(source) if paused.value else None,
        depth=depth,
    )


def streams(request: HttpRequest, filters: StreamFilter) -> dict[str, Any]:
    """Return what the page of the held streams shows."""
    now = clock()
    with regions.reading() as read:
        region = read("held streams", lambda: queues.held_streams(filters))
        rows = region.value.rows if region.value else ()
        letters = read("letters that hold streams", lambda: queues.holders(rows))
        behind = read("messages behind the letters", lambda: queues.behind(rows))
    return {
        "filters": filters,
        "region": region,
        "page": region.value,
        "rows": [_held(row, letters, behind) for row in rows],
        "letters": letters,
        "behind": behind,
        "may_triage": request.user.has_perm(access.TRIAGE),
        "now": now,
    }


@dataclass(frozen=True, kw_only=True)
class Held:
    """A held stream. `letter`: None where it is gone or was not read; `behind`: as they are counted, None = not."""

    stream: HeldStream
    letter: DeadLetter | None
    behind: int | None

    @property
    def is_capped(self) -> bool:
        return self.behind is not None and self.behind > queues.MAX_BEHIND


def _held(
    stream: HeldStream, letters: Region[Mapping[UUID, DeadLetter]], behind: Region[Mapping[HeldStream, int]]
) -> Held:
    return Held(
        stream=stream,
        letter=letters.value.get(stream.held_by) if letters.value else None,
        behind=behind.value[stream] if behind.value else None,
    )


def destinations(request: HttpRequest) -> dict[str, Any]:
    """Return what the page of the destinations shows."""
    region = regions.load("destinations", queues.destinations)
    return {
        "region": region,
        "destinations": region.value,
        "may_triage": request.user.has_perm(access.TRIAGE),
        "now": clock(),
    }


def processes(*, is_page: bool) -> dict[str, Any]:
    """Return what the page of the workers shows; what the last builds replayed for the whole page only."""
    now = clock()
    with regions.reading() as read:
        region = read("workers", workers.all_workers)
        unhandled = read("unhandled types", lambda: workers.unhandled(region.value or (), now=now), needs=[region])
        builds = read("last builds", replays.last_builds) if is_page else None
    return {
        "region": region,
        "workers": region.value,
        "alive": sum(worker.is_alive for worker in region.value or ()),
        "unhandled": unhandled,
        "builds": builds,
        "now": now,
    }


def choices() -> Sequence[tuple[str, str]]:
    """Return what can be paused, by its value in the form."""
    return [
        ("inbox", _("The whole inbox")),
        ("inbox_type", _("A message type of the inbox")),
        ("outbox", _("The whole outbox")),
        ("destination", _("A destination of the outbox")),
        ("perspectives", _("All perspectives")),
        ("perspective", _("One perspective")),
    ]
