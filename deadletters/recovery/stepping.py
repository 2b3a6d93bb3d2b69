"""The stepper: takes open runs on, a small transaction at a time, so that any worker goes on where one was killed.

A run is locked while it is stepped, before any letter. Everything that it knows is in its row and its items.
"""

import time
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

import structlog
from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now

from deadletters.models import RecoveryRun, RunState
from deadletters.recovery.freezing import freeze
from deadletters.recovery.standings import Counts, Standing
from deadletters.store import runs as writing
from deadletters.words.errors import BadPlan
from deadletters.words.plans import Plan
from queues import wakeups
from queues.store.live import clock

log = structlog.get_logger(__name__)

STEP_ITEMS = 1_000
"""Letters that one transaction sends."""


def step(seconds: float) -> bool:
    """Step the open runs in turn until nothing can be done now, or the time is up; return whether there was more.

    Runs that another process steps are passed over.
    """
    until = time.monotonic() + seconds
    idle: set[UUID] = set()
    counts = Counts()
    while time.monotonic() < until:
        stepped = _step_next(idle, counts)
        if stepped is None:
            return False
        if not stepped.did_something:
            idle.add(stepped.run_id)
    return True


def step_run(run_id: UUID) -> None:
    """Step one run once, in the caller's transaction, unless another process does."""
    run = _open_runs().filter(pk=run_id).first()
    if run is not None:
        _step(run, Counts())


@dataclass(frozen=True, kw_only=True)
class _Stepped:
    run_id: UUID
    did_something: bool


@transaction.atomic
def _step_next(idle: set[UUID], counts: Counts) -> _Stepped | None:
    """Step the run whose last step is the longest ago; None = there is none to step."""
    waiting = _open_runs().exclude(pk__in=idle).order_by(F("stepped_at").asc(nulls_first=True), "run_id")
    run = waiting.first()
    if run is None:
        return None
    did_something = _step_alone(run, counts)
    stepped_at = clock()
    RecoveryRun.objects.filter(pk=run.pk).update(stepped_at=stepped_at)
    counts.stamp(run.run_id, stepped_at)
    return _Stepped(run_id=run.run_id, did_something=did_something)


def _step_alone(run: RecoveryRun, counts: Counts) -> bool:
    """Step a run; where that fails nothing of it is kept, the other runs go on, and it is tried again later."""
    try:
        with transaction.atomic():
            return _step(run, counts)
    except Exception as exc:
        counts.forget(run.run_id)
        log.exception("recovery_run_not_stepped", run_id=str(run.run_id), error=str(exc)[:200])
        return False


def _open_runs() -> QuerySet[RecoveryRun]:
    is_due = Q(state__in=[RunState.FREEZING, RunState.RUNNING]) | Q(state=RunState.READY, starts_at__lte=Now())
    return RecoveryRun.objects.select_for_update(skip_locked=True).filter(is_due)


def _step(run: RecoveryRun, counts: Counts) -> bool:
    """Do the next thing for a run; return whether there was one."""
    if run.stop_reason:
        return _go_on_stopping(run)
    if run.state == RunState.FREEZING:
        return freeze(run)
    try:
        plan = Plan.from_json(run.plan)
    except BadPlan as exc:
        writing.change(run.run_id, stop_reason=f"stopped: its plan is not understood: {exc}")
        return True
    if run.state == RunState.READY:
        writing.mark_canaries(run.run_id, plan.canary)
        writing.change(run.run_id, state=RunState.RUNNING, started_at=Now())
        return True
    return _go_on(run, plan, counts)


def _go_on_stopping(run: RecoveryRun) -> bool:
    if not writing.skip_waiting(run.run_id, f"not sent: {run.stop_reason}"):
        writing.end(run.run_id, RunState.STOPPED, run.stop_reason)
    return True


def _go_on(run: RecoveryRun, plan: Plan, counts: Counts) -> bool:
    """Send on what is known of the run for a second; whatever else there is to decide is decided by a count."""
    known = counts.known(run)
    if known is not None and _room(run, plan, known) > 0 and known.waiting > 0:
        return _send(run, plan, known, counts)
    standing = counts.count(run)
    is_canary = _is_canary(run, plan)
    counts_alone = is_canary and standing.is_answered and (standing.sent >= plan.canary or not standing.waiting)
    if plan.stops(failed=standing.failed, answered=standing.answered, is_canary=counts_alone):
        return _stop(run, standing, is_canary=is_canary)
    if not standing.waiting:
        return standing.in_flight == 0 and _finish(run)
    limit = plan.limit_of_wave(run.wave)
    if limit is not None and standing.sent >= limit:
        return standing.is_answered and _next_wave(run)
    return _send(run, plan, standing, counts)


def _is_canary(run: RecoveryRun, plan: Plan) -> bool:
    return plan.canary > 0 and run.wave == 0


def _room(run: RecoveryRun, plan: Plan, standing: Standing) -> int:
    """Return how many more letters may be out."""
    room = plan.in_flight - (standing.in_flight - standing.delayed)
    limit = plan.limit_of_wave(run.wave)
    return room if limit is None else min(room, limit - standing.sent)


def _stop(run: RecoveryRun, standing: Standing, *, is_canary: bool) -> bool:
    what = "canaries" if is_canary else "answers"
    why = f"stopped itself: {standing.failed:,} of {standing.answered:,} {what} were failures"
    writing.change(run.run_id, stop_reason=why)
    log.warning("recovery_run_stopped", run_id=str(run.run_id), why=why)
    return True


def _finish(run: RecoveryRun) -> bool:
    writing.end(run.run_id, RunState.FINISHED, "")
    log.info("recovery_run_finished", run_id=str(run.run_id))
    return True


def _next_wave(run: RecoveryRun) -> bool:
    writing.change(run.run_id, wave=F("wave") + 1)
    return True


def _send(run: RecoveryRun, plan: Plan, standing: Standing, counts: Counts) -> bool:
    """Send as many letters as there is room, and as the rate allows; wake their drainers."""
    tokens = _tokens(run, plan)
    at_most = min(_room(run, plan, standing), STEP_ITEMS, int(tokens) if plan.rate else STEP_ITEMS)
    if at_most < 1:
        return False
    sent = writing.send(
        run,
        at_most,
        deadline=timedelta(seconds=plan.deadline_seconds),
        include_held=plan.include_held,
        as_canary=_is_canary(run, plan),
    )
    count = sum(number for source, number in sent.items() if source)
    counts.note(run, standing, sent=count, skipped=sent.get("", 0))
    if plan.rate:
        RecoveryRun.objects.filter(pk=run.pk).update(rate_tokens=tokens - count, rate_refilled_at=clock())
    for source in filter(None, sent):
        wakeups.wake(source)
    return bool(sent)


def _tokens(run: RecoveryRun, plan: Plan) -> float:
    """Return how many letters the rate allows now: what a second brings at most, and one at once."""
    if plan.rate is None:
        return 0.0
    if run.rate_refilled_at is None:
        return 1.0
    elapsed = (clock() - run.rate_refilled_at).total_seconds()
    return min(run.rate_tokens + max(elapsed, 0.0) * plan.rate, max(plan.rate, 1.0))
