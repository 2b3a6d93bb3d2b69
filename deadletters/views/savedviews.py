"""Saved views of the list: the tabs above it, and the page of one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from deadletters import savedviews
from deadletters.queries import filternames
from deadletters.queries.regions import Reader, Region
from deadletters.savedviews import View
from deadletters.views.access import needs
from deadletters.views.errors import no_such
from deadletters.views.parameters import takes
from deadletters.words import access
from deadletters.words.errors import BadFilter, BadView, NoSuchView
from deadletters.words.filters import MAX_TEXT, LetterFilter


@dataclass(frozen=True, kw_only=True)
class Tab:
    """A link above the list; `view` where a person saved it."""

    name: str
    query: str
    is_current: bool
    view: View | None = None


@dataclass(frozen=True, kw_only=True)
class Tabs:
    """The links above the list; `own`: the view of this person that the list is filtered by, if it is.

    `saved`: the views that people saved, as far as they could be read.
    """

    tabs: Sequence[Tab]
    own: View | None
    may_save: bool
    saved: Region[Sequence[View]]


def read_views(request: HttpRequest, read: Reader) -> Region[Sequence[View]]:
    """Read the views that the person sees."""
    return read("saved views", lambda: savedviews.of(request.user))


def tabs_of(request: HttpRequest, filters: LetterFilter, region: Region[Sequence[View]]) -> Tabs:
    """Return the links above a list that is filtered so."""
    here = filters.query(size="")
    saved = region.value or ()
    tabs = [
        *(Tab(name=name, query=one.query(), is_current=here == one.query()) for name, one in _usual(request)),
        *(Tab(name=view.name, query=view.query, is_current=_is_shown(view, here), view=view) for view in saved),
    ]
    own = [tab.view for tab in tabs if tab.view is not None and tab.is_current and tab.view.is_own]
    is_known = any(tab.is_current for tab in tabs) or filters.is_empty
    may_save = not is_known and region.trouble is None
    return Tabs(tabs=tabs, own=own[0] if own else None, may_save=may_save, saved=region)


def _usual(request: HttpRequest) -> Sequence[tuple[str, LetterFilter]]:
    """Return the views that everybody has."""
    name = request.user.get_username()
    mine = [(_("Mine"), LetterFilter(owner=name))] if name.strip() == name and len(name) <= MAX_TEXT else []
    return [
        (_("All"), LetterFilter()),
        (_("Open"), LetterFilter(status="open")),
        (_("Held"), LetterFilter(status="held")),
        (_("Recovering"), LetterFilter(status="recovering")),
        (_("Failed again"), LetterFilter(status="open", again="yes")),
        *mine,
    ]


def _is_shown(view: View, here: str) -> bool:
    return view.filters is not None and view.filters.query(size="") == here


@needs(access.VIEW)
@require_safe
@takes()
def view(request: HttpRequest, view_id: int) -> HttpResponse:
    """Show one view: what it filters by, or why that is not understood any more."""
    try:
        return _page(request, {"view": savedviews.get(view_id, request.user)})
    except NoSuchView:
        return _missing(request)


@needs(access.VIEW)
@require_POST
def save(request: HttpRequest) -> HttpResponse:
    """Save the list's filter under a name; 422 with what was typed when it cannot be kept."""
    try:
        saved = savedviews.save(user=request.user, query=request.POST.get("query", ""), **_typed(request))
    except (BadView, BadFilter) as exc:
        return _page(request, {"view": None, "error": str(exc)}, status=422)
    messages.success(request, _("Saved as “%(name)s”.") % {"name": saved.name})
    return redirect(f"{reverse('deadletters:letters')}?{saved.query}")


@needs(access.VIEW)
@require_POST
def change(request: HttpRequest, view_id: int) -> HttpResponse:
    """Rename, share or remove one's own view; 422 with what was typed when it cannot be kept."""
    try:
        seen = savedviews.get(view_id, request.user)
        if request.POST.get("verb") == "remove":
            savedviews.remove(view_id=view_id, user=request.user)
            messages.success(request, _("Removed the view “%(name)s”.") % {"name": seen.name})
            return redirect(_list_of(seen))
        saved = savedviews.change(
            view_id=view_id, user=request.user, query=request.POST.get("query"), **_typed(request)
        )
    except NoSuchView:
        return _missing(request)
    except (BadView, BadFilter) as exc:
        return _page(request, {"view": seen, "error": str(exc)}, status=422)
    messages.success(request, _("Saved."))
    return redirect(_list_of(saved))


def _list_of(view: View) -> str:
    here = reverse("deadletters:letters")
    return f"{here}?{view.query}" if view.filters is not None and view.query else here


def _typed(request: HttpRequest) -> dict[str, Any]:
    return {"name": request.POST.get("name", ""), "is_shared": request.POST.get("shared") == "yes"}


def _page(request: HttpRequest, context: dict[str, Any], *, status: int = 200) -> HttpResponse:
    shown = context["view"]
    stored = {
        "name": shown.name if shown else "",
        "query": shown.query if shown else "",
        "shared": "yes" if shown and shown.is_shared else "",
    }
    typed = {name: request.POST.get(name, "") for name in stored} if status == 422 else {}
    given = stored | {name: text for name, text in typed.items() if name in request.POST or name == "shared"}
    limits = {"max_name": savedviews.MAX_NAME, "max_query": savedviews.MAX_QUERY}
    names = filternames.of(shown.filters) if shown and shown.filters else None
    context = {**context, **limits, "given": given, "named": names}
    return render(request, "deadletters/letters/view.html", context, status=status)


def _missing(request: HttpRequest) -> HttpResponse:
    error = _("There is no such saved view, or it is another person's.")
    return no_such(request, "deadletters/letters/refused.html", error, error=error)
