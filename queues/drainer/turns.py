"""One claimed message's turn, and what runs it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta

from queues.store.bodies import Body
from queues.store.claims import Claimed
from queues.words.handlers import AfterDeath
from queues.words.outcomes import Budget, FailureReason, is_spent, used
from queues.words.sources import PERSPECTIVES, Queue

Work = Callable[[], object]
"""The run of one message: it succeeds by returning."""


@dataclass(frozen=True, kw_only=True)
class Runner:
    """How messages of one kind are run: within which bounds, and what makes the work of one out of its body.

    `prepare` raises PayloadUnreadable, EventMissing, or Unhandled when this process cannot run the message.
    """

    budget: Budget
    time_limit: timedelta
    atomic: bool
    after_death: AfterDeath
    prepare: Callable[["Turn", Body], Work]


@dataclass(kw_only=True, slots=True)  # not frozen, which costs each message more than making it
class Turn:
    """One claimed message with what runs it, if this process can, and the budget that holds for it.

    budget: the runner's caps, else the source's; the message's own, clamped by the source's bounds, win.
    """

    row: Claimed
    queue: Queue
    runner: Runner | None
    budget: Budget

    @property
    def source(self) -> str:
        return self.queue.source

    @property
    def charged(self) -> int:
        """Runs charged so far. A suspect's provisional charge counts once it was lost while it ran alone."""
        return used(self.row.attempts, self.row.delays, self.row.releases if self.row.was_started else self.releases)

    @property
    def releases(self) -> int:
        """Charges given back, the provisional one included: it ends with the next report."""
        return self.row.releases + self.row.suspect

    @property
    def holds(self) -> bool:
        """Its stream waits behind it once it is dead; what a perspective could not read it must not pass over."""
        if self.row.stream_id is None:
            return False
        policy = self.runner.after_death if self.runner else None
        return policy is AfterDeath.HOLD or (policy is None and self.source == PERSPECTIVES)

    @property
    def was_lost(self) -> bool:
        """The last run never reported: its process was lost."""
        return self.row.was_started or self.row.failure_reason == FailureReason.LEASE_EXPIRED

    def one_run_later(self) -> "Turn":
        """Return the turn with one more run charged."""
        return replace(self, row=self.row._replace(attempts=self.row.attempts + 1))

    @property
    def is_spent(self) -> bool:
        return is_spent(self.charged, self.budget)

    @property
    def runs_alone(self) -> bool:
        """A run that may cost more than itself shares no transaction, and its start is recorded before it."""
        last = is_spent(self.charged + 1, self.budget)
        return self.row.suspect or self.was_lost or last or (self.runner is not None and not self.runner.atomic)
