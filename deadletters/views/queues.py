"""The queues as a whole: sources and their pauses, held streams, destinations, workers."""

from collections.abc import Mapping
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
from deadletters.views import queuepage
from deadletters.views.access import needs
from deadletters.views.fragments import wants_fragment
from deadletters.views.parameters import filter_of, moment_of, takes
from deadletters.words import access
from deadletters.words.errors import AlreadyPaused, BadChange, BadFilter, NoSuchDestination, NoSuchPause
from deadletters.words.filters import SOURCES, StreamFilter
from queues.models import PauseKind
from queues.words.sources import Queue
from queues.words.text import storable

PAUSABLE: Mapping[str, tuple[str, str]] = {
    "inbox": (SOURCES["inbox"], PauseKind.SOURCE),
    "inbox_type": (SOURCES["inbox"], PauseKind.TYPE),
    "outbox": (SOURCES["outbox"], PauseKind.SOURCE),
    "destination": (SOURCES["outbox"], PauseKind.DESTINATION),
    "perspectives": (SOURCES["perspectives"], PauseKind.SOURCE),
    "perspective": (SOURCES["perspectives"], PauseKind.TYPE),
}
"""What the form offers, by its values."""
MAX_QUEUE = 1_000
"""Characters of a queue's name that are looked for."""
FORM = ("what", "value", "until", "reason")


@needs(access.VIEW)
@require_safe
@takes()
def overview(request: HttpRequest) -> HttpResponse:
    """Show the sources with what is in them, and the pauses in force."""
    template = "_overview.html" if wants_fragment(request) else "overview.html"
    return _render(request, template, queuepage.overview(request))


@needs(access.TRIAGE)
@require_POST
def pause(request: HttpRequest) -> HttpResponse:
    """Pause what the form names: 422 when it cannot be, 409 with the pause in force when it is paused already."""
    typed = {name: request.POST.get(name, "").strip() for name in FORM}
    try:
        source, kind = _pausable(typed["what"])
        made = triage.pause(
            source=source,
            kind=kind,
            value=typed["value"],
            user=request.user,
            reason=typed["reason"],
            until=moment_of("until", typed["until"]),
        )
    except BadChange as exc:
        return _paused(request, 422, form=typed, errors={exc.field: str(exc)})
    except AlreadyPaused:
        return _paused(request, 409, said=_("It is paused already. Nothing was changed."))
    said = _("Paused. What runs now ends; nothing more is claimed.")
    return _paused(request, 200, said=said, made=made)


@needs(access.TRIAGE)
@require_POST
def resume(request: HttpRequest, pause_id: int) -> HttpResponse:
    """End a pause; 409 when somebody has ended it."""
    try:
        triage.resume(pause_id=pause_id, user=request.user, reason=request.POST.get("reason", ""))
    except NoSuchPause:
        return _overview_again(request, 409, _("Somebody has resumed it already."))
    return _overview_again(request, 200, _("Resumed."))


@needs(access.VIEW)
@require_safe
def held_streams(request: HttpRequest) -> HttpResponse:
    """Show the streams that dead letters hold; 400 with the reason for a filter that is not understood."""
    template = "_streams.html" if wants_fragment(request) else "streams.html"
    try:
        filters = filter_of(request, StreamFilter)
    except BadFilter as exc:
        context = {"filters": StreamFilter(), "typed": request.GET.dict(), "error": str(exc), "now": timezone.now()}
        return _render(request, template, context, status=400)
    context = {**queuepage.streams(request, filters), "typed": vars(filters)}
    here = filters.query(after=str(filters.after or ""))
    return push_url(_render(request, template, context), f"{request.path}?{here}" if here else request.path)


@needs(access.TRIAGE)
@require_POST
def let_stream_go(request: HttpRequest) -> HttpResponse:
    """Let a stream go on past its dead letter; 409 when that letter does not hold it (any more)."""
    queue, stream, letter = (request.POST.get(name, "") for name in ("queue", "stream", "letter"))
    queue = storable(queue)[:MAX_QUEUE]
    try:
        stream_id, held_by = UUID(stream), UUID(letter)
    except ValueError:
        return HttpResponse(_("There is no such stream."), status=400, content_type="text/plain")
    gone = triage.let_stream_go(
        queue=queue,
        stream_id=stream_id,
        held_by=held_by,
        user=request.user,
        reason=request.POST.get("reason", ""),
    )
    said = _("The stream goes on.") if gone else _("That letter does not hold it any more. Nothing was changed.")
    status = 200 if gone else 409
    if wants_fragment(request):
        context = {"queue": Queue.named(queue), "stream_id": stream_id, "held_by": held_by, "said": said}
        return _render(request, "_let_go.html", context, status=status)
    if not gone:
        return _render(
            request, "streams.html", {**queuepage.streams(request, StreamFilter()), "said": said}, status=status
        )
    messages.success(request, said)
    return redirect("deadletters:held_streams")


@needs(access.VIEW)
@require_safe
@takes()
def destinations(request: HttpRequest) -> HttpResponse:
    """Show the destinations of the outbox that have failed at least once."""
    template = "_destinations.html" if wants_fragment(request) else "destinations.html"
    return _render(request, template, queuepage.destinations(request))


@needs(access.TRIAGE)
@require_POST
def try_destination(request: HttpRequest) -> HttpResponse:
    """Let a destination be tried at once; 409 when it is up, or is not known."""
    try:
        tried = triage.try_destination(name=storable(request.POST.get("name", "")), user=request.user)
    except NoSuchDestination:
        status, said = 409, _("There is no such destination.")
    else:
        status, said = (200, _("It is tried now.")) if tried else (409, _("It is up. Nothing was changed."))
    if wants_fragment(request) or status != 200:
        template = "_destinations.html" if wants_fragment(request) else "destinations.html"
        return _render(request, template, {**queuepage.destinations(request), "said": said}, status=status)
    messages.success(request, said)
    return redirect("deadletters:destinations")


@needs(access.VIEW)
@require_safe
@takes()
def worker_list(request: HttpRequest) -> HttpResponse:
    """Show the processes that drain, which waiting types none of them handles, and what the last builds replayed."""
    is_page = not wants_fragment(request)
    template = "workers.html" if is_page else "_workers.html"
    return _render(request, template, queuepage.processes(is_page=is_page))


def _pausable(what: str) -> tuple[str, str]:
    if what not in PAUSABLE:
        raise BadChange("what", "must be one of those in the list")
    return PAUSABLE[what]


def _paused(
    request: HttpRequest,
    status: int,
    *,
    said: str = "",
    form: Mapping[str, str] | None = None,
    errors: Mapping[str, str] | None = None,
    made: object = None,
) -> HttpResponse:
    """Answer a request to pause: from the form with the form, from the list of sources with that list."""
    asked_in_form = request.htmx.target == "pause" if wants_fragment(request) else False  # type: ignore[attr-defined]
    context = {**queuepage.overview(request), "said": said, "form": form or {}, "errors": errors or {}}
    if wants_fragment(request):
        return _render(request, "_paused.html" if asked_in_form else "_overview.html", context, status=status)
    if made is None:
        return _render(request, "overview.html", context, status=status)
    messages.success(request, said)
    return redirect("deadletters:queues")


def _overview_again(request: HttpRequest, status: int, said: str) -> HttpResponse:
    if wants_fragment(request):
        return _render(request, "_overview.html", {**queuepage.overview(request), "said": said}, status=status)
    if status != 200:
        return _render(request, "overview.html", {**queuepage.overview(request), "said": said}, status=status)
    messages.success(request, said)
    return redirect("deadletters:queues")


def _render(request: HttpRequest, template: str, context: dict[str, Any], *, status: int = 200) -> HttpResponse:
    return render(request, f"deadletters/queues/{template}", context, status=status)
