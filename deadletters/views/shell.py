"""The commands that do what a page offers, for those who would rather have them in a shell or a runbook."""

from collections.abc import Sequence

from django.http import HttpRequest

from deadletters.models import DeadLetter, FailureGroup, RecoveryRun, RecoveryStatus, RunState
from deadletters.queries import runs
from deadletters.triage import edits
from deadletters.words import access
from deadletters.words.commands import command_for
from deadletters.words.filters import LetterFilter

FILL_IN = "…"
"""Stands for what a person writes."""


def of_letter(request: HttpRequest, letter: DeadLetter, decisions: Sequence[str]) -> Sequence[str]:
    """Return the commands for what this person may do to the letter as it is."""
    letter_id, user = letter.dead_letter_id, request.user
    lines = [command_for("show", letter_id)]
    if user.has_perm(access.RECOVER) and letter.recovery_status in (RecoveryStatus.PENDING, RecoveryStatus.HELD):
        lines.append(command_for("recover", letter_id))
    if user.has_perm(access.TRIAGE):
        lines += [command_for(decision.replace("_", "-"), letter_id) for decision in decisions]
        lines.append(command_for("triage", letter_id, owner=FILL_IN, why=FILL_IN))
        lines.append(command_for("note", letter_id, text=FILL_IN))
    if user.has_perm(access.EDIT_PAYLOAD) and not edits.why_not(letter):
        lines.append(command_for("edit", letter_id, show=True))
        lines.append(command_for("edit", letter_id, file="payload.json", why=FILL_IN))
    if user.has_perm(access.PURGE):
        lines.append(command_for("purge", letter_id, why=FILL_IN))
    return lines


def of_list(request: HttpRequest, filters: LetterFilter) -> Sequence[str]:
    """Return the commands for a list: to read it, to recover and to purge what is on it."""
    lines = [command_for("list", filters=filters)]
    if request.user.has_perm(access.RECOVER):
        lines.append(command_for("recover", filters=filters))
    if request.user.has_perm(access.PURGE):
        lines.append(command_for("purge", filters=filters, why=FILL_IN))
    return lines


def of_group(request: HttpRequest, group: FailureGroup) -> Sequence[str]:
    """Return the commands for a group and its letters."""
    lines = list(of_list(request, LetterFilter(group=str(group.group_id))))
    if request.user.has_perm(access.TRIAGE):
        lines.append(command_for("triage", group=group.group_id, owner=FILL_IN, why=FILL_IN))
        lines.append(command_for("note", group=group.group_id, text=FILL_IN))
    return lines


def of_run(request: HttpRequest, run: RecoveryRun) -> Sequence[str]:
    """Return the commands for a recovery run as it is."""
    lines = [command_for("runs show", run.run_id), command_for("runs items", run.run_id, state="failed_again")]
    if not request.user.has_perm(access.RECOVER) or run.stop_reason:
        return lines
    if run.state == RunState.READY and run.starts_at is None:
        lines.append(command_for("runs start", run.run_id, count=runs.to_send(run.run_id)))
    by_state = {RunState.RUNNING: ["pause", "stop"], RunState.PAUSED: ["resume", "stop"], RunState.READY: ["stop"]}
    return [*lines, *(command_for(f"runs {verb}", run.run_id) for verb in by_state.get(RunState(run.state), []))]
