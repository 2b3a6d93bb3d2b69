"""Which transport publishes to a destination."""

from fnmatch import fnmatchcase
from typing import Any

from django.utils.module_loading import import_string

from queues.conf import TRANSPORTS, conf, route_of
from queues.transports.base import Transport
from queues.words.errors import NoRoute


def transport_to(destination: str | None) -> Transport:
    """Return the transport of the destination itself, else of the longest pattern that matches; raises NoRoute."""
    routes = conf().routes
    if destination is None:
        raise NoRoute(None)
    if destination in routes:
        return _transport(routes[destination])
    matching = [pattern for pattern in routes if fnmatchcase(destination, pattern)]
    if not matching:
        raise NoRoute(destination)
    return _transport(routes[max(matching, key=len)])


def _transport(route: Any) -> Transport:
    name, options = route_of(route)
    made: Transport = import_string(TRANSPORTS[str(name)])(**options)
    return made
