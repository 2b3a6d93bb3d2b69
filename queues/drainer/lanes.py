"""Which lanes of a queue are due: asked once a second, since a claim need not."""

import time
from dataclasses import dataclass, field

from queues.store import claims
from queues.words.handlers import registry
from queues.words.sources import INBOX, Queue

AT_MOST = 1000
"""Lanes looked at in one turn; with more of them each turn begins where the last one ended."""
UNKNOWN_AT_MOST = 20
"""Message types without a handler here that are claimed from in one turn: thousands must not crowd out the others."""
FOR_SECONDS = 1.0


@dataclass
class Lanes:
    """The due lanes of one queue as they were a moment ago."""

    queue: Queue
    _due: list[str] = field(default_factory=list)
    _asked_at: float | None = None
    _after: str | None = None

    def due(self) -> list[str]:
        """Return the lanes, asking again when the answer is old."""
        if self._asked_at is None or time.monotonic() - self._asked_at > FOR_SECONDS:
            self._ask()
        return self._due

    def renewed(self) -> bool:
        """Ask again, unless that was just done; say whether there is something new."""
        before = self._due
        self._ask()
        return self._due != before

    def _ask(self) -> None:
        known = claims.due_among(self.queue, registry.types()) if self.queue.source == INBOX else []
        seen = claims.lanes(self.queue, after=self._after, limit=AT_MOST)
        others = [lane for lane, is_due in seen if is_due and lane not in known]
        taken = others[:UNKNOWN_AT_MOST] if self.queue.source == INBOX else others
        self._after = taken[-1] if taken != others else seen[-1][0] if len(seen) == AT_MOST else None
        self._due = [*known, *taken]
        self._asked_at = time.monotonic()
