"""The filter of the list of failure groups."""

from collections.abc import Mapping
from dataclasses import dataclass

from deadletters.words.errors import BadFilter
from deadletters.words.filters.cursors import CountCursor, Cursor
from deadletters.words.filters.listfilter import NOBODY, NOTHING_NAMED, ListFilter, check_one_of, owner_words

GROUP_STATES = {
    "new": "that are new",
    "ongoing": "that go on",
    "regressed": "that came back",
    "held": "that are held",
    "fixed": "that are fixed in a build",
    "resolved": "that are resolved",
    "quiet": "that are quiet for now",
}
GROUP_SORTS = {
    "last_seen": "the last seen first",
    "first_seen": "the newest first",
    "open": "the one with most open letters first",
    "total": "the one with most letters first",
    "rate": "the one with most deaths lately first",
}
GROUPED_BY = {
    "fault": "fault",
    "type": "message type",
    "reason": "failure reason",
    "destination": "destination",
    "subject": "subject",
    "stream": "stream",
    "build": "build",
}
TALLY_SORTS = ("last_seen", "open", "total")
"""Orders of letters that are put together by something else than their fault."""
_OF_FAULTS = ("state", "owner", "type")
_BY_TIME = ("last_seen", "first_seen")


@dataclass(frozen=True, kw_only=True)
class GroupFilter(ListFilter):
    """Which failure groups the list shows, and in which order; by count the place of a page is a CountCursor.

    by: what letters are put together by; only their fault makes groups, with all that those have.
    """

    state: str = ""
    owner: str = ""
    type: str = ""
    q: str = ""
    by: str = "fault"
    sort: str = "last_seen"

    NOUN = "Groups"
    SAID = {"state": "{}", "owner": "owned by {}", "type": "of type {}", "q": "with “{}” in them"}
    SHOWN = {"state": GROUP_STATES.__getitem__, "owner": owner_words}

    @classmethod
    def cursor(cls, text: str, values: Mapping[str, str]) -> Cursor | CountCursor:
        return (Cursor if values.get("sort", cls.sort) in _BY_TIME else CountCursor).parse(text)

    def __post_init__(self) -> None:
        check_one_of("state", self.state, GROUP_STATES)
        check_one_of("order", self.sort or "-", GROUP_SORTS)
        check_one_of("grouping", self.by or "-", GROUPED_BY)
        if self.is_of_faults:
            return
        check_one_of("order of these", self.sort, dict.fromkeys(TALLY_SORTS))
        for name in _OF_FAULTS:
            if getattr(self, name):
                raise BadFilter(f"Only faults are filtered by {name}, not letters by {GROUPED_BY[self.by]}.")

    @property
    def is_of_faults(self) -> bool:
        return self.by == "fault"

    @property
    def is_unowned(self) -> bool:
        """Whether the filter asks for what nobody owns; `owner` is no name then."""
        return self.owner == NOBODY

    def words(self, names: Mapping[str, str] = NOTHING_NAMED) -> str:
        said = super().words(names) if self.is_of_faults else self._put_together()
        return said if self.sort == "last_seen" else f"{said}, {GROUP_SORTS[self.sort]}"

    def _put_together(self) -> str:
        said = f"Dead letters by {GROUPED_BY[self.by]}"
        return f"{said}, with “{self.q}” in it" if self.q else said

    def layout(self) -> dict[str, str]:
        by = {} if self.is_of_faults else {"by": self.by}
        return by | ({} if self.sort == "last_seen" else {"sort": self.sort}) | super().layout()
