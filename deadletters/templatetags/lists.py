"""What a row of the list says of its letter, and the links that narrow or widen the list."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import urlencode

from django import template
from django.template import RequestContext
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from deadletters.models import DeadLetter, Disposition, RecoveryStatus
from deadletters.queries.letters import COUNT_CAP
from deadletters.queries.totals import Total
from deadletters.templatetags.deadletters import icon
from deadletters.words.filters import MAX_TEXT, SOURCES, LetterFilter
from deadletters.words.filters.letters import OTHER_SOURCES
from deadletters.words.filters.listfilter import ListFilter
from deadletters.words.policies import decisions_on

register = template.Library()

DIED_OFTEN = 3
"""Deaths from which on a letter is marked in red."""

_SOURCE_NAMES = {table: name for name, table in SOURCES.items()}
_DECIDED = {
    Disposition.RETRY_NOW: "retry now",
    Disposition.HOLD_INDEFINITELY: "held by a person",
    Disposition.MARK_PERMANENTLY_FAILED: "by a person",
}
_DECIDED_IN_FLIGHT = {
    Disposition.RETRY_NOW: "then retry",
    Disposition.HOLD_INDEFINITELY: "then hold",
    Disposition.MARK_PERMANENTLY_FAILED: "then give up",
}


@register.simple_tag
def without(filters: ListFilter, name: str) -> str:
    """Return the filter as a query string without one of its parts."""
    return filters.query(**{name: ""})


@dataclass(frozen=True)
class RowWords:
    """What all rows of a list have in common, so that a page looks it up once; `within`: as the letters' pages know
    the list.
    """

    within: str
    may_pick: bool
    may_recover: bool
    may_triage: bool
    narrowed: Callable[[str, str], str]
    pick: str = field(default_factory=lambda: _("Pick"))
    attempts: str = field(default_factory=lambda: _("Attempts"))
    recover: str = field(default_factory=lambda: _("Recover"))
    recover_this: str = field(default_factory=lambda: _("Recover this letter"))
    more: str = field(default_factory=lambda: _("More for"))
    no_reason: str = field(default_factory=lambda: _("no reason recorded"))
    empty_reason: str = field(default_factory=lambda: _("empty reason"))


@register.simple_tag(takes_context=True)
def row_words(context: RequestContext) -> RowWords:
    """Return what the rows of the list have in common that the page shows."""
    shown = context.get("filters")
    filters = shown if isinstance(shown, LetterFilter) else LetterFilter()
    address = reverse("deadletters:letters")
    may = context["perms"]["deadletters"]
    return RowWords(
        within=f"?{urlencode({'in': filters.query()})}" if filters is shown else "",
        may_pick=bool(context.get("picking")) and (may["recover"] or may["triage"]),
        may_recover=may["recover"],
        may_triage=may["triage"],
        narrowed=cache(lambda name, value: f"{address}?{filters.query(**{name: value})}"),
    )


@register.simple_tag
def narrowed(words: RowWords, name: str, value: Any) -> str:
    """Return the address of the list with one filter more."""
    return words.narrowed(name, str(value))


@register.filter
def source_key(source: str) -> str:
    """Return a source table's name as it is filtered by: that of another program by its own, where a filter may be."""
    is_name = bool(source) and source == source.strip() and len(source) <= MAX_TEXT
    return _SOURCE_NAMES.get(source, source if is_name else OTHER_SOURCES)


@register.simple_tag
def decided(letter: DeadLetter) -> str:
    """Say what was decided about a letter, where its state does not say it; empty where nothing was."""
    disposition = Disposition(letter.operator_disposition)
    if disposition is Disposition.NONE or letter.recovery_status == RecoveryStatus.RECOVERED:
        return ""
    if letter.recovery_status == RecoveryStatus.RECOVERING:
        return _DECIDED_IN_FLIGHT[disposition]
    if letter.held_by_group is not None:
        return "with its group"
    return "by a person" if letter.recovery_status == RecoveryStatus.HELD else _DECIDED[disposition]


@register.filter
def total_n(total: Total | None) -> str:
    """Say how many letters match; empty where that was not counted."""
    if total is None:
        return ""
    return f"{COUNT_CAP:,}+" if total.is_capped else f"{total.n:,}"


@register.filter
def sendable_n(total: Total) -> str:
    """Say how many letters a recovery can send, as far as that is known."""
    if total.is_capped:
        return f"{COUNT_CAP:,}+"
    return f"{total.sendable:,}" if total.is_sure else _("up to %(n)s") % {"n": f"{total.sendable:,}"}


@register.filter
def decisions(letter: DeadLetter) -> Sequence[str]:
    """Return what a person may decide about a letter as it is."""
    return decisions_on(letter.recovery_status, letter.operator_disposition)


@register.simple_tag
def attempts(letter: DeadLetter) -> SafeString | str:
    """Render how often a letter's message ran and died; in amber once it died again, in red once it died often."""
    if letter.deaths < 2:
        return str(letter.attempts_when_dlq)
    kind = "often" if letter.deaths >= DIED_OFTEN else "again"
    return format_html(
        '{} <span class="chip deaths-{}">{}died {}×</span>',
        letter.attempts_when_dlq,
        kind,
        icon("group-regressed"),
        f"{letter.deaths:,}",
    )
