"""What a form asked for, kept under an address, so that one can come back to the page that asks whether it is meant."""

from django.http import HttpRequest, QueryDict
from django.utils.crypto import get_random_string
from django.utils.translation import gettext as _

from deadletters.words.errors import BadScope

_KEY = "deadletters_asked"
PARAMETER = "asked"
MAX_KEPT = 5
"""Forms of one session that are kept; a newer one takes the place of the oldest."""
MAX_CHARACTERS = 100_000
"""Characters of one form."""


def keep(request: HttpRequest, typed: QueryDict) -> str:
    """Keep a form; return the query string that names it. Raises BadScope for one that is too long."""
    query = typed.urlencode()
    if len(query) > MAX_CHARACTERS:
        raise BadScope(_("Those are too many to be picked one by one; take all that match a filter."))
    name = get_random_string(8)
    known = request.session.get(_KEY, [])
    request.session[_KEY] = [*known, [name, query]][-MAX_KEPT:]
    return f"{PARAMETER}={name}"


def find(request: HttpRequest) -> QueryDict | None:
    """Return the form that the address names; None where it is not kept (any more)."""
    kept = dict(request.session.get(_KEY, []))
    query = kept.get(request.GET.get(PARAMETER, ""))
    return None if query is None else QueryDict(query)
