"""`recover`: one letter at once; several, or all that match, as a run that is previewed before it starts."""

import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from typing import Any
from uuid import UUID

from django.core.management.base import CommandError
from django.db import transaction

from deadletters import triage
from deadletters.management.verbs import following
from deadletters.management.verbs.calls import (
    FINE,
    NOT_ALL,
    WRONG_USE,
    Call,
    add_filters,
    add_reason,
    add_yes,
    scope_of,
    verb,
)
from deadletters.management.verbs.editing import put
from deadletters.management.verbs.plans import add_plan, plan_of
from deadletters.models import RecoveryRun, RunState
from deadletters.queries import runs as reading
from deadletters.recovery import runs
from deadletters.recovery.preview import Breakdown, Preview, preview
from deadletters.recovery.stepping import step_run
from deadletters.triage import Recovery, edits
from deadletters.words.plans import Plan
from deadletters.words.scopes import Letters, Matching, Scope

LOOK_SECONDS = 0.5
"""How often it is looked whether a run has collected its letters."""


def add(verbs: Any) -> None:
    parser = verb(verbs, "recover", run_recover, "send dead letters back: one at once, several as a run with a canary")
    parser.add_argument("ids", metavar="ID", nargs="*", type=UUID, help="dead letters")
    parser.add_argument("--all", action="store_true", help="all that match the filters")
    parser.add_argument("--everything", action="store_true", help="all of them, without a filter")
    parser.add_argument("--edited-file", metavar="FILE", help="with one ID: put this payload into it first; - reads it")
    add_reason(parser)
    add_yes(parser)
    _add_wait(parser)
    add_plan(parser)
    add_filters(parser)


def _add_wait(parser: ArgumentParser) -> None:
    parser.add_argument("--wait", action="store_true", help="follow it to its end; 0 = all of it was recovered")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="follow it no longer than that")


def run_recover(call: Call) -> int:
    """Recover what is named; the exit code says whether all of it was sent, with --wait whether it was recovered."""
    filters = scope_of(call)
    ids = list(dict.fromkeys(call.options.ids))
    if filters is None and len(ids) == 1:
        return _recover_one(call, ids[0])
    if call.options.edited_file:
        raise CommandError("--edited-file goes with one letter.", returncode=WRONG_USE)
    return _recover_many(
        call, Letters(ids=ids) if filters is None else Matching(filters=filters), plan_of(call.options)
    )


def _recover_one(call: Call, dead_letter_id: UUID) -> int:
    if call.options.edited_file:
        draft = edits.draft(dead_letter_id=dead_letter_id, user=call.user)
        put(call, dead_letter_id, draft.row_version, file=call.options.edited_file)
    recovery = triage.recover(dead_letter_id=dead_letter_id, user=call.user)
    if recovery.is_sent and call.options.wait:
        return following.letter(call, dead_letter_id)
    _answer(call, dead_letter_id, recovery)
    return FINE if recovery.is_sent else NOT_ALL


def _answer(call: Call, dead_letter_id: UUID, recovery: Recovery) -> None:
    at = recovery.at.isoformat() if recovery.at else None
    outcome, by = str(recovery.sent), recovery.by or None
    values = {"dead_letter_id": str(dead_letter_id), "outcome": outcome, "by": by, "at": at}
    call.answer(values, f"{dead_letter_id}  {outcome.replace('_', ' ')}" + (f", by {by} at {at}" if by else ""))


def _recover_many(call: Call, scope: Scope, plan: Plan) -> int:
    if not (call.options.yes or sys.stdin.isatty()):
        raise CommandError(f"{scope.words()}: say with --yes that they are to be recovered.", returncode=WRONG_USE)
    run = _frozen(runs.prepare(user=call.user, scope=scope, reason=call.options.why))
    if run.state != RunState.READY:
        following.tell(call, run.run_id)
        return NOT_ALL
    for line in _lines(run, preview(run.run_id), plan):
        call.say(line)
    try:
        call.confirm("Recover them?")
    except CommandError:
        runs.stop(user=call.user, run_id=run.run_id, reason="not confirmed")
        raise
    runs.start(user=call.user, run_id=run.run_id, plan=plan, reason=call.options.why, count=reading.to_send(run.run_id))
    if call.options.wait:
        return following.run(call, run.run_id)
    following.tell(call, run.run_id)
    return FINE


def _frozen(run_id: UUID) -> RecoveryRun:
    """Return the run once its letters are collected: by a worker, or by this command when none is quicker."""
    while True:
        run = reading.get(run_id)
        if run.state != RunState.FREEZING:
            return run
        with transaction.atomic():
            step_run(run_id)
        if reading.get(run_id).state == RunState.FREEZING:
            time.sleep(LOOK_SECONDS)


def _lines(run: RecoveryRun, seen: Preview, plan: Plan) -> Iterator[str]:
    count = run.frozen_count or 0
    yield f"{run.scope_words}: {count:,} letter{'' if count == 1 else 's'}, frozen as run {run.run_id}"
    for part in (seen.sources, seen.types, seen.targets):
        if part is not None and part.shares:
            yield _shares(part)
    if seen.ages is not None:
        told = ", ".join(f"{age.n:,} {age.name}" for age in seen.ages.ages if age.n)
        yield f"  Died within: {told}"
    if seen.streams is not None and seen.streams.streams:
        yield f"  Streams: {seen.streams.streams:,}, head first, one at a time"
    for risk in seen.risks:
        number = "an unknown number" if risk.n is None else f"{risk.n:,}"
        yield f"  Beware: {risk.title} ({number}). {risk.meaning}"
    yield f"  Plan: {plan.words()}"


def _shares(part: Breakdown) -> str:
    told = ", ".join(f"{share.name} {share.n:,}" for share in part.shares)
    others = f" and {part.others:,} of {part.other_names:,} others" if part.others else ""
    return f"  {part.title}: {told}{others}"
