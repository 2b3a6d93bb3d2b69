"""The page of one dead letter, and the parts of it that change."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse, HttpResponseNotFound
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from deadletters import triage
from deadletters.models import DeadLetter
from deadletters.queries import groups, letters, runs, timeline, versions
from deadletters.triage import edits
from deadletters.views import shell
from deadletters.views.access import needs, wants_fragment
from deadletters.views.parameters import form_of
from deadletters.words import access
from deadletters.words.errors import NoSuchLetter
from deadletters.words.policies import decisions_on

NOTES = "_notes.html"
FIELDS = ("owner", "quiet_until", "quiet_until_generation")


@needs(access.VIEW)
@require_safe
def detail(request: HttpRequest, dead_letter_id: UUID) -> HttpResponse:
    """Show one dead letter."""
    return whole(request, dead_letter_id)


@needs(access.VIEW)
@require_safe
def live(request: HttpRequest, dead_letter_id: UUID) -> HttpResponse:
    """Return what changes by itself while a letter is recovering: its state and its timeline."""
    if not wants_fragment(request):
        return redirect("deadletters:letter", dead_letter_id)
    try:
        context = _context(request, letters.get(dead_letter_id))
    except NoSuchLetter:
        return no_such_letter(request)
    if request.GET.get("seen") == context["seen"]:
        return HttpResponse(status=204)
    return _render(request, "_live.html", context)


def whole(request: HttpRequest, dead_letter_id: UUID, *, status: int = 200, **more: Any) -> HttpResponse:
    return fragment(request, dead_letter_id, "detail.html", status=status, **more)


def fragment(
    request: HttpRequest, dead_letter_id: UUID, template: str, *, status: int = 200, **more: Any
) -> HttpResponse:
    try:
        letter = letters.get(dead_letter_id)
    except NoSuchLetter:
        return no_such_letter(request)
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
        "audited": f"letter={letter.dead_letter_id}",
        "seen": f"{letter.row_version}.{len(told.events)}",
        "form": form_of(letter, FIELDS),
        "form_seen": form_seen(letter),
        "decisions": _decisions(letter),
        "may_recover": request.user.has_perm(access.RECOVER),
        "may_triage": request.user.has_perm(access.TRIAGE),
        "max_note": triage.MAX_NOTE,
        "now": timezone.now(),
    }


def _decisions(letter: DeadLetter) -> Sequence[str]:
    return decisions_on(letter.recovery_status, letter.operator_disposition)


def no_such_letter(request: HttpRequest) -> HttpResponse:
    if wants_fragment(request):
        return HttpResponseNotFound(_("There is no such dead letter."))
    return _render(request, "missing.html", {}, status=404)


def _render(request: HttpRequest, template: str, context: dict[str, Any], *, status: int = 200) -> HttpResponse:
    folder = "deadletters" if template == NOTES else "deadletters/letters"
    return render(request, f"{folder}/{template}", context, status=status)


def form_seen(letter: DeadLetter) -> str:
    """Return what the triage form was filled with: only another person's change makes it out of date."""
    values = form_of(letter, FIELDS).values
    return sha256("\x1f".join(values.values()).encode()).hexdigest()[:16]
