"""The gate before each view: signed in, permitted, never cached, and never a page inside a fragment."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec
from urllib.parse import urlsplit

from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import resolve_url
from django.urls import Resolver404, resolve
from django.utils.cache import add_never_cache_headers, patch_vary_headers
from django.utils.http import url_has_allowed_host_and_scheme
from django_htmx.http import HttpResponseClientRedirect
from django_htmx.middleware import HtmxDetails

PAGES = (
    *("overview", "region", "letters", "letter", "edit", "version", "purge"),
    *("groups", "group", "group_menu", "group_of", "subjects", "subject"),
    *("runs", "run", "run_preview", "audit"),
    *("queues", "live_messages", "live_message", "held_streams", "destinations", "workers"),
)
"""Names of the URLs that a browser may come back to after the sign-in; the others are actions and fragments."""

P = ParamSpec("P")
View = Callable[Concatenate[HttpRequest, P], HttpResponseBase]
Gated = Callable[Concatenate[HttpRequest, P], HttpResponseBase]


def needs(*permissions: str) -> Callable[[View[P]], Gated[P]]:
    """Let only signed-in users with the permission, or one of them, reach the view, before any data is read."""

    def gate(view: View[P]) -> Gated[P]:
        @wraps(view)
        def gated(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
            if not request.user.is_authenticated:
                return _to_sign_in(request)
            if not any(request.user.has_perm(permission) for permission in permissions):
                raise PermissionDenied(*permissions)
            response = view(request, *args, **kwargs)
            patch_vary_headers(response, ["HX-Request"])
            add_never_cache_headers(response)
            return response

        return gated

    return gate


def wants_fragment(request: HttpRequest) -> bool:
    """Say whether htmx asks for a part of a page; a history restore wants the page."""
    htmx: HtmxDetails | None = getattr(request, "htmx", None)  # a host may lack the middleware
    return bool(htmx) and htmx is not None and not htmx.history_restore_request


def _to_sign_in(request: HttpRequest) -> HttpResponse:
    """Send a browser to the sign-in and back to where it was; htmx does so for the whole page."""
    if not wants_fragment(request):
        match = request.resolver_match
        is_page = match is not None and match.url_name in PAGES
        return redirect_to_login(request.get_full_path() if is_page else referring_page(request))
    target = redirect_to_login(referring_page(request))
    return HttpResponseClientRedirect(target.url)


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
    try:
        match = resolve(path)
    except Resolver404:
        return False
    return match.app_name == "deadletters" and match.url_name not in PAGES
