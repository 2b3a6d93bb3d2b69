"""The filters of the lists of live messages, one for each source, and of the streams that are held."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from deadletters.words.errors import BadFilter
from deadletters.words.filters.cursors import UNREADABLE
from deadletters.words.filters.listfilter import ListFilter, check_one_of, uuid_of

LIVE_STATES = {
    "in_flight": "in flight",
    "waiting": "waiting",
    "delayed": "delayed",
    "stopped": "stopped by a person",
    "held": "behind a dead letter",
    "paused": "paused",
}
_POSITION = re.compile(r"-?[0-9]{1,19}")


@dataclass(frozen=True, kw_only=True)
class DueCursor:
    """The last row of a page that is ordered by when messages are due: its time and position."""

    at: datetime
    position: int

    def __str__(self) -> str:
        return f"{self.at.astimezone(UTC):%Y%m%dT%H%M%S.%f}_{self.position}"

    @classmethod
    def parse(cls, text: str) -> "DueCursor":
        """Read what `str` wrote; raises BadFilter."""
        moment, _, position = text.partition("_")
        try:
            at = datetime.strptime(moment, "%Y%m%dT%H%M%S.%f").replace(tzinfo=UTC)
        except ValueError as exc:
            raise BadFilter(UNREADABLE) from exc
        if not _POSITION.fullmatch(position) or abs(int(position)) >= 2**63:
            raise BadFilter(UNREADABLE)
        return cls(at=at, position=int(position))


@dataclass(frozen=True, kw_only=True)
class StreamCursor:
    """The last row of a page of streams: its queue and id."""

    queue: str
    id: UUID

    def __str__(self) -> str:
        return f"{self.id.hex}_{self.queue}"

    @classmethod
    def parse(cls, text: str) -> "StreamCursor":
        """Read what `str` wrote; raises BadFilter."""
        identity, _, queue = text.partition("_")
        try:
            return cls(queue=queue, id=UUID(hex=identity))
        except ValueError as exc:
            raise BadFilter(UNREADABLE) from exc


@dataclass(frozen=True, kw_only=True)
class LiveFilter(ListFilter):
    """Which messages of a source the list shows, those that are due first first; `q` is a message's id."""

    after: DueCursor | None = None
    state: str = ""
    stream: str = ""
    q: str = ""

    NOUN = "Messages"
    SAID = {"state": "that are {}", "stream": "of stream {}", "q": "with the id {}"}
    SHOWN = {"state": LIVE_STATES.__getitem__}

    @classmethod
    def cursor(cls, text: str, _values: Mapping[str, str]) -> DueCursor:
        return DueCursor.parse(text)

    def __post_init__(self) -> None:
        check_one_of("state", self.state, LIVE_STATES)
        for name, text, identity in (("message", self.q, self.message_id), ("stream", self.stream, self.stream_id)):
            if text and identity is None:
                raise BadFilter(f"A {name} is found by its id, 32 hexadecimal digits with or without hyphens.")

    @property
    def message_id(self) -> UUID | None:
        return uuid_of(self.q)

    @property
    def stream_id(self) -> UUID | None:
        return uuid_of(self.stream)


@dataclass(frozen=True, kw_only=True)
class InboxFilter(LiveFilter):
    """Messages of the inbox."""

    type: str = ""

    SAID = {"type": "of type {}", **LiveFilter.SAID}


@dataclass(frozen=True, kw_only=True)
class OutboxFilter(LiveFilter):
    """Messages of the outbox."""

    type: str = ""
    destination: str = ""

    SAID = {"type": "of type {}", "destination": "to {}", **LiveFilter.SAID}


@dataclass(frozen=True, kw_only=True)
class PerspectiveFilter(LiveFilter):
    """Events that perspectives have still to apply."""

    perspective: str = ""

    NOUN = "Events"
    SAID = {"perspective": "for the perspective {}", **LiveFilter.SAID}


@dataclass(frozen=True, kw_only=True)
class StreamFilter(ListFilter):
    """Which streams the list of held ones shows."""

    after: StreamCursor | None = None
    stream: str = ""

    NOUN = "Held streams"
    SAID = {"stream": "with the id {}"}

    @classmethod
    def cursor(cls, text: str, _values: Mapping[str, str]) -> StreamCursor:
        return StreamCursor.parse(text)

    def __post_init__(self) -> None:
        if self.stream and self.stream_id is None:
            raise BadFilter("A stream is found by its id, 32 hexadecimal digits with or without hyphens.")

    @property
    def stream_id(self) -> UUID | None:
        return uuid_of(self.stream)
