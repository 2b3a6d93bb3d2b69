"""The messages of one source that are alive, one of them, and what may be done to it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any
from uuid import UUID

from django.contrib.messages import success
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST, require_safe
from django_htmx.http import HttpResponseClientRedirect, push_url, retarget

from deadletters import triage
from deadletters.queries import live, messages, regions, timeline
from deadletters.queries.messages import Detail
from deadletters.queries.regions import Region
from deadletters.queries.timeline import Timeline
from deadletters.views.access import needs
from deadletters.views.fragments import wants_fragment
from deadletters.views.parameters import filter_of, reason_of, takes
from deadletters.words import access
from deadletters.words.errors import BadChange, BadFilter, NoSuchMessage
from deadletters.words.filters import (
    LIVE_STATES,
    SIZES,
    SOURCES,
    InboxFilter,
    LiveFilter,
    OutboxFilter,
    PerspectiveFilter,
)
from queues.store.live import Started, Stopped

FILTERS: Mapping[str, type[LiveFilter]] = {
    "inbox": InboxFilter,
    "outbox": OutboxFilter,
    "perspectives": PerspectiveFilter,
}
STOP_POLLING = 286

SAID: Mapping[Started | Stopped, tuple[int, Any]] = {
    Started.DUE: (200, gettext_lazy("It is due now.")),
    Started.WAITING: (200, gettext_lazy("It was due already; drainers are woken.")),
    Started.IN_FLIGHT: (409, gettext_lazy("It runs at this moment. Nothing was changed.")),
    Stopped.STOPPED: (200, gettext_lazy("Stopped. It waits until somebody runs it.")),
    Stopped.REVOKED: (
        200,
        gettext_lazy("Stopped. It was claimed: what runs of it now is undone and not counted."),
    ),
    Stopped.ALREADY: (409, gettext_lazy("It was stopped already. Nothing was changed.")),
}
"""What is answered to what became of a message, and with which status."""


@dataclass(frozen=True, kw_only=True)
class ListContext:
    """What the list page shows; `error` instead of a page when the filter cannot be understood.

    `short` names the source in addresses.
    """

    short: str
    source: str
    filters: LiveFilter
    page: live.Page | None
    rows: Sequence[live.Live] = ()
    region: Region[live.Page] | None = None
    around: Region[live.Around] | None = None
    typed: Mapping[str, Any]
    now: datetime
    error: str = ""
    states: Any = tuple(LIVE_STATES.items())
    sizes: Any = SIZES


@needs(access.VIEW)
@require_safe
def message_list(request: HttpRequest, source: str) -> HttpResponse:
    """Show a page of the source's messages; 400 with the reason for a filter that is not understood."""
    template = "_results.html" if wants_fragment(request) else "list.html"
    table = SOURCES[source]
    try:
        filters = filter_of(request, FILTERS[source])
    except BadFilter as exc:
        wrong = ListContext(
            short=source,
            source=table,
            filters=FILTERS[source](),
            page=None,
            typed=request.GET.dict(),
            now=timezone.now(),
            error=str(exc),
        )
        return _render(request, template, vars(wrong), status=400)
    context = ListContext(short=source, source=table, filters=filters, typed=vars(filters), **_page_of(table, filters))
    response = _render(request, template, vars(context))
    if _is_poll(request):
        return response
    here = filters.query(after=str(filters.after or ""))
    return push_url(response, f"{request.path}?{here}" if here else request.path)


def _page_of(table: str, filters: LiveFilter) -> dict[str, Any]:
    """Read a page, and what is known around its rows, which it can be shown without."""
    with regions.reading() as read:
        region = read("messages that are alive", lambda: live.page(table, filters))
        page, now = region.value, region.value.now if region.value else timezone.now()
        rows = page.rows if page else ()
        around = read("what messages wait for", lambda: live.around(table, rows, now))
    shown = live.lives_of(table, rows, around.value or live.NOTHING_AROUND)
    return {"page": page, "rows": shown, "region": region, "around": around, "now": now}


def _is_poll(request: HttpRequest) -> bool:
    """Say whether the list renews itself: no step that a person took, so none for the browser's history."""
    return wants_fragment(request) and request.htmx.trigger == "results"  # type: ignore[attr-defined]


@needs(access.VIEW)
@require_safe
@takes()
def message(request: HttpRequest, source: str, message_id: UUID) -> HttpResponse:
    """Show one message; 404 with what became of it when it is alive no more."""
    return _page(request, source, message_id)


@needs(access.VIEW)
@require_safe
@takes("seen")
def message_state(request: HttpRequest, source: str, message_id: UUID) -> HttpResponse:
    """Return what changes by itself on a message's page; the polling ends when the message is gone."""
    if not wants_fragment(request):
        return redirect("deadletters:live_message", source, message_id)
    try:
        context = _context(request, source, messages.get(SOURCES[source], message_id))
    except NoSuchMessage:
        return _gone(request, source, message_id, status=STOP_POLLING)
    if request.GET.get("seen") == context["seen"]:
        return HttpResponse(status=204)
    return _render(request, "_live.html", context)


@needs(access.RECOVER)
@require_POST
def run_now(request: HttpRequest, source: str, message_id: UUID) -> HttpResponse:
    """Make a message due now; 409 with its fresh state when it runs already."""
    return _acted(request, source, message_id, triage.run_now)


@needs(access.TRIAGE)
@require_POST
def stop(request: HttpRequest, source: str, message_id: UUID) -> HttpResponse:
    """Park a message until somebody runs it; a run of it is undone when it reports."""
    return _acted(request, source, message_id, triage.stop)


@needs(access.TRIAGE)
@require_POST
def dead_letter(request: HttpRequest, source: str, message_id: UUID) -> HttpResponse:
    """Dead-letter a message and show the letter; 422 without a reason, 409 when it is gone."""
    try:
        moved = triage.dead_letter(
            source=SOURCES[source], message_id=message_id, user=request.user, reason=request.POST.get("reason", "")
        )
    except NoSuchMessage:
        return _gone(request, source, message_id, status=409)
    except BadChange as exc:
        return _unreasoned(request, source, message_id, str(exc))
    success(request, _("It is a dead letter now."))
    address = reverse("deadletters:letter", args=[moved.dead_letter_id])
    return HttpResponseClientRedirect(address) if wants_fragment(request) else redirect(address)


def _unreasoned(request: HttpRequest, source: str, message_id: UUID, error: str) -> HttpResponse:
    """Answer a dead-lettering without a reason with its form; 409 when the message is gone."""
    wrong = {"reason_error": error, "reason": request.POST.get("reason", "")}
    if not wants_fragment(request):
        return _page(request, source, message_id, status=422, **wrong)
    try:
        found = messages.get(SOURCES[source], message_id)
    except NoSuchMessage:
        return _gone(request, source, message_id, status=409)
    context = {**_about(request, source, message_id), "live": found.live, **wrong}
    return retarget(_render(request, "_act.html", context, status=422), "#act")


def _acted(request: HttpRequest, source: str, message_id: UUID, act: Callable[..., Started | Stopped]) -> HttpResponse:
    """Do it, and answer with the message as it is now; 409 when it is gone."""
    try:
        became = act(source=SOURCES[source], message_id=message_id, user=request.user, reason=reason_of(request))
        status, said = SAID[became]
    except NoSuchMessage:
        return _gone(request, source, message_id, status=409)
    if wants_fragment(request):
        try:
            context = _context(request, source, messages.get(SOURCES[source], message_id))
        except NoSuchMessage:  # it ran meanwhile
            return _gone(request, source, message_id, status=status)
        return _render(request, "_live.html", {**context, "said": said, "is_done": status == 200}, status=status)
    if status != 200:
        return _page(request, source, message_id, status=status, said=said, reason=reason_of(request))
    success(request, said)
    return redirect("deadletters:live_message", source, message_id)


def _page(request: HttpRequest, source: str, message_id: UUID, *, status: int = 200, **more: Any) -> HttpResponse:
    try:
        context = _context(request, source, messages.get(SOURCES[source], message_id))
    except NoSuchMessage:
        return _gone(request, source, message_id, status=404 if status == 200 else status)
    return _render(request, "message.html", {**context, **more}, status=status)


def _gone(request: HttpRequest, source: str, message_id: UUID, *, status: int) -> HttpResponse:
    """Say what became of a message that is alive no more, as far as anything is known."""
    with regions.reading() as read:
        told = read("timeline of the message", lambda: timeline.of_message(message_id))
        letter = read("letter of the message", lambda: messages.letter_of(SOURCES[source], message_id))
    context = {
        **_about(request, source, message_id),
        **_told(source, message_id, told),
        "letter_id": letter.value,
        "is_unknown": bool(told.trouble or letter.trouble),
        "was_handled": told.value is not None and any(event.kind == "success" for event in told.value.events),
    }
    return _render(request, "_gone.html" if wants_fragment(request) else "gone.html", context, status=status)


def _about(request: HttpRequest, source: str, message_id: UUID) -> dict[str, Any]:
    return {
        "short": source,
        "source": SOURCES[source],
        "message_id": message_id,
        "audited": f"message={message_id}",
        "may_recover": request.user.has_perm(access.RECOVER),
        "may_triage": request.user.has_perm(access.TRIAGE),
        "max_reason": triage.MAX_NOTE,
        "now": timezone.now(),
    }


def _context(request: HttpRequest, source: str, found: Detail) -> dict[str, Any]:
    told = regions.load("timeline of the message", lambda: timeline.of_message(found.live.id))
    return {
        **_about(request, source, found.live.id),
        **_told(source, found.live.id, told),
        "detail": found,
        "live": found.live,
        "seen": _seen(found, len(told.value.events) if told.value else 0),
        "now": found.now,
    }


def _told(source: str, message_id: UUID, told: Region[Timeline]) -> dict[str, Any]:
    return {
        "region": told,
        "timeline": told.value,
        "timeline_title": _("Timeline"),
        "retry": reverse("deadletters:live_message", args=[source, message_id]),
    }


def _seen(found: Detail, events: int) -> str:
    """Return what the page was made of that changes by itself; the lease moves on while nothing happens."""
    one = found.live
    parts = (one.state, one.due_at, one.attempt, one.delays, one.worker_id, one.held_by, one.is_behind, one.pause)
    return sha256(repr((*parts, found.error, events)).encode()).hexdigest()[:16]


def _render(request: HttpRequest, template: str, context: dict[str, Any], *, status: int = 200) -> HttpResponse:
    return render(request, f"deadletters/queues/{template}", context, status=status)
