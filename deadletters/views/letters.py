"""The list of dead letters, one dead letter, and what may be done to it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseNotFound
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe
from django_htmx.http import push_url

from deadletters import triage
from deadletters.models import DeadLetter, Disposition, RecoveryStatus
from deadletters.queries import groups, letters, runs, timeline, versions
from deadletters.store.recovery import Sent
from deadletters.triage import edits
from deadletters.views import shell
from deadletters.views.access import needs, wants_fragment
from deadletters.views.parameters import Form, changes_of, filter_of, form_of, refused_form
from deadletters.words import access
from deadletters.words.errors import BadChange, BadFilter, BadNote, NoSuchLetter, StaleChange
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


NOTES = "_notes.html"
FIELDS = ("owner", "quiet_until", "quiet_until_generation")
RARE = ("owner", "cause", "disposition", "generation", "destination", "perspective", "stream", "group", "payload")
DECISIONS = {
    "hold": Disposition.HOLD_INDEFINITELY,
    "release": Disposition.NONE,
    "give_up": Disposition.MARK_PERMANENTLY_FAILED,
    "reopen": Disposition.NONE,
}


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


@needs(access.VIEW)
@require_safe
def detail(request: HttpRequest, dead_letter_id: UUID) -> HttpResponse:
    """Show one dead letter."""
    return _detail(request, dead_letter_id)


@needs(access.VIEW)
@require_safe
def live(request: HttpRequest, dead_letter_id: UUID) -> HttpResponse:
    """Return what changes by itself while a letter is recovering: its state and its timeline."""
    if not wants_fragment(request):
        return redirect("deadletters:letter", dead_letter_id)
    try:
        context = _context(request, letters.get(dead_letter_id))
    except NoSuchLetter:
        return _no_such_letter(request)
    if request.GET.get("seen") == context["seen"]:
        return HttpResponse(status=204)
    return _render(request, "_live.html", context)


@needs(access.RECOVER)
@require_POST
def recover(request: HttpRequest, dead_letter_id: UUID) -> HttpResponse:
    """Recover one letter; 409 with its fresh state when somebody was first."""
    try:
        recovery = triage.recover(dead_letter_id=dead_letter_id, user=request.user, **_seen_numbers(request))
    except NoSuchLetter:
        return _no_such_letter(request)
    said = _said(recovery)
    status = 200 if recovery.is_sent else 409
    if wants_fragment(request):
        return _fragment(request, dead_letter_id, "_live.html", status=status, said=said)
    if not recovery.is_sent:
        return _detail(request, dead_letter_id, status=status, said=said)
    messages.success(request, said)
    return redirect("deadletters:letter", dead_letter_id)


def _seen_numbers(request: HttpRequest) -> dict[str, int | None]:
    """Return the numbers of the death and of the payload that the form was about; None = it does not say."""
    given = {name: request.POST.get(name, "") for name in ("death", "version")}
    is_number = {name: text.isascii() and text.isdigit() and len(text) < 10 for name, text in given.items()}
    return {name: int(text) if is_number[name] else None for name, text in given.items()}


@needs(access.TRIAGE)
@require_POST
def add_note(request: HttpRequest, dead_letter_id: UUID) -> HttpResponse:
    """Write a note; 422 with what was typed when it cannot be kept."""
    text = request.POST.get("text", "")
    try:
        triage.add_note(dead_letter_id=dead_letter_id, text=text, user=request.user)
    except NoSuchLetter:
        return _no_such_letter(request)
    except BadNote as exc:
        wrong = {"note_error": str(exc), "note_text": text}
        if wants_fragment(request):
            return _fragment(request, dead_letter_id, NOTES, status=422, **wrong)
        return _detail(request, dead_letter_id, status=422, **wrong)
    if wants_fragment(request):
        return _fragment(request, dead_letter_id, NOTES)
    messages.success(request, _("The note is written."))
    return redirect("deadletters:letter", dead_letter_id)


@needs(access.TRIAGE)
@require_POST
def triage_letter(request: HttpRequest, dead_letter_id: UUID) -> HttpResponse:
    """Save the triage form: 422 with what was typed when it cannot be kept, 409 when somebody was first."""
    try:
        letter = letters.get(dead_letter_id)
        if request.POST.get("seen") != _seen(letter):
            raise StaleChange
        changed = triage.change_letter(
            dead_letter_id=letter.dead_letter_id,
            user=request.user,
            changes=changes_of(request, letter, FIELDS),
            reason=_reason(request),
            row_version=letter.row_version,
        )
    except NoSuchLetter:
        return _no_such_letter(request)
    except BadChange as exc:
        return _form_again(request, letter, 422, refused_form(request, letter, FIELDS, wrong=exc))
    except StaleChange:
        letter = letters.get(dead_letter_id)
        return _form_again(request, letter, 409, refused_form(request, letter, FIELDS), stale=True)
    said = _("Saved.") if changed else _("Nothing was different; nothing was changed.")
    if wants_fragment(request):
        return _fragment(request, letter.dead_letter_id, "_triaged.html", form_said=said)
    messages.success(request, said)
    return redirect("deadletters:letter", letter.dead_letter_id)


@needs(access.TRIAGE)
@require_POST
def decide(request: HttpRequest, dead_letter_id: UUID) -> HttpResponse:
    """Hold, release, give up or reopen one letter; 409 with its fresh state when it is in another one by now."""
    decision = DECISIONS.get(request.POST.get("decision", ""))
    if decision is None:
        return HttpResponse(_("There is no such decision."), status=400, content_type="text/plain")
    try:
        letter = letters.get(dead_letter_id)
        if request.POST.get("status") != str(letter.recovery_status):
            raise StaleChange
        changes = {"operator_disposition": decision.value}
        triage.change_letter(
            dead_letter_id=letter.dead_letter_id,
            user=request.user,
            changes=changes,
            reason=_reason(request),
            row_version=letter.row_version,
        )
    except NoSuchLetter:
        return _no_such_letter(request)
    except BadChange as exc:
        return _decided(request, dead_letter_id, 409, str(exc))
    except StaleChange:
        return _decided(request, dead_letter_id, 409, _("It has changed meanwhile. Nothing was done."))
    return _decided(request, letter.dead_letter_id, 200, _("Done."))


def _decided(request: HttpRequest, dead_letter_id: UUID, status: int, said: str) -> HttpResponse:
    if wants_fragment(request):
        return _fragment(request, dead_letter_id, "_live.html", status=status, said=said)
    if status != 200:
        return _detail(request, dead_letter_id, status=status, said=said)
    messages.success(request, said)
    return redirect("deadletters:letter", dead_letter_id)


def _form_again(
    request: HttpRequest, letter: DeadLetter, status: int, form: Form, *, stale: bool = False
) -> HttpResponse:
    template = "_triage.html" if wants_fragment(request) else "detail.html"
    return _fragment(request, letter.dead_letter_id, template, status=status, form=form, stale=stale)


def _reason(request: HttpRequest) -> str:
    return request.POST.get("reason", "").strip()[: triage.MAX_NOTE]


def _seen(letter: DeadLetter) -> str:
    """Return what the triage form was filled with: only another person's change makes it out of date."""
    values = form_of(letter, FIELDS).values
    return sha256("\x1f".join(values.values()).encode()).hexdigest()[:16]


def filters_of(request: HttpRequest) -> LetterFilter:
    """Return the filter in the address; raises BadFilter, also for one that is given twice."""
    return filter_of(request, LetterFilter)


def _said(recovery: triage.Recovery) -> str:
    by = recovery.by or _("somebody")
    at = f"{recovery.at:%Y-%m-%d %H:%M:%S} UTC" if recovery.at else _("an unknown time")
    return {
        Sent.SENT: _("Sent back to its queue. It counts as recovered once its handler has handled it."),
        Sent.RECOVERING: _("Already recovering, by %(by)s at %(at)s.") % {"by": by, "at": at},
        Sent.RECOVERED: _("Already recovered by %(by)s at %(at)s.") % {"by": by, "at": at},
        Sent.GIVEN_UP: _("It was given up; it is not recovered again."),
        Sent.CONFLICT: _("A message with the same id waits in the queue already. Nothing was changed."),
        Sent.SUPERSEDED: _("A later dead letter has taken its place. Nothing was changed."),
        Sent.DIED_AGAIN: _("It has died again since this page was read. Look at the new failure; nothing was changed."),
        Sent.EDITED: _("Its payload was edited since this page was read. Look at it; nothing was changed."),
        Sent.UNSUPPORTED: _("Letters of this source cannot be recovered here."),
        Sent.BROKEN: _("Its row cannot be restored as it is stored. Nothing was changed."),
    }[recovery.sent]


def _detail(request: HttpRequest, dead_letter_id: UUID, *, status: int = 200, **more: Any) -> HttpResponse:
    return _fragment(request, dead_letter_id, "detail.html", status=status, **more)


def _fragment(
    request: HttpRequest, dead_letter_id: UUID, template: str, *, status: int = 200, **more: Any
) -> HttpResponse:
    try:
        letter = letters.get(dead_letter_id)
    except NoSuchLetter:
        return _no_such_letter(request)
    return _render(request, template, {**_context(request, letter), **more}, status=status)


def _context(request: HttpRequest, letter: DeadLetter) -> dict[str, Any]:
    deaths, notes = letters.deaths_of(letter), letters.notes_of(letter)
    told = timeline.of(letter, deaths, notes)
    return {
        "letter": letter,
        "deaths": deaths,
        "versions": versions.of_letter(letter),
        "may_edit": request.user.has_perm(access.EDIT_PAYLOAD) and not edits.why_not(letter),
        "commands": shell.of_letter(request, letter, _decisions(letter)),
        "latest": deaths[0] if deaths else None,
        "group": groups.of_letter(letter),
        "others": groups.others_of(letter),
        "notes": notes,
        "note_address": reverse("deadletters:add_note", args=[letter.dead_letter_id]),
        "note_key": letter.dead_letter_id,
        "subjects": letters.subjects_of(letter),
        "items": runs.runs_of_letter(letter.dead_letter_id),
        "failure_detail": letters.failure_detail_of(letter),
        "timeline": told,
        "timeline_title": _("Timeline"),
        "seen": f"{letter.row_version}.{len(told.events)}",
        "form": form_of(letter, FIELDS),
        "form_seen": _seen(letter),
        "decisions": _decisions(letter),
        "may_recover": request.user.has_perm(access.RECOVER),
        "may_triage": request.user.has_perm(access.TRIAGE),
        "max_note": triage.MAX_NOTE,
        "now": timezone.now(),
    }


def _decisions(letter: DeadLetter) -> Sequence[str]:
    """Return what a person may decide about a letter as it is; in flight it holds from its next death on."""
    undecided = letter.operator_disposition == Disposition.NONE
    return {
        RecoveryStatus.PENDING: ["hold", "give_up"],
        RecoveryStatus.RECOVERING: ["hold", "give_up"] if undecided else ["release"],
        RecoveryStatus.HELD: ["release", "give_up"],
        RecoveryStatus.PERMANENTLY_FAILED: ["reopen"],
    }.get(RecoveryStatus(letter.recovery_status), [])


def _no_such_letter(request: HttpRequest) -> HttpResponse:
    if wants_fragment(request):
        return HttpResponseNotFound(_("There is no such dead letter."))
    return _render(request, "missing.html", {}, status=404)


def _render(request: HttpRequest, template: str, context: dict[str, Any], *, status: int = 200) -> HttpResponse:
    folder = "deadletters" if template == NOTES else "deadletters/letters"
    return render(request, f"{folder}/{template}", context, status=status)
