"""The boundary to whatever keeps dead letters: a drainer calls it inside its own transaction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol
from uuid import UUID

from queues.words.failures import Failure
from queues.words.outcomes import Cause, FailureReason, OutcomeKind
from queues.words.reactions import Content


@dataclass(frozen=True, kw_only=True)
class Death:
    """One message to move. `failure` None: no reason was ever recorded, which is not an empty one.

    `last_reported`: the last failure reported by an earlier run, beside a lost worker's. `holds`: its stream waits
    behind it.
    """

    source: str
    source_id: UUID
    cause: Cause
    reason: FailureReason
    failure: Failure | None
    last_reported: str | None
    attempts: int
    instance_id: UUID
    generation: str
    lease_token: UUID
    holds: bool = False


@dataclass(frozen=True, kw_only=True)
class Settlement:
    """What a recovered message's run came to; `due_in` is set for a delay.

    `skipped`: it succeeded because its effect was there already, and nothing was done.
    """

    dead_letter_id: UUID
    outcome: OutcomeKind
    due_in: timedelta | None
    skipped: bool = False


@dataclass(frozen=True, kw_only=True)
class Unreceivable:
    """One message of a broker's queue that no inbox can take: its exact bytes, what is shown of them, and why.

    `shown` and `metadata` are JSON.
    """

    message_id: UUID
    message_type: str
    queue: str
    stream_id: UUID | None
    body: bytes
    shown: str
    metadata: str
    failure: Failure
    instance_id: UUID
    generation: str


class DeadLetterStore(Protocol):
    """Named by the setting DEAD_LETTER_STORE. Every method runs in the caller's transaction."""

    def lock(self, dead_letter_ids: Sequence[UUID]) -> None:
        """Lock these letters, in order of id: letters come first in the lock order."""

    def move(self, deaths: Sequence[Death]) -> Mapping[UUID, UUID]:
        """Move messages of one source and claim; return source id to letter id of those that were moved."""
        ...

    def settle(self, settlements: Sequence[Settlement]) -> None:
        """Write the verdicts of recovered messages."""

    def dead_events(self, perspective: str, stream_id: UUID) -> set[UUID]:
        """Return the stream's events that died in the perspective and have not been applied since."""
        ...

    def is_dead(self, source: str, source_ids: Sequence[UUID]) -> set[UUID]:
        """Return which of these messages have a letter that is not recovered."""
        ...

    def read(self, dead_letter_id: UUID) -> Content | None:
        """Return the body of the letter's message as it is kept now; None = there is no such letter (any more)."""
        ...

    def keep(self, unreceivable: Sequence[Unreceivable]) -> None:
        """Keep messages of a broker that never got into a queue of ours; one whose letter there is changes nothing."""
