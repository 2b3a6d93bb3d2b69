"""One row of the list: what may be done to its letter in place, and the row as it is then."""

from contextlib import suppress
from typing import Any
from urllib.parse import parse_qsl, urlsplit
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST, require_safe

from deadletters import triage
from deadletters.queries import letters
from deadletters.views import justdone
from deadletters.views.access import needs
from deadletters.views.errors import no_such
from deadletters.views.fragments import wants_fragment
from deadletters.views.letteractions import DECISIONS, recovery_words, seen_numbers
from deadletters.views.parameters import takes
from deadletters.views.places import referring_page
from deadletters.words import access
from deadletters.words.errors import BadChange, BadFilter, NoSuchLetter, StaleChange
from deadletters.words.filters import LetterFilter

DONE = {
    "hold": gettext_lazy("Held by you just now."),
    "release": gettext_lazy("Released by you just now."),
    "give_up": gettext_lazy("Given up by you just now."),
    "reopen": gettext_lazy("Opened again by you just now."),
}


@needs(access.RECOVER, access.TRIAGE)
@require_POST
def act(request: HttpRequest, dead_letter_id: UUID) -> HttpResponse:
    """Recover or decide about a letter from its row; 409 with the row as it is when somebody was first."""
    verb = request.POST.get("verb", "")
    if not request.user.has_perm(access.RECOVER if verb == "recover" else access.TRIAGE):
        raise PermissionDenied(verb)
    if verb != "recover" and verb not in DECISIONS:
        return HttpResponse(_("There is no such action."), status=400, content_type="text/plain")
    try:
        is_done, said = (_recover if verb == "recover" else _decide)(request, dead_letter_id)
    except NoSuchLetter:
        return _gone(request)
    if wants_fragment(request):
        return _row(request, dead_letter_id, said=said, status=200 if is_done else 409)
    (messages.success if is_done else messages.error)(request, said)
    address = referring_page(request)
    justdone.keep(request, [dead_letter_id], address=address, said=said)
    return redirect(address)


@needs(access.VIEW)
@require_safe
@takes("seen")
def row(request: HttpRequest, dead_letter_id: UUID) -> HttpResponse:
    """Return the row of a letter that is recovering, once it differs from the one that was seen."""
    if not wants_fragment(request):
        return redirect("deadletters:letter", dead_letter_id)
    return _row(request, dead_letter_id, seen=request.GET.get("seen", ""))


def _recover(request: HttpRequest, dead_letter_id: UUID) -> tuple[bool, str]:
    recovery = triage.recover(dead_letter_id=dead_letter_id, user=request.user, **seen_numbers(request))
    return recovery.is_sent, recovery_words(recovery)


def _decide(request: HttpRequest, dead_letter_id: UUID) -> tuple[bool, str]:
    verb = request.POST["verb"]
    letter = letters.row_of(dead_letter_id).letter
    if request.POST.get("status") != str(letter.recovery_status):
        return False, _("It has changed meanwhile. Nothing was done.")
    try:
        triage.change_letter(
            dead_letter_id=dead_letter_id,
            user=request.user,
            changes={"operator_disposition": DECISIONS[verb].value},
            row_version=letter.row_version,
        )
    except BadChange as exc:
        return False, str(exc)
    except StaleChange:
        return False, _("It has changed meanwhile. Nothing was done.")
    return True, str(DONE[verb])


def _row(request: HttpRequest, dead_letter_id: UUID, *, status: int = 200, **more: Any) -> HttpResponse:
    """Render a row as the list does: with its pick and its actions, and with what was said."""
    try:
        found = letters.row_of(dead_letter_id)
    except NoSuchLetter:
        return _gone(request)
    if more.get("seen") == str(found.letter.row_version):
        return HttpResponse(status=204)
    context = {
        "row": found,
        "filters": _filters_here(request),
        "now": timezone.now(),
        "picking": True,
        "acting": True,
        "watched": True,
        **more,
    }
    return render(request, "deadletters/letters/_one_row.html", context, status=status)


def _filters_here(request: HttpRequest) -> LetterFilter:
    """Return the filter of the list that the row is on, so that its links go on with it."""
    with suppress(BadFilter):
        return LetterFilter.parse(dict(parse_qsl(urlsplit(referring_page(request)).query)))
    return LetterFilter()


def _gone(request: HttpRequest) -> HttpResponse:
    return no_such(request, "deadletters/letters/missing.html", _("There is no such dead letter."))
