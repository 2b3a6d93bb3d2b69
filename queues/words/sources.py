"""Where messages wait: the sources, and the queues of each."""

from datetime import UTC, datetime
from typing import NamedTuple

INBOX, OUTBOX, PERSPECTIVES = "wh_inbox", "wh_outbox", "wh_perspective_events"
BROKER = "broker"
"""Of dead letters that no inbox could take: where they came from."""
SOURCES = (INBOX, OUTBOX, PERSPECTIVES)

STOPPED_UNTIL = datetime(9000, 1, 1, tzinfo=UTC)
"""When a message is due that an operator stopped: it waits until one starts it again."""
SHORT_NAMES = {INBOX: "inbox", OUTBOX: "outbox", PERSPECTIVES: "perspectives"}
"""What settings and commands call them."""


class Queue(NamedTuple):
    """What is claimed from: a source, or one perspective of the events. Streams have their order within it.

    A tuple, since each message looks something up by it.
    """

    source: str
    perspective: str | None = None

    @property
    def name(self) -> str:
        """The queue's name in `wh_streams`."""
        return self.source if self.perspective is None else f"{self.source}:{self.perspective}"

    @property
    def is_known(self) -> bool:
        """Whether something is claimed from a queue of this name; another program may have written any."""
        return self.source in SOURCES and (self.source == PERSPECTIVES) == bool(self.perspective)

    @classmethod
    def named(cls, name: str) -> "Queue":
        """Return the queue of a name."""
        source, colon, perspective = name.partition(":")
        return cls(source=source, perspective=perspective if colon else None)
