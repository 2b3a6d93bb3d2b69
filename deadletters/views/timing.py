"""The time of a request: what it asks of the database ends with it, and the answer says so."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import structlog
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponseBase
from django.template.response import SimpleTemplateResponse

from deadletters.conf import conf
from deadletters.queries import deadlines
from deadletters.views import errors

log = structlog.get_logger(__name__)

SAFE = ("GET", "HEAD", "OPTIONS", "TRACE")

T = TypeVar("T")
View = Callable[..., HttpResponseBase]


def in_time(request: HttpRequest, answer: Callable[[], HttpResponseBase]) -> HttpResponseBase:
    """Return the answer, or 503 where the database takes longer than PAGE_SECONDS.

    All that a safe request reads has that time together, in one transaction; of any other each statement has it, since
    what it does may take several transactions.
    """
    limit = deadlines.of_request if request.method in SAFE else deadlines.patient
    seconds = conf().page_seconds
    try:
        with limit(seconds):
            return answer()
    except DatabaseError as exc:
        if not deadlines.is_over(exc):
            raise
        page = request.resolver_match.url_name if request.resolver_match else request.path
        log.warning("page_took_too_long", page=page, method=request.method, limit_seconds=seconds)
        return errors.took_too_long(request, is_safe=request.method in SAFE)


class EveryView:
    """A middleware, the last one, that gives its time to each view that is not of these pages: accounts, the admin."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        return self.get_response(request)

    def process_view(
        self, request: HttpRequest, view: View, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> HttpResponseBase | None:
        if request.resolver_match and request.resolver_match.app_name == "deadletters":
            return None
        return in_time(request, lambda: _rendered(view(request, *args, **kwargs)))


def _rendered(response: HttpResponseBase) -> HttpResponseBase:
    """Render an answer that Django would render later, out of its time."""
    return response.render() if isinstance(response, SimpleTemplateResponse) else response


def streamed(pieces: Iterable[T]) -> Iterator[T]:
    """Yield what is read after the view has returned, each piece in a time of its own; one that is late ends it."""
    return deadlines.in_pieces(pieces, conf().page_seconds)
