"""The gate before each view: signed in, permitted, in time, never cached, and never a page inside a fragment."""

from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Concatenate, ParamSpec

from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.cache import add_never_cache_headers, patch_vary_headers
from django_htmx.http import HttpResponseClientRedirect

from deadletters.views import unsent
from deadletters.views.errors import wrong_method
from deadletters.views.fragments import wants_fragment
from deadletters.views.places import PAGES, referring_page
from deadletters.views.timing import in_time

NOT_THIS_WAY = 405

P = ParamSpec("P")
View = Callable[Concatenate[HttpRequest, P], HttpResponseBase]
Gated = Callable[Concatenate[HttpRequest, P], HttpResponseBase]


def needs(*permissions: str) -> Callable[[View[P]], Gated[P]]:
    """Let only signed-in users with the permission, or one of them, reach the view, before any data is read.

    Who it is and what the view reads have one time; see `timing`.
    """

    def gate(view: View[P]) -> Gated[P]:
        @wraps(view)
        def gated(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
            return in_time(request, lambda: _let_in(request, permissions, partial(view, request, *args, **kwargs)))

        return gated

    return gate


def _let_in(
    request: HttpRequest, permissions: Sequence[str], answer: Callable[[], HttpResponseBase]
) -> HttpResponseBase:
    if not request.user.is_authenticated:
        return _to_sign_in(request)
    if not any(request.user.has_perm(permission) for permission in permissions):
        raise PermissionDenied(*permissions)
    response = answer()
    if response.status_code == NOT_THIS_WAY:
        response = wrong_method(request, allowed=response.headers["Allow"])
    patch_vary_headers(response, ["HX-Request"])
    add_never_cache_headers(response)
    unsent.remember(request, response)
    return response


def _to_sign_in(request: HttpRequest) -> HttpResponse:
    """Send a browser to the sign-in and back to where it was; htmx does so for the whole page."""
    if request.method == "POST":
        unsent.keep(request)
    if not wants_fragment(request):
        match = request.resolver_match
        here = request.get_full_path() if match is not None and match.url_name in PAGES else None
        if here and request.method != "POST":
            return redirect_to_login(here)
        return redirect_to_login(referring_page(request, here or "deadletters:overview"))
    target = redirect_to_login(referring_page(request))
    return HttpResponseClientRedirect(target.url)
