"""Live messages, pauses and destinations in words, chips and links."""

from datetime import UTC, datetime, timedelta

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from deadletters.queries.depths import Depth
from deadletters.queries.live import COUNT_CAP, Live
from deadletters.templatetags import trees
from deadletters.templatetags.deadletters import ago, icon
from deadletters.words.filters import SOURCES
from queues.models import CircuitState, Destination, PauseKind, SourcePause
from queues.words.sources import STOPPED_UNTIL

register = template.Library()

_UNITS = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s"))
_STATES = {
    "in_flight": ("running", "In flight"),
    "waiting": ("arrow", "Waiting"),
    "delayed": ("clock", "Delayed"),
    "stopped": ("stop", "Stopped"),
    "held": ("state-held", "Held"),
    "paused": ("pause", "Paused"),
    "gone": ("state-recovered", "Gone"),
}
_WHY = {
    "sent": "as its sender asked",
    "delayed": "as its handler asked",
    "failure": "after a failure",
    "worker_lost": "after a lost worker",
    "released": "given back, not counted",
}
_CIRCUITS = {
    CircuitState.CLOSED: ("state-recovered", "state-recovered", "Up"),
    CircuitState.OPEN: ("live-stopped", "state-given-up", "Down"),
    CircuitState.HALF_OPEN: ("state-recovering", "state-recovering", "Being tried"),
}


@register.simple_tag
def live_state(state: str) -> SafeString:
    """Render the state of a live message as a chip with a shape."""
    shape, name = _STATES.get(state, _STATES["waiting"])
    return format_html('<span class="chip live-{}">{}{}</span>', state, icon(shape), name)


@register.simple_tag
def circuit(row: Destination) -> SafeString:
    """Render whether a destination is up as a chip with a shape."""
    key, shape, name = _CIRCUITS[CircuitState(row.state)]
    return format_html('<span class="chip {}">{}{}</span>', key, icon(shape), name)


@register.simple_tag
def when(at: datetime | None, now: datetime) -> SafeString | str:
    """Render a past or a coming time: relative, with the absolute one in UTC behind it."""
    if at is None:
        return "–"
    if at >= STOPPED_UNTIL:
        return "not by itself"
    utc = at.astimezone(UTC)
    said = ago(at, now) if at <= now else _ahead(at - now)
    return format_html(
        '<time datetime="{}" title="{} UTC">{}</time>', utc.isoformat(), f"{utc:%Y-%m-%d %H:%M:%S}", said
    )


def _ahead(span: timedelta) -> str:
    """Say when something comes, in two units: "in 1 h" alone could be in nearly two."""
    seconds = int(span.total_seconds())
    if seconds < 1:
        return "now"
    for size, unit, part, smaller in _UNITS:
        if seconds >= size:
            rest = seconds % size // part
            return f"in {seconds // size:,} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"in {seconds} s"


@register.simple_tag
def lasting(since: datetime, now: datetime) -> SafeString:
    """Render how long something has lasted, with when it began behind it."""
    utc = since.astimezone(UTC)
    said = ago(since, now).removesuffix(" ago").replace("now", "a moment")
    return format_html(
        '<time datetime="{}" title="{} UTC">{}</time>', utc.isoformat(), f"{utc:%Y-%m-%d %H:%M:%S}", said
    )


@register.filter
def short_source(source: str) -> str:
    """Return a source's name in addresses and filters."""
    return next((short for short, table in SOURCES.items() if table == source), source)


@register.filter
def why_words(live: Live) -> str:
    """Say why a message waits for its time; empty when it is not known."""
    return _WHY.get(live.why, "")


@register.filter
def covers(pause: SourcePause) -> str:
    """Say what kind of thing a pause covers."""
    if pause.kind == PauseKind.SOURCE:
        return "the whole source"
    if pause.kind == PauseKind.DESTINATION:
        return "destination"
    return "perspective" if pause.source == SOURCES["perspectives"] else "type"


@register.filter
def capped(number: int) -> str:
    """Write a count that ends where counting does."""
    return f"{COUNT_CAP:,}+" if number > COUNT_CAP else f"{number:,}"


@register.filter
def tiles(depth: Depth) -> list[dict[str, str]]:
    """Return the parts of a source as they are shown; "paused" only where something is."""
    return [
        {"state": state, "name": _STATES[state][1], "number": f"{number:,}{'+' if state in depth.capped else ''}"}
        for state, number in depth.parts.items()
        if number or state != "paused"
    ]


@register.simple_tag
def json_tree(text: str) -> SafeString:
    """Render a JSON text as a tree, masked."""
    return trees.render(text)
