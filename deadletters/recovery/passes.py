"""Bringing open letters in line with a policy or a group that changed, and new letters of held groups with their group.

A pass is a row that is written with the change; whoever steps it goes on where the last one ended.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import F

from deadletters.models import RecoveryPass
from deadletters.store import decisions, steps, walks
from deadletters.store.decisions import Decided, Looked
from deadletters.words.policies import Decision, Disposition, Policy, decide, next_look, policy_for
from queues.store.live import clock

BATCH_ROWS = 1_000
"""Letters that one transaction looks at."""
LATELY = timedelta(minutes=15)
"""New letters of held groups are looked for among those that died since."""
HELD_GROUPS = 1_000


def of_policy(cause: str, reason: int | None) -> None:
    """Ask for a pass over the open letters of a policy; to be called in the transaction that changes it."""
    RecoveryPass.objects.create(cause=cause, failure_reason=reason)
    steps.wake_schedule()


def of_group(group_id: UUID) -> None:
    """Ask for a pass over the open letters of a group, and begin with it; call it in the transaction of the change."""
    asked = RecoveryPass.objects.create(group_id=group_id)
    _go_on(RecoveryPass.objects.get(pk=asked.pk))
    steps.wake_schedule()


@dataclass(frozen=True, kw_only=True)
class Report:
    """How many letters were looked at, and whether the time was up before all were."""

    looked_at: int
    more: bool


def step(*, seconds: float) -> Report:
    """Hold what died lately in held groups, then go on with passes, for about so long."""
    until = time.monotonic() + seconds
    looked_at = 0
    for one in (_hold_new_letters, _step_once):
        while (batch := one()) is not None:
            looked_at += batch
            if time.monotonic() >= until:
                return Report(looked_at=looked_at, more=True)
    return Report(looked_at=looked_at, more=False)


@transaction.atomic
def _hold_new_letters() -> int | None:
    """Hold what died lately in groups that are held; None: nothing did."""
    found = walks.new_in_held_groups(within=LATELY, groups=HELD_GROUPS, limit=BATCH_ROWS)
    return align(found) if found else None


@transaction.atomic
def _step_once() -> int | None:
    """Look at one batch of a pass, those of groups first; None: there is no pass, or others are at all of them."""
    waiting = RecoveryPass.objects.select_for_update(skip_locked=True)
    found = waiting.order_by(F("group_id").asc(nulls_last=True), "id").first()
    return None if found is None else _go_on(found)


def _go_on(found: RecoveryPass) -> int:
    if found.group_id is not None and (left := walks.held_after_their_group(found.group_id, BATCH_ROWS)):
        return align(left)
    part = _part_of(found)
    if part.last is None:
        RecoveryPass.objects.filter(pk=found.pk).delete()
        return 0
    reached_at, reached_id = part.last
    RecoveryPass.objects.filter(pk=found.pk).update(reached_at=reached_at, reached_id=reached_id)
    return align(part.ids)


def _part_of(found: RecoveryPass) -> walks.Part:
    after = (found.reached_at, found.reached_id) if found.reached_at and found.reached_id else None
    if found.group_id is not None:
        return walks.not_ended_of(found.group_id, after=after, limit=BATCH_ROWS)
    return walks.open_of(found.cause or "", found.failure_reason, after=after, limit=BATCH_ROWS)


def align(ids: Sequence[UUID]) -> int:
    """Bring letters in line with their groups and policies as they are now; return how many were looked at.

    What a person decided about a letter itself stays. Locks the letters for the caller's transaction.
    """
    if not ids:
        return 0
    decisions.lock(ids)
    policies, now = decisions.policies(), clock()
    decided = (aligned(letter, policies, now) for letter in decisions.look_at(ids))
    decisions.write([one for one in decided if one is not None])
    return len(ids)


def aligned(letter: Looked, policies: Iterable[Policy], now: datetime) -> Decided | None:
    """Return what is to be written of a letter so that it is as its group and policy have it; None: nothing."""
    policy = policy_for(letter.cause, letter.reason, policies)
    next_at = next_look(letter.facts, policy, died_at=letter.died_at, spread=letter.spread, now=now)
    decision = decide(replace(letter.facts, next_recovery_at=next_at), policy, now=now)
    match decision:
        case Decision.DUE | Decision.WAIT:
            is_so = letter.facts.next_recovery_at == next_at or letter.facts.disposition != Disposition.NONE
            return None if is_so else Decided(letter=letter, decision=decision, next_recovery_at=next_at)
        case Decision.NEVER:
            is_so = letter.facts.next_recovery_at is None
            return None if is_so else Decided(letter=letter, decision=decision)
        case Decision.GROUP_RELEASE:
            return Decided(letter=letter, decision=decision, next_recovery_at=next_at if policy.automatic else None)
        case _:
            return Decided(letter=letter, decision=decision)
