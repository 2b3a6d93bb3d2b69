"""The triage of a group."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from deadletters.models import Disposition, FailureGroup, GroupState
from deadletters.recovery import passes
from deadletters.store import audit
from deadletters.triage import changes as values
from deadletters.triage.actors import actor
from deadletters.triage.changes import Changed, Cleaner, compare
from deadletters.words import access
from deadletters.words.errors import BadChange, NoSuchGroup, StaleChange

CHANGEABLE: Mapping[str, Cleaner] = {
    "owner": values.text("owner", values.MAX_OWNER),
    "state": values.state,
    "fixed_in_generation": values.text("fixed_in_generation", values.MAX_BUILD),
    "operator_disposition": values.group_hold,
    "quiet_until": values.moment("quiet_until"),
    "quiet_until_generation": values.text("quiet_until_generation", values.MAX_BUILD),
    "quiet_until_count": values.count("quiet_until_count"),
    "ticket": values.text("ticket", values.MAX_TICKET),
    "runbook": values.text("runbook", values.MAX_RUNBOOK),
}

PASSED_ON = {"operator_disposition", "quiet_until", "quiet_until_generation"}
"""What a group's letters take over."""


@transaction.atomic
def change_group(
    *, group_id: UUID, user: Any, changes: Mapping[str, object], reason: str = "", row_version: int | None = None
) -> Changed:
    """Change triage columns of a group (see CHANGEABLE); nothing is written when nothing differs.

    row_version: the version that the person saw. A new group that is worked on is ongoing from then on, a held one is
    held. A hold and a quiet time are passed on to the group's letters: some at once, all of many within ticks.
    Raises PermissionDenied, NoSuchGroup, BadChange, StaleChange.
    """
    by = actor(user, access.TRIAGE)
    group = FailureGroup.objects.select_for_update(no_key=True).filter(pk=group_id).first()
    if group is None:
        raise NoSuchGroup(str(group_id))
    if row_version not in (None, group.row_version):
        raise StaleChange
    changed = _with_hold(group, changes, compare(group, _with_state(group, changes), CHANGEABLE))
    _refuse_unnamed_fix(group, changed)
    if changed:
        _write(group_id, changed)
        before, after = changed.as_json()
        audit.record(actor=by, action="triage", group_id=group_id, before=before, after=after, reason=reason)
    return changed


def _write(group_id: UUID, changed: Changed) -> None:
    stamp: dict[str, Any] = {"state_at": Now()} if "state" in changed.after else {}
    if "operator_disposition" in changed.after:
        stamp["held_at"] = Now() if changed.after["operator_disposition"] else None
    FailureGroup.objects.filter(pk=group_id).update(**changed.after, **stamp, row_version=F("row_version") + 1)
    if PASSED_ON & set(changed.after):
        passes.of_group(group_id)


def _with_hold(group: FailureGroup, changes: Mapping[str, object], changed: Changed) -> Changed:
    """A group that is held is in that state, and ongoing after it, unless the person chose another."""
    if "operator_disposition" not in changed.after or "state" in changes:
        return changed
    if changed.after["operator_disposition"] == Disposition.HOLD_INDEFINITELY:
        return values.with_found_out(changed, group, "state", GroupState.HELD.value)
    if group.state == GroupState.HELD:
        return values.with_found_out(changed, group, "state", GroupState.ONGOING.value)
    return changed


def _with_state(group: FailureGroup, changes: Mapping[str, object]) -> Mapping[str, object]:
    """A new group that somebody works on is no longer new."""
    if group.state != GroupState.NEW or "state" in changes or not compare(group, changes, CHANGEABLE):
        return changes
    return {**changes, "state": GroupState.ONGOING}


def _refuse_unnamed_fix(group: FailureGroup, changed: Changed) -> None:
    state = changed.after.get("state", group.state)
    if state == GroupState.FIXED and not changed.after.get("fixed_in_generation", group.fixed_in_generation):
        raise BadChange("fixed_in_generation", "must name the build in which it is fixed")
