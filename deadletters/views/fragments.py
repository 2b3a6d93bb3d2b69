"""Parts of pages, as htmx asks for them."""

from django.http import HttpRequest
from django_htmx.middleware import HtmxDetails


def wants_fragment(request: HttpRequest) -> bool:
    """Say whether htmx asks for a part of a page; a history restore wants the page."""
    htmx: HtmxDetails | None = getattr(request, "htmx", None)  # a host may lack the middleware
    return bool(htmx) and htmx is not None and not htmx.history_restore_request
