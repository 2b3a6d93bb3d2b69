"""Changes of triage columns: what may be written, and what was."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from deadletters.models import Disposition, GroupState
from deadletters.words.errors import BadChange
from queues.words.text import storable

MAX_OWNER = 150
MAX_BUILD = 200
MAX_TICKET = 500
MAX_RUNBOOK = 2_000
MAX_COUNT = 1_000_000_000

SETTABLE_STATES = (GroupState.NEW, GroupState.ONGOING, GroupState.FIXED, GroupState.RESOLVED)
"""States that a person sets; the others are found out."""

Cleaner = Callable[[object], object]


@dataclass(frozen=True, kw_only=True)
class Changed:
    """The columns that were changed, before and after; empty when all of them had these values already."""

    before: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.after)

    def as_json(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return both as JSON for the audit; times in ISO form."""
        return _json(self.before), _json(self.after)


def with_found_out(changed: Changed, row: object, name: str, value: object) -> Changed:
    """Return the changes and one more that follows from them."""
    if value == getattr(row, name):
        return changed
    return Changed(before={**changed.before, name: getattr(row, name)}, after={**changed.after, name: value})


def compare(row: object, changes: Mapping[str, object], cleaners: Mapping[str, Cleaner]) -> Changed:
    """Return which of the changes change the row; raises BadChange for a column or a value that may not be."""
    unknown = sorted(set(changes) - set(cleaners))
    if unknown:
        raise BadChange(unknown[0], f"{unknown[0]} is not changed by hand")
    cleaned = {name: cleaners[name](value) for name, value in changes.items()}
    after = {name: value for name, value in cleaned.items() if value != getattr(row, name)}
    return Changed(before={name: getattr(row, name) for name in after}, after=after)


def text(name: str, limit: int) -> Cleaner:
    """Return what takes one line of text; blank is none."""

    def clean(value: object) -> str | None:
        kept = " ".join(storable(str(value or "")).split())
        if len(kept) > limit:
            raise BadChange(name, f"may have {limit:,} characters; this has {len(kept):,}")
        return kept or None

    return clean


def moment(name: str) -> Cleaner:
    """Return what takes a time with a zone, or none."""

    def clean(value: object) -> datetime | None:
        if value is None or value == "":
            return None
        if not isinstance(value, datetime) or value.tzinfo is None:
            raise BadChange(name, "must be a time with a zone")
        return value

    return clean


def count(name: str) -> Cleaner:
    """Return what takes a number from 1, or none."""

    def clean(value: object) -> int | None:
        if value is None or value == "":
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_COUNT:
            raise BadChange(name, f"must be a whole number from 1 to {MAX_COUNT:,}")
        return value

    return clean


def state(value: object) -> str:
    """Take a state that a person may set."""
    if value not in SETTABLE_STATES:
        raise BadChange("state", "must be one of " + ", ".join(SETTABLE_STATES))
    return str(value)


def disposition(value: object) -> int:
    """Take an operator disposition."""
    if isinstance(value, bool) or value not in Disposition.values:
        raise BadChange("operator_disposition", "must be one of " + ", ".join(map(str, Disposition.values)))
    return int(str(value))


def group_hold(value: object) -> int:
    """Take a group's disposition: none, or hold."""
    known = {str(int(each)): int(each) for each in (Disposition.NONE, Disposition.HOLD_INDEFINITELY)}
    if isinstance(value, bool) or str(value) not in known:
        raise BadChange("operator_disposition", "must be 0 (none) or 2 (hold)")
    return known[str(value)]


def _json(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in values.items()}
