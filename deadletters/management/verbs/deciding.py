"""`hold`, `release`, `give-up`, `reopen` and `note`: what a person decides and writes."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.core.management.base import CommandError

from deadletters import triage
from deadletters.management.verbs.calls import FINE, NOT_ALL, WRONG_USE, Call, add_ids, add_reason, verb
from deadletters.models import Disposition
from deadletters.words.errors import BadChange, NoSuchLetter

DECISIONS = {
    "hold": (Disposition.HOLD_INDEFINITELY, "hold dead letters: nothing automatic recovers them"),
    "release": (Disposition.NONE, "open held dead letters again"),
    "give-up": (Disposition.MARK_PERMANENTLY_FAILED, "give dead letters up: they are not recovered any more"),
    "reopen": (Disposition.NONE, "open dead letters again that were given up"),
}


def add(verbs: Any) -> None:
    for name, (disposition, told) in DECISIONS.items():
        parser = verb(verbs, name, _deciding(disposition), told)
        add_ids(parser)
        add_reason(parser)
    note = verb(verbs, "note", run_note, "write a note on a dead letter, or on a group")
    note.add_argument("id", metavar="ID", type=UUID, nargs="?", help="a dead letter")
    note.add_argument("--group", metavar="ID", type=UUID, help="a group instead")
    note.add_argument("--text", required=True, help="what the next person should know")


def run_note(call: Call) -> int:
    asked = call.options
    if (asked.id is None) == (asked.group is None):
        raise CommandError("A note is on a dead letter, or with --group on a group.", returncode=WRONG_USE)
    note = triage.add_note(text=asked.text, user=call.user, dead_letter_id=asked.id, group_id=asked.group)
    call.answer({"note_id": note.pk}, "The note is written.")
    return FINE


def _deciding(disposition: Disposition) -> Callable[[Call], int]:
    def run(call: Call) -> int:
        outcomes = [_decide(call, each, disposition) for each in dict.fromkeys(call.options.ids)]
        return FINE if all(outcomes) else NOT_ALL

    return run


def _decide(call: Call, dead_letter_id: UUID, disposition: Disposition) -> bool:
    """Take a decision on one letter and write what came of it; a letter that has it already counts as done."""
    said, is_done = "done", True
    try:
        changed = triage.change_letter(
            dead_letter_id=dead_letter_id,
            user=call.user,
            changes={"operator_disposition": disposition.value},
            reason=call.options.why,
        )
        said = "done" if changed else "nothing to change"
    except BadChange as exc:
        said, is_done = str(exc), False
    except NoSuchLetter:
        said, is_done = "There is no such dead letter.", False
    values = {"dead_letter_id": str(dead_letter_id), "is_done": is_done, "said": said}
    call.answer(values, f"{dead_letter_id}  {said}")
    return is_done
