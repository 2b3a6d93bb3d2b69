"""A recovery that is followed to its end, and how its state is told."""

import time
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from deadletters.management.verbs.calls import FINE, NOT_ALL, Call
from deadletters.models import RecoveryRun, RecoveryStatus, RunState
from deadletters.queries import letters
from deadletters.queries import runs as reading
from deadletters.words.progress import NAMES, SHOWN, Progress

POLL_SECONDS = 1.0

ENDED = (RunState.STOPPED, RunState.FINISHED)


def run(call: Call, run_id: UUID) -> int:
    """Follow a run until it has ended and all its letters have; 0 = each of them was recovered."""
    said = ""
    for _ in _looks(call):
        found, totals = reading.get(run_id), reading.totals(run_id)
        words = progress(found, totals).words()
        if words != said:
            call.say(words)
            said = words
        if found.state in ENDED and not totals["sent"]:
            break
    tell(call, run_id)
    totals = reading.totals(run_id)
    return FINE if totals["recovered"] == sum(totals.values()) > 0 else NOT_ALL


def letter(call: Call, dead_letter_id: UUID) -> int:
    """Follow one letter until its message was handled or died again; 0 = it was handled."""
    status = RecoveryStatus.RECOVERING
    for _ in _looks(call):
        status = RecoveryStatus(letters.get(dead_letter_id).recovery_status)
        if status != RecoveryStatus.RECOVERING:
            break
    outcomes = {RecoveryStatus.RECOVERED: "recovered", RecoveryStatus.RECOVERING: "no_answer"}
    outcome = outcomes.get(status, "failed")
    values = {"dead_letter_id": str(dead_letter_id), "outcome": outcome}
    call.answer(values, f"{dead_letter_id}  {outcome.replace('_', ' ')}")
    return FINE if status == RecoveryStatus.RECOVERED else NOT_ALL


def _looks(call: Call) -> Iterator[None]:
    """Yield once in a while, until the time is up that --timeout names; an interrupt ends it, not the recovery."""
    until = None if call.options.timeout is None else time.monotonic() + call.options.timeout
    try:
        while True:
            yield
            if until is not None and time.monotonic() >= until:
                call.say("The time is up; it goes on by itself.")
                return
            time.sleep(POLL_SECONDS)
    except KeyboardInterrupt:
        call.say("No longer followed; it goes on by itself.")


def tell(call: Call, run_id: UUID) -> None:
    """Write the state of a run."""
    found, totals = reading.get(run_id), reading.totals(run_id)
    call.answer(described(found, totals), "\n".join(_lines(found, totals)))


def progress(found: RecoveryRun, totals: Mapping[str, int]) -> Progress:
    """Return how far a run is."""
    state = "starting" if found.state == RunState.READY and found.starts_at else found.state
    plan = reading.plan_of(found)
    canary = plan.canary if plan else 0
    return Progress(state=state, counts=totals, wave=found.wave, canary=canary, stop_reason=found.stop_reason)


def described(found: RecoveryRun, totals: Mapping[str, int]) -> dict[str, Any]:
    """Return a run as an object."""
    moments = ("created_at", "frozen_at", "starts_at", "started_at", "finished_at")
    return {
        "run_id": str(found.run_id),
        "kind": found.kind,
        "state": found.state,
        "scope": found.scope_words,
        "by": found.actor,
        "reason": found.reason,
        "letters": found.frozen_count,
        "totals": dict(totals),
        "stop_reason": found.stop_reason,
        "plan": found.plan,
        "group_id": found.group_id and str(found.group_id),
        "build": found.generation,
        **{name: at.isoformat() if (at := getattr(found, name)) else None for name in moments},
    }


def _lines(found: RecoveryRun, totals: Mapping[str, int]) -> Iterator[str]:
    yield f"Run {found.run_id}: {progress(found, totals).words()}"
    yield f"  {found.scope_words}, by {found.actor}"
    counts = ", ".join(f"{totals[key]:,} {NAMES[key]}" for key in SHOWN if totals.get(key))
    yield f"  {counts or 'no letters'}"
