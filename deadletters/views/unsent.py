"""What was typed into a form that was sent without a session: nothing is done, and it is there after the sign-in."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.core.signing import Signer
from django.http import HttpRequest, HttpResponseBase, QueryDict
from django.utils.translation import gettext_lazy as _

_KEY = "deadletters_unsent"
SCOPE = "scope"
"""The field that says which letters a form is about."""
COUNTED = "count"
"""The page's own in such a form; in a plan it is typed."""

LABELS: Mapping[str, Any] = {
    "text": _("Text"),
    "value": _("Text"),
    "typed": _("Text"),
    "name": _("Name"),
    "reason": _("Reason"),
    "owner": _("Owner"),
    "ticket": _("Ticket"),
    "runbook": _("Runbook"),
    "state": _("State"),
    "operator_disposition": _("Decision (0 = none, 2 = hold)"),
    "fixed_in_generation": _("Fixed in build"),
    "quiet_until": _("Quiet until"),
    "quiet_until_generation": _("Quiet until build"),
    "quiet_until_count": _("Quiet until so many letters"),
    "until": _("Until"),
    "count": _("Number of letters"),
    "canary": _("Canary"),
    "ramp": _("Growth"),
    "rate": _("Rate"),
    "in_flight": _("At once"),
    "stop_failures": _("Stop after failures"),
    "stop_percent": _("Stop above percent"),
    "deadline_minutes": _("Deadline in minutes"),
    "starts_at": _("Start"),
}
"""What people type or choose in forms that act, by the names of its fields; all else in them is the page's."""

MAX_CHARACTERS = 300_000
"""Characters that are kept of one form."""
MAX_IN_COOKIE = 1_000
"""The same where the session is a cookie."""

COOKIE = "deadletters_person"
"""The cookie by which a browser says who was signed in last: what was typed is shown to nobody else."""
_signer = Signer(salt="deadletters.unsent")


@dataclass(frozen=True, kw_only=True)
class Field:
    """A field of a form, and what was typed into it."""

    name: str
    label: Any
    text: str


@dataclass(frozen=True, kw_only=True)
class Unsent:
    """A form that was not sent: the path that it was for, what was typed into it, and which letters were chosen."""

    action: str
    fields: tuple[Field, ...] = ()
    chosen: QueryDict | None = None


def remember(request: HttpRequest, response: HttpResponseBase) -> None:
    """Let the browser keep who is signed in: it is asked when nobody is any more."""
    person = _person(request)
    if request.COOKIES.get(COOKIE) == person:
        return
    response.set_cookie(
        COOKIE,
        person,
        httponly=True,
        samesite="Lax",
        secure=bool(settings.SESSION_COOKIE_SECURE),
        path=settings.SESSION_COOKIE_PATH,
        domain=settings.SESSION_COOKIE_DOMAIN,
    )


def keep(request: HttpRequest) -> None:
    """Keep what was typed until its person signs in; of what is too long, or nobody's, only that nothing was done."""
    session = getattr(request, "session", None)
    if session is None:
        return
    is_about_letters = SCOPE in request.POST
    names = [name for name in LABELS if not (is_about_letters and name == COUNTED)]
    typed = {name: request.POST[name] for name in names if request.POST.get(name, "").strip()}
    chosen = _chosen(request.POST) if is_about_letters else ""
    is_cookie = settings.SESSION_ENGINE.endswith("signed_cookies")
    is_short = sum(map(len, typed.values())) + len(chosen) <= (MAX_IN_COOKIE if is_cookie else MAX_CHARACTERS)
    person = request.COOKIES.get(COOKIE, "")
    kept = {"typed": typed, "chosen": chosen} if is_short and person else {"typed": {}, "chosen": ""}
    session[_KEY] = {"action": request.path, "person": person, **kept}


def take(request: HttpRequest) -> Unsent | None:
    """Return what was not sent, once, to the person who is signed in; what was another's is forgotten."""
    session = getattr(request, "session", None)
    if session is None or _KEY not in session or not request.user.is_authenticated:
        return None
    kept = session.pop(_KEY)
    if kept.get("person") and kept["person"] != _person(request):
        return None
    fields = tuple(Field(name=name, label=LABELS[name], text=text) for name, text in kept["typed"].items())
    chosen = QueryDict(kept["chosen"]) if kept.get("chosen") else None
    return Unsent(action=kept["action"], fields=fields, chosen=chosen)


def _person(request: HttpRequest) -> str:
    return _signer.sign(str(request.user.pk))


def _chosen(given: QueryDict) -> str:
    """Return a form that says which letters it is about, without its token."""
    chosen = given.copy()
    chosen.pop("csrfmiddlewaretoken", None)
    return chosen.urlencode()
