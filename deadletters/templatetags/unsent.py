"""The tag of what was typed before a sign-in."""

from collections.abc import Mapping
from typing import Any

from django import template

from deadletters.views import unsent as kept

register = template.Library()


@register.simple_tag(takes_context=True)
def unsent(context: Mapping[str, Any]) -> kept.Unsent | None:
    """Return the form that was sent without a session, once."""
    request = context.get("request")
    return None if request is None else kept.take(request)
