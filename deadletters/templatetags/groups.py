"""Rows of the list of failure groups: titles with their data greyed, small charts, what is offered."""

import re
from collections.abc import Mapping
from datetime import datetime

from django import template
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from deadletters.models import Disposition, FailureGroup, GroupState
from deadletters.queries.grouprows import Row
from deadletters.templatetags.deadletters import group_state, icon, name
from deadletters.words.commands import command_for
from deadletters.words.filters import GROUPED_BY, LetterFilter
from deadletters.words.sparkbars import SparkBars, sparkbars

register = template.Library()

_DATA = re.compile(r"(<(?:address|email|id|items|number|path|time|url|value)>)")
_LAYER = '<path class="series-{}" d="{}"/>'
MAX_BUILD = 40
"""Characters of a build in a chip."""


@register.simple_tag
def row_labels() -> Mapping[str, str]:
    """Return what all rows of the list say and lead to: looked up once, not in each of them."""
    return {
        "letters": reverse("deadletters:letters"),
        "prepare": reverse("deadletters:prepare_run"),
        "unread": _("New since your last visit"),
        "open": _("Open"),
        "of": _("of"),
        "again": _("failed again"),
        "none": _("none"),
        "first": _("first"),
        "oldest": _("oldest"),
        "oldest_after": _("oldest after"),
        "owner": _("Owner"),
        "nobody": _("nobody"),
        "view_run": _("View run"),
        "recover": _("Recover"),
        "nothing_yet": _("Prepare a run; nothing is sent yet"),
        "more": _("More for"),
        "all_verbs": _("What can be done…"),
    }


@register.filter
def greyed(text: str) -> SafeString:
    """Render a message's template, masked already, with the data in it greyed."""
    parts = _DATA.split(text)
    return format_html_join(
        "", "{}", ((format_html('<i class="var">{}</i>', part) if at % 2 else part,) for at, part in enumerate(parts))
    )


@register.simple_tag
def triage_state(group: FailureGroup) -> SafeString:
    """Render the state of a group's triage as a chip, with the build in which it is fixed."""
    if group.state != GroupState.FIXED or not group.fixed_in_generation:
        return group_state(group)
    build = name(group.fixed_in_generation)
    short = build if len(build) <= MAX_BUILD else f"{build[: MAX_BUILD - 1]}…"
    return format_html(
        '<span class="chip group-fixed" title="{}">{}Fixed in {}</span>', build, icon("group-fixed"), short
    )


@register.filter
def is_held(group: FailureGroup) -> bool:
    """Say whether a person holds the group's letters."""
    return group.operator_disposition == Disposition.HOLD_INDEFINITELY


@register.simple_tag
def bars_of(row: Row, now: datetime) -> SparkBars:
    """Draw a group's deaths of the last hours by build, the present hour last."""
    names = {build: name(build) or "–" for build in {build for counts in row.hours for build in counts}}
    named = [{names[build]: n for build, n in counts.items()} for counts in row.hours]
    this_hour = now.replace(minute=0, second=0, microsecond=0)
    return sparkbars(named, width=96, height=26, ends_at=this_hour)


@register.simple_tag
def again_bars(row: Row, now: datetime) -> SparkBars:
    """Draw when a group's open letters died again after a recovery, in the last hours."""
    this_hour = now.replace(minute=0, second=0, microsecond=0)
    return sparkbars([{"": n} for n in row.again_hours], width=96, height=10, ends_at=this_hour)


@register.simple_tag
def drawn(bars: SparkBars, of: str = "") -> SafeString:
    """Render a small chart; `of`: what it counts, where that is not all deaths."""
    return format_html(
        '<svg class="sparkbars{of_again}" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img"'
        ' aria-label="{said}"><title>{said}</title><path class="ground" d="M0 {height}H{width}"/>{layers}</svg>',
        of_again=" of-again" if of else "",
        width=bars.width,
        height=bars.height,
        said=f"{of}: {bars.summary}" if of else bars.summary,
        layers=format_html_join("", _LAYER, ((layer.index, layer.path) for layer in bars.layers)),
    )


@register.filter
def open_letters(row: Row) -> str:
    """Return the query string of a group's open letters."""
    return _opens(row.group).query()


@register.simple_tag
def open_query(group: FailureGroup) -> str:
    """Return the query string of a group's open letters."""
    return _opens(group).query()


@register.simple_tag
def recover_command(group: FailureGroup) -> str:
    """Return the command that prepares what the row's button does."""
    return command_for("recover", filters=_opens(group))


def _opens(group: FailureGroup) -> LetterFilter:
    return LetterFilter(group=str(group.group_id), status="open")


@register.filter
def grouping_name(by: str) -> str:
    """Return for people what letters are put together by."""
    return GROUPED_BY[by].capitalize()


@register.filter
def spaced_reason(value: str, by: str) -> str:
    """Return a value as people read it: a reason is a name of the code."""
    return value.replace("_", " ") if by == "reason" else value
