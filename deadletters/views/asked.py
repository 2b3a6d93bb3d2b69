"""What a form asked for, kept under an address, so that one can come back to the page that asks whether it is meant.

It is kept for the person and not for the session, so that it is there after another sign-in.
"""

from uuid import UUID

from django.http import HttpRequest, QueryDict
from django.utils.translation import gettext as _

from deadletters import keptforms
from deadletters.words.errors import NoSuchForm, NotYourForm

PARAMETER = "asked"


def keep(request: HttpRequest, typed: QueryDict, *, about: str, most: int, dead_letter_id: UUID | None = None) -> str:
    """Keep a form; return the query string that names it. Raises FormTooLong for more than so many characters."""
    name = keptforms.keep(
        person_id=str(request.user.pk), about=about, query=typed.urlencode(), most=most, dead_letter_id=dead_letter_id
    )
    return f"{PARAMETER}={name}"


def find(request: HttpRequest, *, about: str, dead_letter_id: UUID | None = None) -> QueryDict:
    """Return the form that the address names; raises NoSuchForm, NotYourForm."""
    person, name = str(request.user.pk), _name(request)
    return QueryDict(keptforms.find(person_id=person, about=about, name=name, dead_letter_id=dead_letter_id))


def forget(request: HttpRequest) -> None:
    """Forget the form that the address names: it was sent."""
    if name := _name(request):
        keptforms.forget(person_id=str(request.user.pk), name=name)


def _name(request: HttpRequest) -> str:
    name = request.GET.get(PARAMETER, "")
    return name if name.isalnum() else ""


def not_found(exc: NoSuchForm | NotYourForm) -> str:
    """Say why a form is not there."""
    if isinstance(exc, NotYourForm):
        return _("Somebody else was asked this, and only they can answer it.")
    kept = {"hours": keptforms.KEPT_HOURS, "forms": keptforms.MAX_KEPT}
    return (
        _("What stood here was sent, or is not kept any more: a person's last %(forms)s are, for %(hours)s hours.")
        % kept
    )
