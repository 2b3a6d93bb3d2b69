"""`tick`: once, here, what the beat has workers do for recoveries."""

from typing import Any

from deadletters import counting, generations
from deadletters.management.verbs.calls import FINE, Call, verb
from deadletters.recovery import passes, schedule, stepping, sweeping
from deadletters.triage.actors import actor
from deadletters.words import access

DEFAULT_SECONDS = 60.0


def add(verbs: Any) -> None:
    told = "step the runs, recover what is due, look for new builds and for answers that are overdue, as the beat does"
    parser = verb(verbs, "tick", run_tick, told)
    parser.add_argument(
        "--seconds", type=float, default=DEFAULT_SECONDS, help="how long at most, for each of these (60)"
    )


def run_tick(call: Call) -> int:
    actor(call.user, access.RECOVER)
    seconds = call.options.seconds
    values = {
        "aligned": passes.step(seconds=seconds),
        "looked_at": schedule.recover_due(seconds=seconds),
        "replays": generations.check(),
        "has_more": stepping.step(seconds),
        "without_answer": sweeping.sweep(),
    }
    counting.fold()
    said = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in values.items())
    call.answer(values, said)
    return FINE
