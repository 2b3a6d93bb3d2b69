"""`triage`: whose a letter or a group is, how long it is quiet, and what is known of a group."""

from argparse import Namespace
from typing import Any
from uuid import UUID

from django.core.management.base import CommandError

from deadletters import triage
from deadletters.management.verbs.calls import FINE, WRONG_USE, Call, add_reason, verb
from deadletters.views.parameters import read
from deadletters.words.errors import BadChange
from deadletters.words.filters import DISPOSITIONS

COLUMNS = {
    "owner": ("owner", "whose it is"),
    "quiet_until": ("quiet_until", "a time, in UTC without a zone"),
    "quiet_until_build": ("quiet_until_generation", "a build"),
    "quiet_until_count": ("quiet_until_count", "a number of letters; of a group"),
    "decision": ("operator_disposition", "hold or none; of a group, whose letters are held with it"),
    "state": ("state", "new, ongoing, fixed or resolved; of a group"),
    "fixed_in_build": ("fixed_in_generation", "the build with the fix; of a group"),
    "ticket": ("ticket", "a ticket; of a group"),
    "runbook": ("runbook", "what to do about it; of a group"),
}
"""Option to column and what it is; an empty value takes it away."""


def add(verbs: Any) -> None:
    parser = verb(
        verbs, "triage", run_triage, "change whose a letter or a group is, how long it is quiet, and the like"
    )
    parser.add_argument("id", metavar="ID", type=UUID, nargs="?", help="a dead letter")
    parser.add_argument("--group", metavar="ID", type=UUID, help="a group instead")
    for option, (_, told) in COLUMNS.items():
        parser.add_argument(f"--{option.replace('_', '-')}", metavar=option.rpartition("_")[2].upper(), help=told)
    add_reason(parser)


def run_triage(call: Call) -> int:
    asked = call.options
    if (asked.id is None) == (asked.group is None):
        raise CommandError("Name a dead letter, or with --group a group.", returncode=WRONG_USE)
    changes = _changes(asked)
    if not changes:
        raise CommandError("Say what to change.", returncode=WRONG_USE)
    given: dict[str, Any] = {"user": call.user, "changes": changes, "reason": asked.why}
    if asked.id is not None:
        changed = triage.change_letter(dead_letter_id=asked.id, **given)
    else:
        changed = triage.change_group(group_id=asked.group, **given)
    before, after = changed.as_json()
    said = ", ".join(f"{name.replace('_', ' ')}: {before[name] or '-'} → {after[name] or '-'}" for name in after)
    call.answer({"before": before, "after": after}, said or "Nothing was different; nothing was changed.")
    return FINE


def _changes(asked: Namespace) -> dict[str, object]:
    given = {column: text for option, (column, _) in COLUMNS.items() if (text := getattr(asked, option)) is not None}
    return {column: _read(column, text.strip()) for column, text in given.items()}


def _read(column: str, text: str) -> object:
    if column != "operator_disposition":
        return read(column, text)
    if text not in DISPOSITIONS:
        raise BadChange("decision", "must be one of " + ", ".join(DISPOSITIONS))
    return DISPOSITIONS[text]
