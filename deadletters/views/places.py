"""Where a browser may come back to: the pages, and not what only takes a form."""

from urllib.parse import urlsplit

from django.http import HttpRequest
from django.shortcuts import resolve_url
from django.urls import Resolver404, ResolverMatch, resolve
from django.utils.http import url_has_allowed_host_and_scheme

PAGES = (
    *("overview", "region", "letters", "ask_many", "letter", "edit", "version", "purge"),
    *("groups", "group", "group_menu", "group_of", "subjects", "subject"),
    *("runs", "run", "run_preview", "audit"),
    *("queues", "live_messages", "live_message", "held_streams", "destinations", "workers"),
)
"""Names of the URLs that a browser may come back to after the sign-in; the others are actions and fragments."""


def referring_page(request: HttpRequest, otherwise: str = "deadletters:overview") -> str:
    """Return the page of this site that a request came from; `otherwise` names the one for a request from elsewhere."""
    url = request.headers.get("HX-Current-URL") or request.headers.get("Referer") or ""
    if not url_has_allowed_host_and_scheme(url, {request.get_host()}):
        return resolve_url(otherwise)
    parts = urlsplit(url)
    if _is_action(parts.path):
        return resolve_url(otherwise)
    return f"{parts.path}?{parts.query}" if parts.query else parts.path


def _is_action(path: str) -> bool:
    """Say whether nobody can come back to an address of ours: the answer to a form stands under the form's own."""
    match = _match(path)
    return match is not None and match.app_name == "deadletters" and match.url_name not in PAGES


def page_above(request: HttpRequest, otherwise: str = "deadletters:overview") -> str:
    """Return the page that an address lies below, such as that of the letter for what is done to it."""
    above = request.path.rstrip("/")
    while "/" in above:
        above = above[: above.rfind("/")]
        for path in (f"{above}/", above):
            match = _match(path)
            if match is not None and match.app_name == "deadletters" and match.url_name in PAGES:
                query = request.GET.urlencode() if match.kwargs else ""
                return f"{path}?{query}" if query else path
    return resolve_url(otherwise)


def _match(path: str) -> ResolverMatch | None:
    try:
        return resolve(path)
    except Resolver404:
        return None
