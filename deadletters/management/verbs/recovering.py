"""`recover`: one letter at once; several, or all that match, as a run."""

from typing import Any
from uuid import UUID

from deadletters import triage
from deadletters.management.verbs.calls import FINE, NOT_ALL, Call, add_ids, verb
from deadletters.triage import Recovery


def add(verbs: Any) -> None:
    add_ids(verb(verbs, "recover", run_recover, "send dead letters back to their queues"))


def run_recover(call: Call) -> int:
    (dead_letter_id,) = call.options.ids
    recovery = triage.recover(dead_letter_id=dead_letter_id, user=call.user)
    _answer(call, dead_letter_id, recovery)
    return FINE if recovery.is_sent else NOT_ALL


def _answer(call: Call, dead_letter_id: UUID, recovery: Recovery) -> None:
    at = recovery.at.isoformat() if recovery.at else None
    values = {
        "dead_letter_id": str(dead_letter_id),
        "outcome": str(recovery.sent),
        "by": recovery.by or None,
        "at": at,
    }
    by = f", by {recovery.by} at {at}" if recovery.by else ""
    call.answer(values, f"{dead_letter_id}  {str(recovery.sent).replace('_', ' ')}{by}")
