"""The time of a request: what it asks of the database ends with it, and the answer says so."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import structlog
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponseBase

from deadletters.conf import conf
from deadletters.queries import deadlines
from deadletters.views import errors

log = structlog.get_logger(__name__)

SAFE = ("GET", "HEAD", "OPTIONS", "TRACE")

T = TypeVar("T")


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


def streamed(pieces: Iterable[T]) -> Iterator[T]:
    """Yield what is read after the view has returned, each piece in a time of its own; one that is late ends it."""
    return deadlines.in_pieces(pieces, conf().page_seconds)
