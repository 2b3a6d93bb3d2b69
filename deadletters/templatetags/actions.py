"""Tags of the audit: what people did, in words, and what they changed; all of it masked."""

from collections.abc import Sequence

from django import template

from deadletters.models import OperatorAction
from deadletters.queries import actions
from deadletters.queries.actions import Change
from deadletters.queries.audit import MAX_VALUES, Row
from deadletters.words.jsontexts import masked_head
from queues.words.redaction import mask_text
from queues.words.text import visible

register = template.Library()

_KINDS = {
    "recovers": ("recover", "run_start", "run_resume", "run_prepare", "restore", "edit", "run_now"),
    "stops": ("stop", "pause", "run_stop", "run_pause", "run_discard", "dead_letter"),
    "removes": ("purge",),
    "reveals": ("reveal", "download_payload", "export"),
}


@register.filter
def verb_kind(action: OperatorAction) -> str:
    """Return the family of an action, which colours its chip; its name says it in words."""
    return next((kind for kind, verbs in _KINDS.items() if action.action in verbs), "triages")


@register.filter
def said(action: OperatorAction) -> str:
    """Say an action in a line."""
    return visible(mask_text(actions.describe(action)))


@register.filter
def changes(action: OperatorAction) -> Sequence[Change]:
    """Return what an action changed, value by value."""
    return actions.changes_of(action)


@register.filter
def is_cut(row: Row) -> bool:
    """Say whether the values of an action are too long to be shown one by one."""
    return any(len(text) > MAX_VALUES for text in (row.before, row.after) if text)


@register.filter
def head(text: str) -> str:
    """Return how values begin that are too long to be shown."""
    return masked_head(text, MAX_VALUES)
