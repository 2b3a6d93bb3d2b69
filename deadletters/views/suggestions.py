"""What a search that is being typed may go on with."""

from collections.abc import Sequence

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from deadletters.queries import suggestions
from deadletters.queries.regions import load
from deadletters.views.access import needs
from deadletters.views.fragments import wants_fragment
from deadletters.views.parameters import takes
from deadletters.words import access
from deadletters.words.errors import BadFilter
from deadletters.words.filters import MAX_SEARCH, NOBODY
from deadletters.words.filters.listfilter import spaced
from deadletters.words.filters.suggesting import CHOICES, Suggestion, Typed, keys_for, last_word, token
from deadletters.words.filters.tokens import SYNONYMS, tokens_of


@needs(access.VIEW)
@require_safe
@takes("search")
def suggest(request: HttpRequest) -> HttpResponse:
    """Return the keys or the values that the last word of a search may become; none where nothing fits."""
    if not wants_fragment(request):
        return redirect("deadletters:letters")
    text = request.GET.get("search", "")[:MAX_SEARCH].replace("\x00", "")
    typed = last_word(text)
    found = _values(request, typed) if typed.key else keys_for(typed, _used(text[: typed.start]))
    return render(request, "deadletters/letters/_suggestions.html", {"typed": typed, "found": found})


def _used(text: str) -> Sequence[str]:
    try:
        return [SYNONYMS.get(each.key, each.key) for each in tokens_of(text)]
    except BadFilter:
        return []


def _values(request: HttpRequest, typed: Typed) -> Sequence[Suggestion]:
    known = suggestions.matching(_known(request, typed.key), typed.text)
    region = load("suggestions", lambda: suggestions.values_of(typed.key, typed.text))
    values = list(dict.fromkeys([*known, *(region.value or ())]))[: suggestions.MAX_VALUES * 2]
    return [token(typed.key, value, _told(request, typed.key, value)) for value in values]


def _known(request: HttpRequest, key: str) -> Sequence[str]:
    own = [request.user.get_username()] if key == "owner" else []
    return [*own, *CHOICES.get(key, ())]


def _told(request: HttpRequest, key: str, value: str) -> str:
    if key == "owner":
        return {NOBODY: _("nobody"), request.user.get_username(): _("you")}.get(value, "")
    if key in ("since", "until"):
        return _("ago")
    return spaced(value) if "_" in value and key in CHOICES else ""
