"""Recovery runs in words, chips and meters."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django import template
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext as _

from deadletters.models import FailureGroup, RecoveryRun, RunKind
from deadletters.recovery.preview import Preview
from deadletters.templatetags.deadletters import MAX_NAME, group_title, icon, masked
from deadletters.templatetags.deadletters import name as name_for_people
from deadletters.words.progress import NAMES, Meter, span_words
from deadletters.words.progress import meter as draw_meter
from deadletters.words.scopes import fingerprint_in
from queues.words.text import cut, visible

register = template.Library()

MAX_TITLE = 120
"""Characters of a group's title inside other words."""

MAX_CHIP = 60
"""Characters of a name in a chip."""

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
def run_title(run: RecoveryRun, group: FailureGroup | None) -> str:
    """Say what a run is asked to bring back, with the title of its group where that is known, else its id."""
    words = masked(run.scope_words)
    if not group:
        return visible(cut(words, MAX_NAME))
    title = f"“{_short(group_title(group), MAX_TITLE)}”"
    if run.group_id is None:
        fingerprint = fingerprint_in(run.scope)
        return visible(cut(words.replace(fingerprint, f"{fingerprint}, {title}") if fingerprint else words, MAX_NAME))
    for written in (str(run.group_id), run.group_id.hex):
        words = words.replace(written, title)
    return visible(cut(words, MAX_NAME))


@register.simple_tag
def fault(name: str, known: Mapping[str, FailureGroup]) -> SafeString:
    """Render what a risk was found by: the fingerprint of a known group as a link to it, else a chip."""
    group = known.get(name) if known else None
    if group is None:
        return format_html('<bdi class="chip">{}</bdi>', _short(name_for_people(name), MAX_CHIP))
    address = reverse("deadletters:group", args=[group.group_id])
    return format_html('<a class="chip" href="{}">{}</a>', address, _short(group_title(group), MAX_TITLE))


@register.filter
def span(seconds: float) -> str:
    """Say a time in one unit."""
    return span_words(seconds)


def _short(text: str, limit: int) -> str:
    return Truncator(text).chars(limit)


@register.filter
def at_most(typed: str, most: int) -> str:
    """Return a number that was typed, or the most that it can come to; what is no number stays as it is."""
    return str(most) if typed.isascii() and typed.isdigit() and int(typed[:18]) > most else typed


@register.filter
def letters_n(number: int) -> str:
    """Say a number of letters."""
    return "1 letter" if number == 1 else f"{number:,} letters"


@register.filter
def recover_of(some: int, waiting: int) -> str:
    """Say how many of a run's waiting letters are recovered: both numbers, where they differ."""
    if some == waiting:
        return _("Recover %(all)s") % {"all": letters_n(waiting)}
    return _("Recover %(some)s of %(all)s") % {"some": f"{some:,}", "all": letters_n(waiting)}


@dataclass(frozen=True, kw_only=True)
class Sendable:
    """How many of a run's waiting letters would be sent as they are now, without those that a person holds and with
    them; `n` as the plan says. Not `is_known`: nobody has looked, or not at all of them, and the numbers are the most.
    """

    without_held: int
    with_held: int
    n: int
    is_known: bool


@register.simple_tag
def sendable(waiting: int, found: Preview | None, include_held: object) -> Sendable:
    """Return how many of the waiting letters would be sent."""
    looked = found if isinstance(found, Preview) else None
    if not waiting:
        return Sendable(without_held=0, with_held=0, n=0, is_known=True)
    if looked is None or looked.unsendable is None or looked.looked_at is not None:
        return Sendable(without_held=waiting, with_held=waiting, n=waiting, is_known=False)
    with_held = max(waiting - looked.unsendable.changed, 0)
    without_held = max(with_held - looked.unsendable.held, 0)
    n = with_held if include_held else without_held
    return Sendable(without_held=without_held, with_held=with_held, n=n, is_known=True)
