"""Recovery runs in words, chips and meters."""

from collections.abc import Mapping
from datetime import datetime

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from deadletters.models import RecoveryRun, RunKind
from deadletters.templatetags.deadletters import icon
from deadletters.words.progress import NAMES, Meter, span_words
from deadletters.words.progress import meter as draw_meter

register = template.Library()

ICONS = {
    "recovered": "state-recovered",
    "failed_again": "group-regressed",
    "failed_differently": "state-given-up",
    "no_answer": "clock",
    "skipped": "skip",
    "sent": "state-recovering",
    "waiting": "arrow",
}
_RUN_STATES = {
    "freezing": ("state-recovering", "state-recovering", "Collecting"),
    "ready": ("clock", "state-open", "Waits"),
    "running": ("state-recovering", "state-recovering", "Running"),
    "paused": ("pause", "state-held", "Paused"),
    "stopped": ("stop", "state-given-up", "Stopped"),
    "finished": ("state-recovered", "state-recovered", "Finished"),
}
_KINDS = {RunKind.PERSON: "by a person", RunKind.SCHEDULE: "by the schedule", RunKind.REPLAY: "for a new build"}


@register.simple_tag
def run_state(run: RecoveryRun) -> SafeString:
    """Render the state of a run as a chip with a shape."""
    shape, key, name = _RUN_STATES[run.state]
    return format_html('<span class="chip {}">{}{}</span>', key, icon(shape), name)


@register.simple_tag
def item_state(state: str) -> SafeString:
    """Render how a letter's recovery stands as a chip with a shape."""
    return format_html('<span class="chip item-{}">{}{}</span>', state, icon(ICONS[state]), _name(state))


@register.filter
def item_icon(state: str) -> str:
    """Return the name of a state's icon."""
    return ICONS[state]


@register.filter
def item_name(state: str) -> str:
    """Return the name of a letter's state in a run for people."""
    return _name(state)


def _name(state: str) -> str:
    return NAMES[state].partition(",")[0].capitalize()


@register.filter
def run_kind(run: RecoveryRun) -> str:
    """Say who began a run."""
    return _KINDS.get(RunKind(run.kind), run.kind)


@register.simple_tag
def meter(counts: Mapping[str, int], width: int = 600, height: int = 18) -> Meter:
    """Draw a run's letters by state."""
    return draw_meter(counts, width=width, height=height)


@register.simple_tag
def took(run: RecoveryRun, now: datetime) -> str:
    """Say how long a run has lasted; empty for one that has not begun."""
    if run.started_at is None:
        return ""
    return span_words(((run.finished_at or now) - run.started_at).total_seconds())


@register.filter
def span(seconds: float) -> str:
    """Say a time in one unit."""
    return span_words(seconds)


@register.filter
def letters_n(number: int) -> str:
    """Say a number of letters."""
    return "1 letter" if number == 1 else f"{number:,} letters"
