"""The overview: what is broken, what it touches, what is being done about it. Each region is read by itself."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from deadletters.queries import depths, regions, trends, visits
from deadletters.queries import overview as queries
from deadletters.queries.regions import Region, Trouble
from deadletters.store.visits import arrive
from deadletters.views.access import needs
from deadletters.views.fragments import wants_fragment
from deadletters.views.parameters import among, takes
from deadletters.words import access

SHORTEST = next(iter(trends.SPANS))


class Asked:
    """What the regions are read for: a person, at a time."""

    def __init__(self, request: HttpRequest, now: datetime, **known: Any) -> None:
        self.user, self.now = request.user, now
        self.span = trends.SPANS.get(request.GET.get("trend", ""), trends.SPANS[SHORTEST])
        vars(self).update(known)

    @cached_property
    def since(self) -> datetime | None:
        """When the person's visit before this one ended."""
        return visits.since(self.user)


@dataclass(frozen=True, kw_only=True)
class Part:
    """A region of the overview: what it is called and how it is read."""

    name: str
    title: str | Promise
    read: Callable[[Asked], Any]

    @property
    def template(self) -> str:
        return f"deadletters/overview/_{self.name}.html"

    @property
    def address(self) -> str:
        return reverse("deadletters:region", args=[self.name])


FIRST: Mapping[str, Part] = {
    part.name: part
    for part in (
        Part(name="shift", title=_("Since your last visit"), read=lambda asked: queries.shift(asked.since)),
        Part(name="sources", title=_("Sources"), read=lambda _: queries.sources()),
        Part(name="matrix", title=_("Open by reason and age"), read=lambda asked: queries.matrix(now=asked.now)),
        Part(name="groups", title=_("Top groups"), read=lambda asked: queries.top_groups(asked.since, now=asked.now)),
    )
}
"""What comes with the page."""

LATER: Mapping[str, Part] = {
    part.name: part
    for part in (
        Part(name="deaths", title=_("Deaths"), read=lambda asked: trends.of_all(asked.span, now=asked.now)),
        Part(name="queues", title=_("Queues"), read=lambda asked: depths.briefly(now=asked.now)),
        Part(name="runs", title=_("Running recoveries"), read=lambda _: queries.unfinished_runs()),
        Part(name="subjects", title=_("Top subjects"), read=lambda _: queries.top_subjects()),
        Part(name="builds", title=_("Last builds"), read=lambda _: queries.last_builds()),
        Part(
            name="others",
            title=_("What others did since"),
            read=lambda asked: queries.actions_of_others(asked.since, asked.user),
        ),
    )
}
"""What is asked for when the page is there: one request each, so that none waits for another."""

PARTS = {**FIRST, **LATER}


@needs(access.VIEW)
@require_safe
@takes(trend=among(trends.SPANS))
def overview(request: HttpRequest) -> HttpResponse:
    """Show the overview; that somebody looks is noted."""
    visit = arrive(str(request.user.pk))
    asked = Asked(request, timezone.now(), since=visit.previous_at)
    with regions.reading() as read:
        found = {name: read(name, partial(part.read, asked)) for name, part in FIRST.items()}
    if not visit.is_known:
        found["shift"] = Region(name="shift", value=None, trouble=Trouble.SLOW)
    shown = {name: _shown(part, found.get(name), asked) for name, part in PARTS.items()}
    return render(request, "deadletters/overview/overview.html", {"parts": shown, "asked": asked, "now": asked.now})


@needs(access.VIEW)
@require_safe
@takes(trend=among(trends.SPANS))
def region(request: HttpRequest, name: str) -> HttpResponse:
    """Show one region: alone for htmx, else as a page."""
    part, asked = PARTS[name], Asked(request, timezone.now())
    shown = _shown(part, regions.load(name, partial(part.read, asked)), asked)
    template = "_region.html" if wants_fragment(request) else "region.html"
    context = {"part": shown, "asked": asked, "now": asked.now}
    return render(request, f"deadletters/overview/{template}", context)


def _shown(part: Part, found: Region[Any] | None, asked: Asked) -> Mapping[str, Any]:
    """Return what the template of a region needs; `found` is None for one that is not read yet."""
    is_trend = part.name == "deaths" and asked.span.name != SHORTEST
    return {
        "name": part.name,
        "title": part.title,
        "template": part.template,
        "address": f"{part.address}?trend={asked.span.name}" if is_trend else part.address,
        "region": found,
        "value": found.value if found else None,
    }
