"""Operator actions: one row for each thing that a person does, in that thing's transaction."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from deadletters.models import OperatorAction
from queues.words.text import storable


@dataclass(frozen=True, kw_only=True)
class Actor:
    """Who acts: a name to show and an id to look up, both text, so that they outlive the user."""

    name: str
    id: str = ""


def record(
    *,
    actor: Actor,
    action: str,
    dead_letter_id: UUID | None = None,
    group_id: UUID | None = None,
    run_id: UUID | None = None,
    message_id: UUID | None = None,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    reason: str = "",
) -> OperatorAction:
    """Append one action; `before` and `after` hold what changed, as JSON."""
    return OperatorAction.objects.create(
        actor=actor.name,
        actor_id=actor.id,
        action=action,
        dead_letter_id=dead_letter_id,
        group_id=group_id,
        run_id=run_id,
        message_id=message_id,
        before=before,
        after=after,
        reason=storable(reason),
    )
