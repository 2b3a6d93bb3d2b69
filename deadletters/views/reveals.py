"""One masked value of a letter: asked for with a reason, and shown once."""

from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from deadletters import triage
from deadletters.views import asked
from deadletters.views.access import needs
from deadletters.views.fragments import wants_fragment
from deadletters.views.letter import IN, back_to, inside, no_such_letter
from deadletters.views.parameters import takes
from deadletters.words import access
from deadletters.words.errors import BadChange, NoSuchForm, NoSuchLetter, NotYourForm

ABOUT = "reveal"
MAX_CHARACTERS = 10_000
"""Characters of the name of a value, urlencoded."""


@needs(access.REVEAL)
@require_http_methods(["GET", "POST"])
@takes(asked.PARAMETER, IN)
def reveal(request: HttpRequest, dead_letter_id: UUID) -> HttpResponse:
    """Show one masked value, once, and store it nowhere; 422 with what is wrong.

    A form leads to an address that shows it: to go back to that address shows nothing.
    """
    try:
        return _asked(request, dead_letter_id) if request.method == "POST" else _once(request, dead_letter_id)
    except NoSuchLetter:
        return no_such_letter(request)
    except BadChange as exc:
        return _render(request, dead_letter_id, status=422, reveal_error=str(exc))


def _asked(request: HttpRequest, dead_letter_id: UUID) -> HttpResponse:
    field, reason = request.POST.get("field", ""), request.POST.get("reason", "")
    revealed = triage.reveal(dead_letter_id=dead_letter_id, user=request.user, field=field, reason=reason)
    if wants_fragment(request):
        return _render(request, dead_letter_id, revealed=revealed)
    kept = QueryDict(mutable=True)
    kept["field"] = field
    name = asked.keep(request, kept, about=ABOUT, most=MAX_CHARACTERS, dead_letter_id=dead_letter_id)
    more = inside(request).replace("?", "&", 1)
    return redirect(f"{reverse('deadletters:reveal', args=[dead_letter_id])}?{name}{more}")


def _once(request: HttpRequest, dead_letter_id: UUID) -> HttpResponse:
    if asked.PARAMETER not in request.GET:
        return back_to(request, dead_letter_id)
    try:
        kept = asked.find(request, about=ABOUT, dead_letter_id=dead_letter_id)
    except (NoSuchForm, NotYourForm):
        said = _("It was shown once, and is not shown again: ask for it anew, with a reason.")
        return _render(request, dead_letter_id, status=404, reveal_error=said)
    asked.forget(request)
    revealed = triage.revealed(dead_letter_id=dead_letter_id, user=request.user, field=kept.get("field", ""))
    return _render(request, dead_letter_id, revealed=revealed)


def _render(request: HttpRequest, dead_letter_id: UUID, *, status: int = 200, **shown: Any) -> HttpResponse:
    template = "_revealed.html" if wants_fragment(request) else "revealed.html"
    context = {"dead_letter_id": dead_letter_id, "inside": inside(request), **shown}
    return render(request, f"deadletters/letters/{template}", context, status=status)
