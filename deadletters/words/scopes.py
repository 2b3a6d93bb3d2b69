"""What a recovery run is asked to bring back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from deadletters.words.errors import BadScope
from deadletters.words.filters import LetterFilter

MAX_PICKED = 1_000
"""Letters that a scope may name one by one."""


@dataclass(frozen=True, kw_only=True)
class Letters:
    """These letters, each once; raises BadScope for none and for more than MAX_PICKED."""

    ids: Sequence[UUID]

    def __post_init__(self) -> None:
        if not self.ids:
            raise BadScope("No letter is picked.")
        if len(self.ids) > MAX_PICKED:
            raise BadScope(f"At most {MAX_PICKED:,} letters can be picked one by one; these are {len(self.ids):,}.")

    def as_json(self) -> dict[str, Any]:
        return {"letters": [str(each) for each in dict.fromkeys(self.ids)]}

    def words(self) -> str:
        count = len(set(self.ids))
        return f"{count:,} picked letters" if count != 1 else "1 picked letter"


@dataclass(frozen=True, kw_only=True)
class Matching:
    """All letters that match a filter and are not recovered, unless it asks for those."""

    filters: LetterFilter

    def as_json(self) -> dict[str, Any]:
        return {"filter": dict(self.filters.parts())}

    def words(self) -> str:
        return self.filters.words()


@dataclass(frozen=True, kw_only=True)
class Replay:
    """The letters of a group that may run once on a build which is new."""

    group_id: UUID
    build: str

    def as_json(self) -> dict[str, Any]:
        return {"replay": {"group": str(self.group_id), "build": self.build}}

    def words(self) -> str:
        return f"Replay of group {self.group_id} on build {self.build}"


Scope = Letters | Matching | Replay


def scope_of(values: Mapping[str, Any]) -> Scope:
    """Read what `as_json` wrote; raises BadScope, and BadFilter for a filter that is not understood any more."""
    match values:
        case {"letters": [*ids]}:
            return Letters(ids=[_id(each) for each in ids])
        case {"filter": {**parameters}}:
            return Matching(filters=LetterFilter.parse({str(name): str(value) for name, value in parameters.items()}))
        case {"replay": {"group": group, "build": build}}:
            return Replay(group_id=_id(group), build=str(build))
    raise BadScope("This is no scope of a run.")


def fingerprint_in(values: Mapping[str, Any]) -> str:
    """Return the fingerprint that a scope's filter names; empty for any other scope."""
    match values:
        case {"filter": {"fingerprint": str(fingerprint)}}:
            return fingerprint
    return ""


def _id(value: object) -> UUID:
    try:
        return UUID(str(value))
    except ValueError:
        raise BadScope("This is no scope of a run: an id is none.") from None
