"""What people did, in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deadletters.models import Disposition, GroupState, OperatorAction, RecoveryStatus
from deadletters.words.jsontexts import written
from queues.words.redaction import MASK, is_secret, mask
from queues.words.text import cut

_NAMES = {
    "operator_disposition": "decision",
    "fixed_in_generation": "fixed in build",
    "quiet_until_generation": "quiet until build",
    "quiet_until_count": "quiet until letters",
}

MAX_VALUE = 300
"""Characters of one value, before or after."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """One value that an action changed or names, masked; None on a side that has none."""

    name: str
    before: str | None
    after: str | None


def changes_of(action: OperatorAction) -> Sequence[Change]:
    """Return what an action changed, value by value; a note stands with what it is on."""
    if action.action == "note":
        return []
    before, after = _changes(action.before), _changes(action.after)
    return [
        Change(name=_name(key), before=_value(key, before), after=_value(key, after))
        for key in dict.fromkeys([*before, *after])
    ]


def _value(key: str, values: Mapping[str, Any]) -> str | None:
    if key not in values:
        return None
    value = MASK if is_secret(key) else mask(values[key])
    return cut(written(value), MAX_VALUE) if isinstance(value, dict | list) else _shown(key, value)


def describe(action: OperatorAction) -> str:
    """Say an action in a line, such as "Changed owner: olga → vera, state: new → ongoing"."""
    before, after = _changes(action.before), _changes(action.after)
    if action.action == "recover" and after.get("outcome") == "sent":
        return "Sent it back to its queue"
    if action.action == "recover":
        return f"Tried to recover: {_shown('', after.get('outcome', ''))}"
    if action.action == "triage" and after:
        changes = (f"{_name(key)}: {_shown(key, before.get(key))} → {_shown(key, after[key])}" for key in after)
        return f"Changed {', '.join(changes)}"
    if action.action == "triage_many":
        asked = _shown("", after.get("verb", ""))
        return f"Triaged at once ({asked}){_some(after.get('letters'), 'letters')}: {after.get('scope', '')}"
    if action.action in ("edit", "restore"):
        return _of_payload(action.action, before, after)
    found = (
        _of_queues(action.action, before, after)
        or _of_runs(action.action, after)
        or _of_reading(action.action, after)
        or _of_views(action.action, before, after)
    )
    return found or action.action.replace("_", " ").capitalize()


def _of_payload(action: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    did = f"Restored version {after.get('restored')} of" if action == "restore" else "Edited"
    return f"{did} the payload: version {before.get('version')} → {after.get('version')}"


def _of_queues(action: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Say what was done to a live message, a stream, a pause or a destination; empty for anything else."""
    outcome = after.get("outcome", "")
    paused = " ".join(str(part) for name in ("source", "kind", "value") if (part := (after or before).get(name)))
    return {
        "run_now": "Ran it now" if outcome == "due" else "Woke its drainers; it was due",
        "stop": "Stopped it, and undid its run" if outcome == "revoked" else "Stopped it",
        "dead_letter": "Dead-lettered it",
        "let_stream_go": "Let its stream go on",
        "pause": f"Paused {paused}",
        "change_pause": f"Changed the pause of {paused}",
        "resume": f"Resumed {paused}",
        "purge": "Purged it",
        "try_destination": f"Had {after.get('destination', '')} tried",
    }.get(action, "")


def _of_runs(action: str, after: Mapping[str, Any]) -> str:
    """Say what was done to a recovery run; empty for anything else."""
    letters, not_sent = after.get("letters"), after.get("not_sent")
    plan = after.get("plan")
    canary = plan.get("canary") if isinstance(plan, Mapping) else None
    if isinstance(canary, int) and isinstance(letters, int):
        canary = min(canary, letters)
    return {
        "run_prepare": "Prepared it",
        "run_start": f"Started it{_some(letters, 'letters')}{_some(canary, 'first')}",
        "run_pause": "Paused it",
        "run_resume": "Resumed it",
        "run_stop": f"Stopped it{_some(not_sent, 'not sent')}",
        "run_discard": "Discarded it",
    }.get(action, "")


def _of_reading(action: str, after: Mapping[str, Any]) -> str:
    """Say what was read that not everybody sees, or taken away; empty for anything else."""
    return {
        "export": f"Exported {after.get('filter') or 'it'} as {after.get('form', '')}",
        "download_payload": f"Downloaded the payload, unmasked{_some(after.get('bytes'), 'bytes')}",
        "reveal": f"Revealed {after.get('field', '')}",
        "note": "Wrote a note",
    }.get(action, "")


def _of_views(action: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Say what was done to a saved view; empty for anything else."""
    name = str((after or before).get("view", ""))
    is_shared, was_shared = after.get("shared"), before.get("shared")
    changed = f"Shared the view “{name}”" if is_shared and not was_shared else f"Changed the view “{name}”"
    return {
        "save_view": f"Saved the view “{name}”{', for everybody' if is_shared else ''}",
        "change_view": f"Unshared the view “{name}”" if was_shared and not is_shared else changed,
        "remove_view": f"Removed the view “{name}”",
    }.get(action, "")


def _some(number: Any, what: str) -> str:
    return f", {number:,} {what}" if isinstance(number, int) and number else ""


def _changes(values: Any) -> Mapping[str, Any]:
    return values if isinstance(values, Mapping) else {}


def _name(key: str) -> str:
    return _NAMES.get(key, key.replace("_", " "))


def _shown(key: str, value: Any) -> str:
    if value is None or value == "":
        return "–"
    if key == "operator_disposition" and value in Disposition.values:
        return str(Disposition(value).label).lower()
    if key == "recovery_status" and value in RecoveryStatus.values:
        return str(RecoveryStatus(value).label).lower()
    if key == "state" and value in GroupState.values:
        return str(GroupState(value).label).lower()
    if key == "quiet_until":
        return f"{str(value)[:16].replace('T', ' ')} UTC"
    return str(value)[:100].replace("_", " ") if not key else str(value)[:100]
