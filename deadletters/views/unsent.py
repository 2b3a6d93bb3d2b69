"""What was typed into a form that was sent without a session: nothing is done, and it is there after the sign-in."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

_KEY = "deadletters_unsent"

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


@dataclass(frozen=True, kw_only=True)
class Field:
    """A field of a form, and what was typed into it."""

    name: str
    label: Any
    text: str


@dataclass(frozen=True, kw_only=True)
class Unsent:
    """A form that was not sent: the path that it was for, and what was typed into it."""

    action: str
    fields: tuple[Field, ...]


def keep(request: HttpRequest) -> None:
    """Keep what was typed until somebody signs in; of what is too long only that nothing was done."""
    session = getattr(request, "session", None)
    if session is None:
        return
    typed = {name: request.POST[name] for name in LABELS if request.POST.get(name, "").strip()}
    is_cookie = settings.SESSION_ENGINE.endswith("signed_cookies")
    is_short = sum(map(len, typed.values())) <= (MAX_IN_COOKIE if is_cookie else MAX_CHARACTERS)
    session[_KEY] = {"action": request.path, "typed": typed if is_short else {}}


def take(request: HttpRequest) -> Unsent | None:
    """Return what was not sent, once, to who is signed in."""
    session = getattr(request, "session", None)
    if session is None or _KEY not in session or not request.user.is_authenticated:
        return None
    kept = session.pop(_KEY)
    fields = tuple(Field(name=name, label=LABELS[name], text=text) for name, text in kept["typed"].items())
    return Unsent(action=kept["action"], fields=fields)
