"""The filters of the lists of live messages, one for each source, and of the streams that are held."""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from deadletters.words.errors import BadFilter
from deadletters.words.filters.cursors import NumberedCursor, StreamCursor
from deadletters.words.filters.listfilter import ListFilter, check_one_of, uuid_of

LIVE_STATES = {
    "in_flight": "in flight",
    "waiting": "waiting",
    "delayed": "delayed",
    "stopped": "stopped by a person",
    "held": "behind a dead letter",
    "paused": "paused",
}


@dataclass(frozen=True, kw_only=True)
class LiveFilter(ListFilter):
    """Which messages of a source the list shows, those that are due first first; `q` is a message's id."""

    after: NumberedCursor | None = None
    state: str = ""
    stream: str = ""
    q: str = ""

    NOUN = "Messages"
    SAID = {"state": "that are {}", "stream": "of stream {}", "q": "with the id {}"}
    SHOWN = {"state": LIVE_STATES.__getitem__}

    @classmethod
    def cursor(cls, text: str, _values: Mapping[str, str]) -> NumberedCursor:
        return NumberedCursor.parse(text)

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
