"""The filters of the list of recovery runs, and of the letters of one run."""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from deadletters.words.errors import BadFilter
from deadletters.words.filters.cursors import Cursor, PlaceCursor
from deadletters.words.filters.listfilter import ListFilter, check_one_of, spaced, uuid_of

RUN_STATES = {
    "freezing": "that collect their letters",
    "ready": "that wait for their start",
    "running": "that run",
    "paused": "that are paused",
    "stopped": "that were stopped",
    "finished": "that are finished",
}
RUN_KINDS = {
    "person": "begun by a person",
    "schedule": "begun by the schedule",
    "replay": "begun for a new build",
}
ITEM_STATES = (
    *("waiting", "sent", "recovered", "failed_again"),
    *("failed_differently", "skipped", "no_answer"),
)


@dataclass(frozen=True, kw_only=True)
class RunFilter(ListFilter):
    """Which recovery runs the list shows, the newest first."""

    after: Cursor | None = None
    state: str = ""
    kind: str = ""
    actor: str = ""
    group: str = ""
    generation: str = ""

    NOUN = "Recovery runs"
    SAID = {"state": "{}", "kind": "{}", "actor": "of {}", "group": "on group {}", "generation": "on build {}"}
    SYNONYMS = {"build": "generation"}
    SHOWN = {"state": RUN_STATES.__getitem__, "kind": RUN_KINDS.__getitem__}

    @classmethod
    def cursor(cls, text: str, _values: Mapping[str, str]) -> Cursor:
        return Cursor.parse(text)

    def __post_init__(self) -> None:
        check_one_of("state", self.state, RUN_STATES)
        check_one_of("kind", self.kind, RUN_KINDS)
        if self.group and self.group_id is None:
            raise BadFilter("A group is named by its id, 32 hexadecimal digits with or without hyphens.")

    @property
    def group_id(self) -> UUID | None:
        return uuid_of(self.group)


@dataclass(frozen=True, kw_only=True)
class ItemFilter(ListFilter):
    """Which letters of a run are shown, in the order in which they are sent."""

    after: PlaceCursor | None = None
    state: str = ""

    NOUN = "Letters of the run"
    SAID = {"state": "that are {}"}
    SHOWN = {"state": spaced}

    @classmethod
    def cursor(cls, text: str, _values: Mapping[str, str]) -> PlaceCursor:
        return PlaceCursor.parse(text)

    def __post_init__(self) -> None:
        check_one_of("state", self.state, dict.fromkeys(ITEM_STATES))
