"""The list of dead letters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_safe
from django_htmx.http import push_url

from deadletters.queries import letters
from deadletters.views import shell
from deadletters.views.access import needs, wants_fragment
from deadletters.views.parameters import filter_of
from deadletters.words import access
from deadletters.words.errors import BadFilter
from deadletters.words.filters import CAUSES, DISPOSITIONS, SIZES, SOURCES, STATUSES, LetterFilter
from queues.words.outcomes import FailureReason


@dataclass(frozen=True, kw_only=True)
class ListContext:
    """What the list page shows; `error` instead of a page when the filter cannot be understood.

    `typed` fills the form, with what was given even if it was not understood.
    """

    filters: LetterFilter
    page: letters.Page | None
    typed: Mapping[str, Any]
    now: datetime
    error: str = ""
    nothing_ever: bool = False
    types: Any = ()
    is_rare: bool = False
    commands: Sequence[str] = ()
    statuses: Any = tuple(STATUSES)
    sources: Any = tuple(SOURCES)
    sizes: Any = SIZES
    reasons: Any = tuple(reason.name.lower() for reason in FailureReason)
    causes: Any = tuple(CAUSES)
    dispositions: Any = tuple(DISPOSITIONS)


RARE = ("owner", "cause", "disposition", "generation", "destination", "perspective", "stream", "group", "payload")


@needs(access.VIEW)
@require_safe
def home(_request: HttpRequest) -> HttpResponse:
    """Send the reader to the list."""
    return redirect("deadletters:letters")


@needs(access.VIEW)
@require_safe
def letter_list(request: HttpRequest) -> HttpResponse:
    """Show a page of the list; 400 with the reason for a filter that is not understood."""
    now = timezone.now()
    template = "_results.html" if wants_fragment(request) else "list.html"
    try:
        filters = filters_of(request)
    except BadFilter as exc:
        context = ListContext(filters=LetterFilter(), page=None, typed=request.GET.dict(), now=now, error=str(exc))
        return _render(request, template, vars(context), status=400)
    page = letters.page(filters, now=now)
    nothing_ever = not page.rows and not letters.any_letter_exists()
    types = letters.types_in_use() if template == "list.html" else ()
    context = ListContext(
        filters=filters,
        page=page,
        typed=vars(filters),
        now=now,
        nothing_ever=nothing_ever,
        types=types,
        is_rare=any(getattr(filters, name) for name in RARE),
        commands=shell.of_list(request, filters),
    )
    response = _render(request, template, vars(context))
    here = filters.query(after=str(filters.after or ""))
    return push_url(response, f"{request.path}?{here}" if here else request.path)


@needs(access.VIEW)
@require_safe
def newer(request: HttpRequest) -> HttpResponse:
    """Say how many letters died since the page was made; its rows stay where they are."""
    try:
        filters = filters_of(request)
    except BadFilter as exc:
        return HttpResponse(str(exc), status=400, content_type="text/plain")
    now = timezone.now()
    context = {"filters": filters, "count": letters.count_newer(filters, filters.after, now=now), "now": now}
    return _render(request, "_newer.html", context)


def filters_of(request: HttpRequest) -> LetterFilter:
    """Return the filter in the address; raises BadFilter, also for one that is given twice."""
    return filter_of(request, LetterFilter)


def _render(request: HttpRequest, template: str, context: dict[str, Any], *, status: int = 200) -> HttpResponse:
    return render(request, f"deadletters/letters/{template}", context, status=status)
