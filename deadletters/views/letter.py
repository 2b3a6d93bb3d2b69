"""The page of one dead letter, and the parts of it that change."""

from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qsl, urlencode
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from deadletters import triage
from deadletters.models import DeadLetter
from deadletters.queries import filternames, groups, letters, neighbours, regions, streams, timeline
from deadletters.queries.parts import NOTHING, Parts
from deadletters.queries.parts import of as parts_of
from deadletters.triage import edits
from deadletters.views import shell
from deadletters.views.access import needs
from deadletters.views.errors import no_such
from deadletters.views.fragments import wants_fragment
from deadletters.views.parameters import form_of, takes, time_with_zone
from deadletters.words import access
from deadletters.words.errors import BadFilter, NoSuchLetter
from deadletters.words.filters import LetterFilter
from deadletters.words.policies import decisions_on

NOTES, TIMELINE = "_notes.html", "_timeline.html"
WHOLE = "detail.html"
MAX_FILTERS = 50
IN, BEFORE = "in", "before"
"""Names in the address: the list from which the letter was opened, and before when its timeline is shown."""

FIELDS = ("owner", "quiet_until", "quiet_until_generation")


def _wrong_list(given: str) -> str:
    try:
        _read_list(given)
    except BadFilter as exc:
        return f"names a list that is not understood: {str(exc).rstrip('.')}"
    return ""


@needs(access.VIEW)
@require_safe
@takes(**{IN: _wrong_list, BEFORE: time_with_zone})
def detail(request: HttpRequest, dead_letter_id: UUID) -> HttpResponse:
    """Show one dead letter; by htmx an older part of its timeline."""
    if wants_fragment(request) and BEFORE in request.GET:
        return fragment(request, dead_letter_id, TIMELINE)
    return whole(request, dead_letter_id)


@needs(access.VIEW)
@require_safe
@takes("seen", **{IN: _wrong_list})
def live(request: HttpRequest, dead_letter_id: UUID) -> HttpResponse:
    """Return what changes by itself while a letter is recovering: its state and its timeline."""
    if not wants_fragment(request):
        return redirect("deadletters:letter", dead_letter_id)
    context = _context_of(request, dead_letter_id)
    if context is None:
        return no_such_letter(request)
    if request.GET.get("seen") == context["seen"]:
        return HttpResponse(status=204)
    return _render(request, "_live.html", context)


def whole(request: HttpRequest, dead_letter_id: UUID, *, status: int = 200, **more: Any) -> HttpResponse:
    return fragment(request, dead_letter_id, WHOLE, status=status, **more)


def fragment(
    request: HttpRequest, dead_letter_id: UUID, template: str, *, status: int = 200, **more: Any
) -> HttpResponse:
    context = _context_of(request, dead_letter_id, is_whole=template == WHOLE)
    if context is None:
        return no_such_letter(request)
    return _render(request, template, {**context, **more}, status=status)


def _context_of(request: HttpRequest, dead_letter_id: UUID, *, is_whole: bool = False) -> dict[str, Any] | None:
    """Return what the page shows; None = there is no such letter."""
    with regions.reading() as read:
        try:
            letter = read.needed(lambda: letters.get(dead_letter_id))
        except NoSuchLetter:
            return None
        return _context(request, letter, read, is_whole=is_whole)


def _context(request: HttpRequest, letter: DeadLetter, read: regions.Reader, *, is_whole: bool) -> dict[str, Any]:
    """Return what the page shows; stream, similar ones and neighbours in the list for the whole page only."""
    before, now = _older_than(request), timezone.now()
    parts = read("what happened to the letter", lambda: parts_of(letter, before))
    around = _around(request, letter, parts.value or NOTHING, read, now) if is_whole else {}
    return {
        "letter": letter,
        "region": parts,
        **_of_parts(letter, parts.value or NOTHING, before),
        **around,
        **_for_person(request, letter),
        "inside": inside(request),
        "failure_detail": letters.failure_detail_of(letter),
        "timeline_title": _("Timeline"),
        "audited": f"letter={letter.dead_letter_id}",
        "form": form_of(letter, FIELDS),
        "form_seen": form_seen(letter),
        "now": now,
    }


def _of_parts(letter: DeadLetter, parts: Parts, before: datetime | None) -> dict[str, Any]:
    told = timeline.of(parts.history, before)
    return {
        "deaths": parts.deaths,
        "latest": parts.deaths[0] if parts.deaths else None,
        "builds": list(dict.fromkeys([*(death.generation for death in parts.deaths), *letter.retried_on_generations])),
        "versions": parts.versions,
        "group": parts.group,
        "notes": parts.notes,
        "subjects": parts.subjects,
        "items": parts.items,
        "timeline": told,
        "is_old": before is not None,
        "seen": f"{letter.row_version}.{len(told.events)}",
    }


def _around(
    request: HttpRequest, letter: DeadLetter, parts: Parts, read: regions.Reader, now: datetime
) -> dict[str, Any]:
    subject, filters = next(iter(parts.subjects), None), _list_of(request)
    found = {
        "others": read("the letter's fault", lambda: groups.others_of(letter)),
        "stream": read("the letter's stream", lambda: streams.around(letter)),
        "similar": read("letters like it", lambda: neighbours.like(letter, subject)),
    }
    if filters is None:
        return found
    steps = read("its neighbours in the list", lambda: neighbours.in_list(letter, filters, now=now))
    names = read("names", lambda: filternames.of(filters))
    return {**found, "steps": steps.value, "list": filters, "named": names.value}


def _for_person(request: HttpRequest, letter: DeadLetter) -> dict[str, Any]:
    user, decisions = request.user, _decisions(letter)
    return {
        "commands": shell.of_letter(request, letter, decisions),
        "decisions": decisions,
        "may_edit": user.has_perm(access.EDIT_PAYLOAD) and not edits.why_not(letter),
        "may_recover": user.has_perm(access.RECOVER),
        "may_triage": user.has_perm(access.TRIAGE),
        "may_reveal": user.has_perm(access.REVEAL),
        "note_address": reverse("deadletters:add_note", args=[letter.dead_letter_id]) + inside(request),
        "note_key": letter.dead_letter_id,
        "max_note": triage.MAX_NOTE,
    }


def _list_of(request: HttpRequest) -> LetterFilter | None:
    """Return the list from which the letter was opened; None for one that was opened without, or cannot be read."""
    given = request.GET.get(IN)
    try:
        return None if given is None else _read_list(given)
    except BadFilter:
        return None


def _read_list(given: str) -> LetterFilter:
    try:
        pairs = parse_qsl(given, strict_parsing=True, max_num_fields=MAX_FILTERS) if given else []
    except ValueError as exc:
        raise BadFilter("It is no list of filters.") from exc
    return LetterFilter.parse(dict(pairs))


def inside(request: HttpRequest) -> str:
    """Return the query string that keeps the list from which the letter was opened."""
    filters = _list_of(request)
    return "" if filters is None else f"?{urlencode({IN: filters.query()})}"


def _older_than(request: HttpRequest) -> datetime | None:
    """Return before when the timeline is asked for; None for its beginning, and for what is no time."""
    try:
        before = datetime.fromisoformat(request.GET.get(BEFORE, ""))
        return before.astimezone(UTC) if before.tzinfo else None
    except (ValueError, OverflowError):
        return None


def back_to(request: HttpRequest, dead_letter_id: UUID) -> HttpResponse:
    """Lead back to a letter in the list from which it was opened."""
    return redirect(reverse("deadletters:letter", args=[dead_letter_id]) + inside(request))


def _decisions(letter: DeadLetter) -> Sequence[str]:
    return decisions_on(letter.recovery_status, letter.operator_disposition)


def no_such_letter(request: HttpRequest) -> HttpResponse:
    return no_such(request, "deadletters/letters/missing.html", _("There is no such dead letter."))


def _render(request: HttpRequest, template: str, context: dict[str, Any], *, status: int = 200) -> HttpResponse:
    folder = "deadletters" if template in (NOTES, TIMELINE) else "deadletters/letters"
    return render(request, f"{folder}/{template}", context, status=status)


def form_seen(letter: DeadLetter) -> str:
    """Return what the triage form was filled with: only another person's change makes it out of date."""
    values = form_of(letter, FIELDS).values
    return sha256("\x1f".join(values.values()).encode()).hexdigest()[:16]
