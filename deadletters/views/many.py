"""The triage of many letters: what would be done to how many, and doing it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST

from deadletters import triage
from deadletters.queries import filternames, letters
from deadletters.queries.regions import load
from deadletters.triage import many
from deadletters.triage.changes import MAX_OWNER
from deadletters.views import asked, justdone
from deadletters.views.access import needs
from deadletters.views.parameters import reason_in, takes
from deadletters.views.scopes import EVERYTHING, MATCHING, PICKED, page_of, scope_of
from deadletters.words import access
from deadletters.words.errors import BadChange, BadFilter, BadNote, BadScope, FormTooLong, NoSuchForm, NotYourForm
from deadletters.words.filters import ActionFilter, LetterFilter
from deadletters.words.scopes import Letters, Matching
from queues.store.live import clock

ABOUT = "many"
MAX_CHARACTERS = 100_000
"""Characters of what is picked and asked for."""

NAMES: Mapping[str, Any] = {
    "hold": gettext_lazy("Hold"),
    "release": gettext_lazy("Release"),
    "give_up": gettext_lazy("Give up"),
    "reopen": gettext_lazy("Open again"),
    "assign": gettext_lazy("Assign"),
    "note": gettext_lazy("Write a note on"),
}
RECOVER = gettext_lazy("Recover")
DONE: Mapping[str, Any] = {
    "hold": gettext_lazy("Held"),
    "release": gettext_lazy("Released"),
    "give_up": gettext_lazy("Given up"),
    "reopen": gettext_lazy("Opened again"),
    "assign": gettext_lazy("Assigned"),
    "note": gettext_lazy("Wrote the note on"),
}
STAYED: Mapping[str, Any] = {
    "hold": gettext_lazy("Held by you just now."),
    "release": gettext_lazy("Released by you just now."),
    "give_up": gettext_lazy("Given up by you just now."),
    "reopen": gettext_lazy("Opened again by you just now."),
    "assign": gettext_lazy("Assigned by you just now."),
    "note": gettext_lazy("You wrote a note on it just now."),
}
CONSEQUENCES: Mapping[str, Any] = {
    "hold": gettext_lazy("Nothing is sent by the schedule or by a new build until somebody releases them."),
    "release": gettext_lazy("They are open again, and the schedule recovers them as their policies say."),
    "give_up": gettext_lazy("They are closed and never recovered; streams that wait behind them go on without them."),
    "reopen": gettext_lazy("They are open again, and may be recovered."),
    "assign": gettext_lazy("Their owner changes; an empty owner is nobody."),
    "note": gettext_lazy("Each of them gets the note; notes are never removed."),
}


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """The letters that a form is about, as they are now; `page`: the page of the list on which it stands."""

    scope: Letters | Matching
    ids: Sequence[UUID]
    page: LetterFilter

    @property
    def filter(self) -> str:
        """The page as a query string."""
        return self.page.query(after=str(self.page.after or ""))

    @property
    def kind(self) -> str:
        if isinstance(self.scope, Letters):
            return PICKED
        return EVERYTHING if self.scope.filters.is_empty else MATCHING


@needs(access.TRIAGE)
@takes(asked.PARAMETER)
@require_http_methods(["GET", "HEAD", "POST"])
def ask(request: HttpRequest) -> HttpResponse:
    """Show what would be done to how many letters; 422 with the reason when it cannot be.

    What a form asks for is kept for a while under an address, so that one can come back to it.
    """
    if request.method == "POST":
        return _keep(request)
    if asked.PARAMETER not in request.GET:
        return redirect("deadletters:letters")
    try:
        typed = asked.find(request, about=ABOUT)
        return _confirm(request, typed, _chosen(typed))
    except NoSuchForm as exc:
        return _refused(request, asked.not_found(exc) + " " + _("Pick the letters again."), status=404)
    except NotYourForm as exc:
        return _refused(request, asked.not_found(exc), status=403)
    except (BadScope, BadFilter) as exc:
        return _refused(request, str(exc))


def _keep(request: HttpRequest) -> HttpResponse:
    typed = request.POST.copy()
    typed.pop("csrfmiddlewaretoken", None)
    typed.setdefault("asked_at", clock().isoformat())
    try:
        scope_of(typed)
        _order(typed)
        name = asked.keep(request, typed, about=ABOUT, most=MAX_CHARACTERS)
        return redirect(f"{reverse('deadletters:ask_many')}?{name}")
    except FormTooLong:
        return _refused(request, _("Those are too many to be picked one by one; take all that match a filter."))
    except (BadScope, BadFilter) as exc:
        return _refused(request, str(exc))


@needs(access.TRIAGE)
@require_POST
def change(request: HttpRequest) -> HttpResponse:
    """Do it, and lead back to the list; 422 with what is wrong in the form, 409 when other letters match by now."""
    typed = request.POST
    try:
        chosen = _chosen(typed)
        if typed.get("count") != str(len(chosen.ids)):
            return _confirm(request, typed, chosen, status=409)
        if wrong := _not_confirmed(typed, len(chosen.ids)):
            return _confirm(request, typed, chosen, status=422, errors={"typed": wrong})
        done = triage.triage_many(
            user=request.user, ids=chosen.ids, order=_order(typed), scope_words=chosen.scope.words()
        )
    except (BadScope, BadFilter) as exc:
        return _refused(request, str(exc))
    except (BadChange, BadNote) as exc:
        return _confirm(request, typed, chosen, status=422, errors={"value": str(exc)})
    return _back(request, chosen, done)


def _back(request: HttpRequest, chosen: Chosen, done: triage.Done) -> HttpResponse:
    """Lead back to the page of the list, on which the letters stay for one look; if there are more, to the audit."""
    here = reverse("deadletters:letters")
    address = f"{here}?{chosen.filter}" if chosen.filter else here
    stayed = letters.on_page(chosen.page, done.ids)
    words: str = said(_order(request.POST).verb, done, len(chosen.ids))
    if done.n > len(stayed):
        words = format_html('{} <a href="{}">{}</a>', words, _audited(request, done), _("Each of them, in the audit"))
    (messages.success if done.n else messages.warning)(request, words)
    justdone.keep(request, stayed, address=address, said=str(STAYED[_order(request.POST).verb]))
    return redirect(address)


def _audited(request: HttpRequest, done: triage.Done) -> str:
    """Return the address of what the person has done since it began: an action for each of the letters."""
    since = done.began_at.isoformat() if done.began_at else ""
    action = "note" if _order(request.POST).verb == "note" else "triage"
    mine = ActionFilter(actor=request.user.get_username(), action=action, since=since)
    return f"{reverse('deadletters:audit')}?{mine.query()}"


def said(verb: str, done: triage.Done, asked: int) -> str:
    """Say what was done to how many letters, and why how many were left alone."""
    counts = {"done": DONE[verb], "n": f"{done.n:,}", "asked": f"{asked:,}"}
    text = _("%(done)s %(n)s of %(asked)s letters.") % counts
    if not done.left:
        return text
    whys = ", ".join(f"{n:,} {why}" for why, n in sorted(done.left.items(), key=lambda each: (-each[1], each[0])))
    return f"{text} {_('Left alone: %(whys)s.') % {'whys': whys}}"


def _chosen(typed: QueryDict) -> Chosen:
    """Find the letters; those of a filter are those that were there when it was asked first."""
    scope, now = scope_of(typed), timezone.now()
    at = _moment(typed) or now
    found = many.frozen(scope.filters, now=at) if isinstance(scope, Matching) else None
    region = load("letters_chosen", lambda: many.find(Matching(filters=found) if found else scope, now=now))
    if region.value is None:
        raise BadScope(_("Finding them took too long; narrow it down."))
    if not region.value:
        raise BadScope(_("No letter matches that is not recovered."))
    return Chosen(scope=scope, ids=region.value, page=page_of(typed))


def _moment(typed: QueryDict) -> datetime | None:
    """Return when it was asked first, never later than now; None when the form does not say."""
    try:
        return min(datetime.fromisoformat(typed.get("asked_at", "")), timezone.now())
    except (ValueError, TypeError):
        return None


def _not_confirmed(given: QueryDict, n: int) -> str:
    """Say what is wrong with the number that was typed; empty where it is right, or none is needed."""
    typed = "".join(given.get("typed", "").replace(",", "").split())
    if n <= many.CONFIRM_ABOVE or typed == str(n):
        return ""
    return _("Type how many letters they are: %(n)s.") % {"n": f"{n:,}"}


def _order(typed: QueryDict) -> triage.Order:
    verb = typed.get("verb", "")
    if verb not in many.VERBS:
        raise BadScope(_("There is no such action."))
    return triage.Order(verb=verb, value=typed.get("value", ""), reason=reason_in(typed), asked_at=_moment(typed))


def _confirm(
    request: HttpRequest,
    typed: QueryDict,
    chosen: Chosen,
    *,
    status: int = 200,
    errors: Mapping[str, str] | None = None,
) -> HttpResponse:
    order, n = _order(typed), len(chosen.ids)
    states = letters.states_of(chosen.ids)
    able = many.able(states, order.verb)
    context = {
        "chosen": chosen,
        "order": order,
        "n": n,
        "name": NAMES[order.verb],
        "consequence": CONSEQUENCES[order.verb],
        "named": filternames.of(chosen.scope.filters) if isinstance(chosen.scope, Matching) else None,
        "able": able,
        "left": n - able,
        "statuses": _by_status(states),
        "asked_at": (_moment(typed) or timezone.now()).isoformat(),
        "must_type": n > many.CONFIRM_ABOVE,
        "is_other_number": status == 409,
        "errors": errors or {},
        "max_note": triage.MAX_NOTE,
        "max_owner": MAX_OWNER,
    }
    return render(request, "deadletters/letters/many.html", context, status=status)


def _by_status(states: Mapping[tuple[int, int], int]) -> Mapping[int, int]:
    counted: Counter[int] = Counter()
    for (status, _disposition), n in states.items():
        counted[status] += n
    return counted


def _refused(request: HttpRequest, why: str, *, status: int = 422) -> HttpResponse:
    return render(request, "deadletters/letters/refused.html", {"error": why}, status=status)
