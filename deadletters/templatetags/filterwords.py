"""Filters in words: what an id among them stands for is named, masked and cut."""

from collections.abc import Mapping, Sequence

from django import template
from django.utils.text import Truncator

from deadletters.models import FailureGroup, RecoveryRun
from deadletters.queries.filternames import Named
from deadletters.templatetags.deadletters import group_title, name
from deadletters.templatetags.runs import run_title
from deadletters.words.filters.listfilter import ListFilter
from queues.words.text import visible

register = template.Library()

MAX_TITLE = 80
"""Characters of a title among other words."""

ID_SHOWN = 8
"""Characters of an id that tell letters of one type apart."""


@register.simple_tag
def phrases(filters: ListFilter, named: Mapping[str, Named] | None = None) -> Sequence[tuple[str, str]]:
    """Return the filters in force as (name, words)."""
    return list(filters.phrases(_names(filters, named)))


@register.simple_tag
def filter_words(filters: ListFilter, named: Mapping[str, Named] | None = None) -> str:
    """Say a whole filter."""
    return filters.words(_names(filters, named))


def _names(filters: ListFilter, named: Mapping[str, Named] | None) -> Mapping[str, str]:
    return {key: _name(key, getattr(filters, key), one) for key, one in (named or {}).items()}


def _name(key: str, value: str, one: Named) -> str:
    if isinstance(one, FailureGroup):
        title = f"“{_short(visible(group_title(one)))}”"
        return f"{value}, {title}" if key == "fingerprint" else title
    if isinstance(one, RecoveryRun):
        return f"“{_short(run_title(one, None))}”"
    return f"{_short(name(one.message_type))} {str(one.pk)[:ID_SHOWN]}…"


def _short(text: str) -> str:
    return Truncator(text).chars(MAX_TITLE)
