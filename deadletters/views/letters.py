"""The list of dead letters."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe
from django_htmx.http import push_url

from deadletters.queries import filternames, letters, totals
from deadletters.queries.regions import Region, load, reading
from deadletters.queries.totals import Total
from deadletters.views import shell
from deadletters.views.access import needs
from deadletters.views.fragments import wants_fragment
from deadletters.views.justdone import NOTHING, JustDone, take
from deadletters.views.parameters import filter_of, filter_once
from deadletters.views.savedviews import Tabs, read_views, tabs_of
from deadletters.words import access
from deadletters.words.errors import BadFilter
from deadletters.words.filters import (
    AGAIN,
    CAUSES,
    DISPOSITIONS,
    MAX_SEARCH,
    SIZES,
    SOURCES,
    STATUSES,
    LetterFilter,
    read_search,
    write_search,
)
from deadletters.words.filters.letters import OTHER_SOURCES
from deadletters.words.filters.tokens import write_values
from queues.words.outcomes import FailureReason

CHOICES: Mapping[str, Any] = {
    "statuses": tuple(STATUSES),
    "sources": (*SOURCES, OTHER_SOURCES),
    "sizes": SIZES,
    "reasons": tuple(reason.name.lower() for reason in FailureReason),
    "causes": tuple(CAUSES),
    "dispositions": tuple(DISPOSITIONS),
    "agains": tuple(AGAIN),
    "max_search": MAX_SEARCH,
}
"""What the form offers."""

RARE = (
    *("owner", "cause", "disposition", "again", "generation", "destination", "perspective"),
    *("stream", "group", "payload"),
)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the address asks for; `error` where it is not understood.

    `typed` fills the form and `search` the box, with what was given even if it was not understood.
    """

    filters: LetterFilter = field(default_factory=LetterFilter)
    typed: Mapping[str, Any]
    search: str
    error: str = ""


@needs(access.VIEW)
@require_safe
def letter_list(request: HttpRequest) -> HttpResponse:
    """Show a page of the list; 400 with the reason for a filter that is not understood.

    A search leads to the address of the filter that it is: each filter has one.
    """
    asked = _asked(request)
    if asked.error:
        return _listed(request, {"page": None, "filters": asked.filters}, asked, status=400)
    if "search" in request.GET and not wants_fragment(request):
        return redirect(_address(request, asked.filters))
    stay = NOTHING if wants_fragment(request) else take(request)
    response = _listed(request, _page(request, asked, stay), asked)
    return push_url(response, _address(request, asked.filters))


@needs(access.VIEW)
@require_safe
def newer(request: HttpRequest) -> HttpResponse:
    """Say how many letters died since the page was made; its rows stay where they are."""
    try:
        filters = filters_of(request)
    except BadFilter as exc:
        return HttpResponse(str(exc), status=400, content_type="text/plain")
    if not wants_fragment(request):
        return redirect(f"{reverse('deadletters:letters')}?{filters.query()}")
    now = timezone.now()
    context = {"filters": filters, "count": letters.count_newer(filters, filters.after, now=now), "now": now}
    return _render(request, "_newer.html", context)


@needs(access.VIEW)
@require_safe
def count(request: HttpRequest) -> HttpResponse:
    """Count to the end what the list counts up to a cap; without htmx the whole list with that count."""
    asked = _asked(request)
    if asked.error:
        return _listed(request, {"page": None, "filters": asked.filters}, asked, status=400)
    filters = asked.filters
    region = load("letters_count", lambda: totals.total(filters, now=timezone.now(), exactly=True))
    if wants_fragment(request):
        return _render(request, "_count.html", {"filters": filters, "counted": region})
    return _listed(request, {**_page(request, asked), "counted": region}, asked)


def _asked(request: HttpRequest) -> Asked:
    given = request.GET.dict()
    if "search" not in given:
        try:
            filters = filters_of(request)
        except BadFilter as exc:
            return Asked(typed=given, search=write_values(given), error=str(exc))
        return Asked(filters=filters, typed=vars(filters), search=write_search(filters))
    search = given["search"]
    try:
        filter_once(request)
        layout = LetterFilter.parse({name: value for name, value in given.items() if name == "size"})
        if others := sorted(set(given) - {"search", "size"}):
            raise BadFilter(f"A search is the whole filter; “{others[0][:40]}” cannot stand beside it.")
        filters = _of_known_source(replace(read_search(search), size=layout.size))
    except BadFilter as exc:
        return Asked(typed={}, search=search[:MAX_SEARCH], error=str(exc))
    return Asked(filters=filters, typed=vars(filters), search=write_search(filters))


def _of_known_source(filters: LetterFilter) -> LetterFilter:
    """Return the filter; raises BadFilter where it names a source that no letter ever had: it is misspelt."""
    source = filters.source
    if source and source not in CHOICES["sources"] and not totals.has_source(source):
        raise BadFilter(f"No letter comes from “{source}”; known are {', '.join(CHOICES['sources'])}.")
    return filters


def _page(request: HttpRequest, asked: Asked, stay: JustDone = NOTHING) -> dict[str, Any]:
    """Read the page, its count and what is above it, each in a time of its own.

    `stay`: letters whose rows stay on it for one look.
    """
    now, filters = timezone.now(), asked.filters
    with reading() as read:
        rows: Region[letters.Page] = read("letters", lambda: letters.page(filters, now=now, kept=stay.ids))
        names = read("names", lambda: filternames.of(filters))
        counted = _whole(rows, filters) or read("letters_count", lambda: totals.total(filters, now=now))
        page = rows.value
        is_empty = page is not None and not page.rows
        saved = read_views(request, read) if _renews_form(request, asked) else None
        any_letter = read("any letter", letters.any_letter_exists).value if is_empty else True
    return {
        "filters": filters,
        "page": page,
        "stay": stay,
        "named": names.value,
        "region": rows,
        "counted": counted,
        "now": now,
        "saved": saved,
        "nothing_ever": any_letter is False,
    }


def _whole(rows: Region[letters.Page], filters: LetterFilter) -> Region[Total] | None:
    """Count the rows of a first page that has no second one; None where there may be more."""
    if rows.value is None or rows.value.next is not None or filters.after is not None:
        return None
    return Region(name="letters_count", value=totals.of_rows(rows.value.matching))


def _listed(request: HttpRequest, shown: dict[str, Any], asked: Asked, *, status: int = 200) -> HttpResponse:
    """Render the list: the whole page, or its results, with the form where that has to follow."""
    is_fragment, renews_form = wants_fragment(request), _renews_form(request, asked)
    context = {
        **CHOICES,
        **shown,
        "typed": asked.typed,
        "search": asked.search,
        "error": asked.error,
        "is_rare": any(asked.typed.get(name) for name in RARE),
        "renews_form": is_fragment and renews_form,
        "views": _tabs(request, shown, asked) if renews_form else None,
        "commands": shell.of_list(request, asked.filters),
    }
    return _render(request, "_results.html" if is_fragment else "list.html", context, status=status)


def _tabs(request: HttpRequest, shown: Mapping[str, Any], asked: Asked) -> Tabs:
    saved = shown.get("saved")
    if saved is None:
        with reading() as read:
            saved = read_views(request, read)
    return tabs_of(request, asked.filters, saved)


def _renews_form(request: HttpRequest, asked: Asked) -> bool:
    return not wants_fragment(request) or not _is_same_filter(request, asked)


def _is_same_filter(request: HttpRequest, asked: Asked) -> bool:
    """Say whether the page is filtered so already: then what somebody is typing into its form is left alone."""
    if "search" in request.GET or asked.error:
        return False
    here = dict(parse_qsl(urlsplit(request.headers.get("HX-Current-URL", "")).query))
    return {name: value for name, value in here.items() if name not in ("after", "size")} == dict(asked.filters.parts())


def _address(request: HttpRequest, filters: LetterFilter) -> str:
    here = filters.query(after=str(filters.after or ""))
    return f"{request.path}?{here}" if here else request.path


def filters_of(request: HttpRequest) -> LetterFilter:
    """Return the filter in the address; raises BadFilter, also for one that is given twice."""
    return _of_known_source(filter_of(request, LetterFilter))


def _render(request: HttpRequest, template: str, context: dict[str, Any], *, status: int = 200) -> HttpResponse:
    return render(request, f"deadletters/letters/{template}", context, status=status)
