"""The schedule: what is due is looked at in scans, and what its policy recovers goes into a run.

All state is in the rows, so that any worker may scan, and two that scan at once do no harm.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import structlog
from django.db import transaction

from deadletters.models import RecoveryRun, RunKind
from deadletters.queries.schedule import latest_scans
from deadletters.recovery import runs
from deadletters.recovery.passes import Report
from deadletters.store import decisions
from deadletters.store.audit import Actor
from deadletters.store.decisions import Decided, Looked
from deadletters.words.plans import Plan
from deadletters.words.policies import (
    BREAKER_SCANS,
    FRESH_TIME,
    Decision,
    Disposition,
    Policy,
    Scan,
    decide,
    next_look,
    policy_for,
    suspended_until,
)
from deadletters.words.scopes import Letters
from queues.store.live import clock

log = structlog.get_logger(__name__)

SCAN_ROWS = 500
"""Letters that one transaction looks at, and the most that one of the schedule's runs has."""
SCAN_TIME = timedelta(seconds=45)
"""How long what is recovered counts as one scan, by however many tasks."""
GIVEN_TIME = timedelta(minutes=30)
"""When a letter that a run is to recover is looked at again, should that not have happened."""
AFTER_SUSPENSION = timedelta(minutes=10)
"""The time over which what became due during a suspension is spread after it."""
PLAN = Plan(in_flight=1_000).without_stops()
SCHEDULE = Actor(name="schedule")


@dataclass(frozen=True, kw_only=True)
class State:
    """Whether the schedule recovers letters by itself; suspended until a time when they go round in a circle.

    `scans`: the latest that recovered something, the latest first. A person's recoveries are never suspended.
    """

    until: datetime | None
    scans: Sequence[Scan]

    @property
    def is_suspended(self) -> bool:
        return self.until is not None

    def words(self) -> str:
        """Say it in English."""
        if self.until is None:
            return "The schedule recovers what is due."
        return (
            f"The schedule is suspended until {self.until:%Y-%m-%d %H:%M} UTC: at least half of the letters of its last"
            f" {BREAKER_SCANS} scans had died since the scan before. People recover as usual."
        )


def state(now: datetime | None = None) -> State:
    """Return whether the schedule recovers anything by itself at a time, by default the database's."""
    at = now or clock()
    scans = latest_scans(before=at)
    return State(until=suspended_until(scans, now=at), scans=scans)


def recover_due(*, seconds: float) -> Report:
    """Scan until nothing is due, for about so long at most."""
    began_at, until = _began_at(clock()), time.monotonic() + seconds
    looked_at = 0
    while batch := _scan(began_at):
        looked_at += batch
        if batch < SCAN_ROWS:
            break
        if time.monotonic() >= until:
            return Report(looked_at=looked_at, more=True)
    return Report(looked_at=looked_at, more=False)


def _began_at(now: datetime) -> datetime:
    """Return when the present scan began: a task that goes on, and a second beat, belong to the one under way."""
    latest = latest_scans(before=now)
    return latest[0].began_at if latest and now - latest[0].began_at < SCAN_TIME else now


@transaction.atomic
def _scan(began_at: datetime) -> int:
    """Look at what is due the longest, and have recovered what is to be; 0 also when another scan is at it.

    Each letter leaves the range of what is due: by its recovery, its end or a later time.
    """
    if not decisions.take_turn():
        return 0
    now = clock()
    due = decisions.lock_due(SCAN_ROWS, now)
    if not due:
        return 0
    waiting = decisions.in_runs(due)
    decisions.put_off(sorted(waiting), now + GIVEN_TIME)
    policies = decisions.policies()
    decided = [_decided(letter, policies, now) for letter in decisions.look_at([i for i in due if i not in waiting])]
    asked_for = [one.letter for one in decided if _is_asked_for(one)]
    by_policy = [one.letter for one in decided if one.decision is Decision.DUE and not _is_asked_for(one)]
    decisions.write([one for one in decided if one.decision is not Decision.DUE])
    if asked_for:
        _begin(asked_for, began_at, now, reason="A person asked for it: retry now")
    _recover_by_policy(by_policy, began_at, now)
    return len(due)


def _decided(letter: Looked, policies: Sequence[Policy], now: datetime) -> Decided:
    policy = policy_for(letter.cause, letter.reason, policies)
    decision = decide(letter.facts, policy, now=now)
    looked_at_again = decision is Decision.WAIT or (decision is Decision.GROUP_RELEASE and policy.automatic)
    next_at = next_look(letter.facts, policy, died_at=letter.died_at, spread=letter.spread, now=now)
    return Decided(letter=letter, decision=decision, next_recovery_at=next_at if looked_at_again else None)


def _is_asked_for(one: Decided) -> bool:
    return one.decision is Decision.DUE and one.letter.facts.disposition == Disposition.RETRY_NOW


def _recover_by_policy(letters: Sequence[Looked], began_at: datetime, now: datetime) -> None:
    if not letters:
        return
    present = state(began_at)
    if present.until is not None:
        log.warning("schedule_suspended", until=present.until.isoformat(), letters=len(letters))
        _put_off_until_after(present.until, letters)
        return
    run_id = _begin(letters, began_at, now)
    RecoveryRun.objects.filter(pk=run_id).update(fresh_count=_fresh(letters, present.scans, began_at))


def _put_off_until_after(until: datetime, letters: Sequence[Looked]) -> None:
    decisions.write(
        [
            Decided(letter=each, decision=Decision.WAIT, next_recovery_at=until + AFTER_SUSPENSION * each.spread)
            for each in letters
        ]
    )


def _fresh(letters: Sequence[Looked], scans: Sequence[Scan], began_at: datetime) -> int:
    """Return how many letters died since the scan before; none of the first scan's."""
    if not scans:
        return 0
    since = max(scans[0].began_at, began_at - FRESH_TIME)
    return sum(each.died_at > since for each in letters)


def _begin(letters: Sequence[Looked], began_at: datetime, now: datetime, reason: str = "") -> UUID:
    ids = [each.dead_letter_id for each in letters]
    decisions.put_off(ids, now + GIVEN_TIME)
    run_id = runs.begin(
        kind=RunKind.SCHEDULE, scope=Letters(ids=ids), plan=PLAN, by=SCHEDULE, starts_at=began_at, reason=reason
    )
    assert run_id is not None  # only of a replay there can be one already
    log.info("schedule_recovers", run_id=str(run_id), letters=len(ids))
    return run_id
