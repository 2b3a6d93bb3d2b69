"""The list of failure groups, one group, and its triage."""

from collections.abc import Mapping
from functools import partial
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe
from django_htmx.http import push_url

from deadletters import triage
from deadletters.models import FailureGroup
from deadletters.queries import grouplist, groups, regions, tallies, timeline, trends, visits
from deadletters.store.visits import arrive
from deadletters.views import grouppage, triageforms
from deadletters.views.access import needs
from deadletters.views.errors import no_such
from deadletters.views.fragments import wants_fragment
from deadletters.views.grouppage import FIELDS, notes_context, triage_context
from deadletters.views.groupverbs import version_of
from deadletters.views.parameters import among, filter_of, takes
from deadletters.words import access
from deadletters.words.errors import BadFilter, BadNote, NoSuchGroup
from deadletters.words.filters import (
    GROUP_SORTS,
    GROUP_STATES,
    GROUPED_BY,
    SIZES,
    TALLY_SORTS,
    GroupFilter,
)


@needs(access.VIEW)
@require_safe
def group_list(request: HttpRequest) -> HttpResponse:
    """Show a page of the groups, or of letters by something else; 400 with the reason for a filter not understood."""
    template = "_results.html" if wants_fragment(request) else "list.html"
    context: dict[str, Any] = {"now": timezone.now(), "states": tuple(GROUP_STATES), "sizes": SIZES}
    try:
        filters = filter_of(request, GroupFilter)
    except BadFilter as exc:
        context |= {"filters": GroupFilter(), "typed": request.GET.dict(), "error": str(exc), "tabs": GROUPED_BY}
        return _render(request, template, context, status=400)
    context |= {"filters": filters, "typed": vars(filters), "tabs": GROUPED_BY}
    context |= _groups(request, filters) if filters.is_of_faults else _tallies(filters)
    here = filters.query(after=str(filters.after or ""))
    return push_url(_render(request, template, context), f"{request.path}?{here}" if here else request.path)


def _groups(request: HttpRequest, filters: GroupFilter) -> Mapping[str, Any]:
    """Return the page of the groups and what their filter may be filled with, read in their own time."""
    now, is_page = timezone.now(), not wants_fragment(request)
    visit = arrive(str(request.user.pk)) if is_page else None
    region = regions.load(
        "groups",
        lambda: grouplist.page(filters, now=now, seen=visit.previous_at if visit else visits.since(request.user)),
    )
    page = region.value
    return {
        "region": region,
        "visit": visit,
        "page": page,
        "sorts": tuple(GROUP_SORTS),
        "nothing_ever": page is not None and not page.rows and filters.is_empty and not filters.after,
        "suggestions": page.suggestions if page else grouplist.Suggestions(),
    }


def _tallies(filters: GroupFilter) -> Mapping[str, Any]:
    return {"region": regions.load("letters by value", lambda: tallies.tallies(filters)), "sorts": TALLY_SORTS}


@needs(access.VIEW)
@require_safe
@takes(trend=among(trends.SPANS))
def group(request: HttpRequest, group_id: UUID) -> HttpResponse:
    """Show one group; the id of one that was merged leads to the one that took its place."""
    with regions.reading() as read:
        try:
            found = read.needed(lambda: groups.get(group_id))
        except NoSuchGroup:
            return _no_such_group(request)
        if found.group_id != group_id:
            return redirect("deadletters:group", found.group_id)
        context = grouppage.context(request, found, read)
    return _render(request, "group.html", context)


@needs(access.VIEW)
@require_safe
@takes()
def by_fingerprint(request: HttpRequest, fingerprint: str) -> HttpResponse:
    """Lead from a fingerprint to its group."""
    found = groups.with_fingerprint(fingerprint.lower()) if "\x00" not in fingerprint else None
    return redirect("deadletters:group", found.group_id) if found else _no_such_group(request)


@needs(access.TRIAGE)
@require_POST
def triage_group(request: HttpRequest, group_id: UUID) -> HttpResponse:
    """Save the triage form: 422 with what was typed when it cannot be kept, 409 when somebody was first."""
    try:
        found = groups.get(group_id)
        change = partial(triage.change_group, group_id=found.group_id, row_version=version_of(request.POST))
        answer = triageforms.answer(request, found, FIELDS, change=change, fresh=partial(groups.get, group_id))
    except NoSuchGroup:
        return _no_such_group(request)
    if answer.form:
        return _refused(request, answer)
    if wants_fragment(request):
        fresh = groups.get(found.group_id)
        return _render(request, "_triaged.html", {**_triage_context(request, fresh), "form_said": answer.said})
    messages.success(request, answer.said)
    return redirect("deadletters:group", found.group_id)


@needs(access.TRIAGE)
@require_POST
def add_note(request: HttpRequest, group_id: UUID) -> HttpResponse:
    """Write a note on a group; 422 with what was typed when it cannot be kept."""
    text = request.POST.get("text", "")
    wrong: dict[str, str] = {}
    try:
        found = groups.get(group_id)
        triage.add_note(group_id=found.group_id, text=text, user=request.user)
    except NoSuchGroup:
        return _no_such_group(request)
    except BadNote as exc:
        wrong = {"note_error": str(exc), "note_text": text}
    status = 422 if wrong else 200
    if wants_fragment(request):
        context = {**notes_context(request, found, notes=groups.notes_of(found)), **wrong}
        return render(request, "deadletters/_notes.html", context, status=status)
    if wrong:
        return _page(request, found, status=status, **wrong)
    messages.success(request, _("The note is written."))
    return redirect("deadletters:group", found.group_id)


def _triage_context(request: HttpRequest, found: FailureGroup) -> dict[str, Any]:
    return triage_context(request, found, timeline_of=timeline.of_group(found.group_id))


def _refused(request: HttpRequest, answer: triageforms.Answer[FailureGroup]) -> HttpResponse:
    if wants_fragment(request):
        context = {**_triage_context(request, answer.row), **answer.again}
        return _render(request, "_triage.html", context, status=answer.status)
    return _page(request, answer.row, status=answer.status, **answer.again)


def _page(request: HttpRequest, found: FailureGroup, *, status: int = 200, **more: Any) -> HttpResponse:
    with regions.reading() as read:
        context = grouppage.context(request, found, read)
    return _render(request, "group.html", {**context, **more}, status=status)


def _no_such_group(request: HttpRequest) -> HttpResponse:
    return no_such(request, "deadletters/groups/missing.html", _("There is no such group."))


def _render(request: HttpRequest, template: str, context: dict[str, Any], *, status: int = 200) -> HttpResponse:
    return render(request, f"deadletters/groups/{template}", context, status=status)
