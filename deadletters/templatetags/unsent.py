"""The tags of what was typed and chosen before a sign-in."""

from collections.abc import Mapping
from typing import Any

from django import template
from django.urls import resolve

from deadletters.views import many
from deadletters.views import unsent as kept

register = template.Library()

GO_ON = ("ask_many", "prepare_run")
"""Names of the URLs that take letters and do nothing yet: what was chosen is sent to them again by a button."""


@register.simple_tag(takes_context=True)
def unsent(context: Mapping[str, Any]) -> kept.Unsent | None:
    """Return the form that was sent without a session, once."""
    request = context.get("request")
    return None if request is None else kept.take(request)


@register.inclusion_tag("deadletters/_go_on.html", takes_context=True)
def go_on(context: Mapping[str, Any], lost: kept.Unsent) -> Mapping[str, Any]:
    """Show the button that goes on with the letters that were chosen; nothing where none were."""
    if lost.chosen is None or resolve(lost.action).url_name not in GO_ON:
        return {}
    verb = lost.chosen.get("verb", "")
    return {
        "lost": lost,
        "fields": [(name, value) for name, values in lost.chosen.lists() for value in values],
        "name": many.NAMES.get(verb, many.RECOVER),
        "n": len(lost.chosen.getlist("letter")) if lost.chosen.get("scope") == "picked" else None,
        "csrf_token": context.get("csrf_token"),
    }
