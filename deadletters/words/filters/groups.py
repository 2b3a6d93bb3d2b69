"""The filter of the list of failure groups."""

from collections.abc import Mapping
from dataclasses import dataclass

from deadletters.words.filters.cursors import CountCursor, Cursor
from deadletters.words.filters.listfilter import NOBODY, ListFilter, check_one_of, owner_words

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
_BY_TIME = ("last_seen", "first_seen")


@dataclass(frozen=True, kw_only=True)
class GroupFilter(ListFilter):
    """Which failure groups the list shows, and in which order; by count the place of a page is a CountCursor."""

    state: str = ""
    owner: str = ""
    type: str = ""
    q: str = ""
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

    @property
    def is_unowned(self) -> bool:
        """Whether the filter asks for what nobody owns; `owner` is no name then."""
        return self.owner == NOBODY

    def words(self) -> str:
        said = super().words()
        return said if self.sort == "last_seen" else f"{said}, {GROUP_SORTS[self.sort]}"

    def layout(self) -> dict[str, str]:
        return ({} if self.sort == "last_seen" else {"sort": self.sort}) | super().layout()
