"""What people do with recovery runs: one door for pages, admin and commands; and the door of the machine.

Each call checks the permission, changes the run and writes one operator action, in one transaction.
"""

from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models.functions import Now
from django.utils import timezone
from uuid_utils.compat import uuid7

from deadletters.models import ItemState, RecoveryRun, RunKind, RunState
from deadletters.queries import letters, runs
from deadletters.recovery.stepping import step_run
from deadletters.store import audit, steps
from deadletters.store import runs as writing
from deadletters.store.audit import Actor
from deadletters.triage.actors import actor
from deadletters.words import access
from deadletters.words.errors import BadChange, BadPlan, NoSuchRun, StaleChange
from deadletters.words.plans import Plan
from deadletters.words.scopes import Letters, Matching, Scope
from queues.words.text import storable

CONFIRM_ABOVE = 100
"""Letters above which their number must be said to start a run."""

FROZEN_AT_ONCE = 1_000
"""Letters that are collected in the request; more of them by a worker."""

MAX_REASON = 1_000

OPEN = (RunState.FREEZING, RunState.READY, RunState.RUNNING, RunState.PAUSED)


@transaction.atomic
def prepare(*, user: Any, scope: Scope, reason: str = "", group_id: UUID | None = None) -> UUID:
    """Begin a run that collects its letters and then waits for its start; return its id. A small one is ready at once.

    Raises PermissionDenied, BadFilter.
    """
    by = actor(user, access.RECOVER)
    run = _make(kind=RunKind.PERSON, scope=scope, plan=Plan(), by=by, reason=reason, group_id=group_id or _group(scope))
    audit.record(
        actor=by, action="run_prepare", run_id=run.run_id, group_id=run.group_id, after=scope.as_json(), reason=reason
    )
    if _is_small(scope):
        step_run(run.run_id)
    else:
        steps.wake()
    return run.run_id


def _group(scope: Scope) -> UUID | None:
    return scope.filters.group_id if isinstance(scope, Matching) else None


def _is_small(scope: Scope) -> bool:
    if isinstance(scope, Matching):
        return letters.count(scope.filters, FROZEN_AT_ONCE, now=timezone.now()) <= FROZEN_AT_ONCE
    return isinstance(scope, Letters)


def begin(
    *,
    kind: RunKind,
    scope: Scope,
    plan: Plan,
    by: Actor,
    group_id: UUID | None = None,
    generation: str | None = None,
    starts_at: datetime | None = None,
    reason: str = "",
) -> UUID | None:
    """Begin a run of the machine, which goes on by itself; return its id, None = that replay was begun before."""
    try:
        with transaction.atomic():
            run = _make(
                kind=kind,
                scope=scope,
                plan=plan,
                by=by,
                reason=reason,
                group_id=group_id,
                generation=generation,
                starts_at=starts_at or Now(),
            )
    except IntegrityError:
        return None
    steps.wake()
    return run.run_id


def _make(*, kind: RunKind, scope: Scope, plan: Plan, by: Actor, reason: str, **columns: Any) -> RecoveryRun:
    return RecoveryRun.objects.create(
        run_id=uuid7(),
        kind=kind,
        scope=scope.as_json(),
        scope_words=scope.words(),
        plan=plan.as_json(),
        actor=by.name,
        actor_id=by.id,
        reason=storable(reason)[:MAX_REASON],
        **columns,
    )


@transaction.atomic
def start(
    *, user: Any, run_id: UUID, plan: Plan, reason: str = "", count: int | None = None, row_version: int | None = None
) -> None:
    """Start a run that waits for it, now or at the plan's time.

    count: how many letters the person thinks will be sent; asked for above CONFIRM_ABOVE. row_version: of the run as it
    was seen. Raises PermissionDenied, NoSuchRun, BadPlan, BadChange in another state, StaleChange.
    """
    by, run = _locked(user, run_id)
    _refuse(run, RunState.READY)
    if run.starts_at is not None:
        raise BadChange("state", "has been started already")
    if row_version not in (None, run.row_version):
        raise StaleChange
    to_send = runs.to_send(run_id)
    if count is not None and count != to_send:
        raise BadPlan("count", f"must be the number of letters to send, {to_send:,}")
    if count is None and to_send > CONFIRM_ABOVE:
        raise BadPlan("count", f"must be said above {CONFIRM_ABOVE} letters")
    reason = storable(reason)[:MAX_REASON] or run.reason
    writing.change(run_id, plan=plan.as_json(), starts_at=plan.starts_at or Now(), reason=reason)
    _note(by, run, "run_start", {"plan": plan.as_json(), "letters": to_send}, reason)


@transaction.atomic
def pause(*, user: Any, run_id: UUID, reason: str = "") -> None:
    """Send nothing more until the run is resumed; what is out is still answered. Errors as of `start`."""
    by, run = _locked(user, run_id)
    if run.state != RunState.RUNNING and not (run.state == RunState.READY and run.starts_at):
        _refuse(run, RunState.RUNNING)
    _refuse_stopping(run)
    writing.change(run_id, state=RunState.PAUSED)
    _note(by, run, "run_pause", {"state": RunState.PAUSED}, reason)


@transaction.atomic
def resume(*, user: Any, run_id: UUID, reason: str = "") -> None:
    """Go on with a paused run. Errors as of `start`."""
    by, run = _locked(user, run_id)
    _refuse(run, RunState.PAUSED)
    _refuse_stopping(run)
    state = RunState.RUNNING if run.started_at else RunState.READY
    writing.change(run_id, state=state, rate_tokens=0, rate_refilled_at=Now() if run.started_at else None)
    _note(by, run, "run_resume", {"state": state}, reason)


@transaction.atomic
def stop(*, user: Any, run_id: UUID, reason: str = "") -> None:
    """Send nothing more, for good: what is not sent stays dead and ends as skipped; what is out is still answered.

    Also undoes a run that has not begun. Errors as of `start`.
    """
    by, run = _locked(user, run_id)
    if run.state not in OPEN:
        raise BadChange("state", f"is {run.state} already")
    _refuse_stopping(run)
    unsent = run.items.filter(state=ItemState.WAITING).count()
    writing.change(run_id, state=RunState.RUNNING, stop_reason=f"stopped by {by.name}")
    _note(by, run, "run_stop", {"not_sent": unsent}, reason)
    for _ in range(2 if unsent <= writing.SKIPPED_AT_ONCE else 0):
        step_run(run_id)


def _locked(user: Any, run_id: UUID) -> tuple[Actor, RecoveryRun]:
    by = actor(user, access.RECOVER)
    run = RecoveryRun.objects.select_for_update().filter(pk=run_id).first()
    if run is None:
        raise NoSuchRun(str(run_id))
    return by, run


def _refuse(run: RecoveryRun, wanted: RunState) -> None:
    if run.state != wanted:
        raise BadChange("state", f"is {run.state}; this needs it to be {wanted}")


def _refuse_stopping(run: RecoveryRun) -> None:
    if run.stop_reason:
        raise BadChange("state", f"is being {run.stop_reason}")


def _note(by: Actor, run: RecoveryRun, action: str, after: dict[str, Any], reason: str) -> None:
    before = {"state": run.state}
    audit.record(
        actor=by, action=action, run_id=run.run_id, group_id=run.group_id, before=before, after=after, reason=reason
    )
    steps.wake()
