"""Answers to what goes wrong: a page for a browser, a line of text where htmx asked for a part of one."""

from typing import Any

from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.cache import add_never_cache_headers, patch_vary_headers
from django.utils.translation import gettext as _

from deadletters.views.fragments import wants_fragment
from deadletters.views.places import page_above

RETRY_AFTER_SECONDS = 10


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer 400, or 413 to more than the server takes at once."""
    if isinstance(exception, RequestDataTooBig):
        said = _("That is more than the server takes at once. Nothing was changed; shorten it and try again.")
        return _answer(request, 413, "413.html", said)
    return _answer(request, 400, "400.html", _("The server did not understand that. Nothing was changed."))


def not_understood(request: HttpRequest, why: str) -> HttpResponse:
    """Answer 400 to an address that says what no page understands."""
    return _answer(request, 400, "400.html", why, why=why)


def no_such(request: HttpRequest, page: str, said: str, *, status: int = 404, **context: Any) -> HttpResponse:
    """Answer that a thing is not there: with the page that says so, or in a line of text."""
    return _answer(request, status, page, said, **context)


def not_allowed(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Answer 403 to who lacks the right."""
    return _answer(request, 403, "403.html", _("You lack the right to do this. Nothing was changed."))


def out_of_date(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Answer 403 to a form without the right token: its page is from another session."""
    said = _("This page is out of date. Nothing was changed: reload it and try again.")
    return _answer(request, 403, "403_csrf.html", said)


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Answer 404."""
    return _answer(request, 404, "404.html", _("It is not there any more. Reload the page to see what is."))


def wrong_method(request: HttpRequest, *, allowed: str) -> HttpResponse:
    """Answer 405 to who opens an address that only takes a form: a bookmark of it, or a reload after a sign-in."""
    said = _("Nothing was done: this address only takes a form.")
    response = _answer(request, 405, "405.html", said, above=page_above(request))
    response["Allow"] = allowed
    return response


def took_too_long(request: HttpRequest, *, is_safe: bool) -> HttpResponse:
    """Answer 503 to what the database was not ready with in time; what only reads may be asked for again.

    Its page needs the session no more than that of a failure where that may be what was waited for.
    """
    if is_safe:
        said = _("It took too long, and was given up. Try again, or narrow it down.")
    else:
        said = _("It took too long, and was given up. Look whether it was done before you try again.")
    again = request.get_full_path() if is_safe else ""
    if wants_fragment(request) or hasattr(request, "_cached_user"):  # as Django's middleware keeps who it is
        response = _answer(request, 503, "503.html", said, explained=said, again=again)
    else:
        response = _kept_apart(render(None, "503.html", {"explained": said, "again": again}, status=503))
    response["Retry-After"] = str(RETRY_AFTER_SECONDS)
    return response


def failed(request: HttpRequest) -> HttpResponse:
    """Answer 500; its page needs neither session nor database, for these may be what failed."""
    said = _("The server failed, and has logged why. Look whether it was done before you try again.")
    if wants_fragment(request):
        return _answer(request, 500, "500.html", said)
    return _kept_apart(render(None, "500.html", status=500))


def _answer(request: HttpRequest, status: int, page: str, said: str, **context: Any) -> HttpResponse:
    if wants_fragment(request):
        return _kept_apart(HttpResponse(said, status=status, content_type="text/plain"))
    return _kept_apart(render(request, page, context, status=status))


def _kept_apart(response: HttpResponse) -> HttpResponse:
    patch_vary_headers(response, ["HX-Request"])
    add_never_cache_headers(response)
    return response
