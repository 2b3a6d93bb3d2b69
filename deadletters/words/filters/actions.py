"""The filter of the audit: which things that people did."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from deadletters.words.errors import BadFilter
from deadletters.words.filters.cursors import NumberedCursor
from deadletters.words.filters.listfilter import ListFilter, check_one_of, spaced, uuid_of
from deadletters.words.filters.times import moment_of, time_words

TARGETS = {
    "letter": "to a dead letter",
    "group": "to a group",
    "run": "to a recovery run",
    "message": "to a live message",
    "other": "to none of these",
}
"""What was acted on; `other`: a pause, a destination, a policy, a list that was exported."""

IDS = ("letter", "group", "run", "message")


@dataclass(frozen=True, kw_only=True)
class ActionFilter(ListFilter):
    """Which operator actions the audit shows, the newest first; `q`: an id of anything, or text of the reason."""

    after: NumberedCursor | None = None
    actor: str = ""
    action: str = ""
    target: str = ""
    letter: str = ""
    group: str = ""
    run: str = ""
    message: str = ""
    q: str = ""
    since: str = ""
    until: str = ""

    NOUN = "Actions"
    SAID = {
        "actor": "of {}",
        "action": "named {}",
        "target": "{}",
        "letter": "on letter {}",
        "group": "on group {}",
        "run": "on run {}",
        "message": "on message {}",
        "q": "with “{}” in their reason",
        "since": "since {}",
        "until": "until {}",
    }
    SHOWN = {
        "action": spaced,
        "target": TARGETS.__getitem__,
        "since": time_words,
        "until": time_words,
    }

    @classmethod
    def cursor(cls, text: str, _values: Mapping[str, str]) -> NumberedCursor:
        return NumberedCursor.parse(text)

    def __post_init__(self) -> None:
        check_one_of("target", self.target, TARGETS)
        for name in IDS:
            if getattr(self, name) and self.id_of(name) is None:
                raise BadFilter(f"A {name} is named by its id, 32 hexadecimal digits with or without hyphens.")
        self.times(datetime(2000, 1, 1, tzinfo=UTC))

    def id_of(self, name: str) -> UUID | None:
        """Return the id that the filter has for one of IDS."""
        return uuid_of(getattr(self, name))

    @property
    def exact_id(self) -> UUID | None:
        """The id that the text is, if it is one."""
        return uuid_of(self.q)

    def times(self, now: datetime) -> tuple[datetime | None, datetime | None]:
        """Return since and until as times; "24h" counts back from `now`."""
        return moment_of("since", self.since, now), moment_of("until", self.until, now)
