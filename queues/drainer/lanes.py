"""Which lanes of a queue are due: asked once a second, since a claim need not."""

import time
from dataclasses import dataclass, field

from queues.store import claims
from queues.words.sources import Queue

AT_MOST = 1000
"""Lanes looked at in one turn; with more of them each turn begins where the last one ended."""
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
        seen = claims.lanes(self.queue, after=self._after, limit=AT_MOST)
        self._due = [lane for lane, is_due in seen if is_due]
        self._after = seen[-1][0] if len(seen) == AT_MOST else None
        self._asked_at = time.monotonic()
