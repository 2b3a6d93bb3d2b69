"""What a change of a recovery policy would do to the letters that are there, and having it done."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import partial
from uuid import UUID

from deadletters.queries.regions import load
from deadletters.recovery import passes
from deadletters.store import decisions, walks
from deadletters.store.decisions import Looked
from deadletters.words.policies import Decision, Policy, decide, next_look, policy_for
from queues.store.live import clock

SIMULATE_SECONDS = 2.0
PART_ROWS = 5_000
MAX_COUNTED = 10_000
"""Letters of which a simulation says what becomes of them."""
SAMPLES = 5


class Effect(StrEnum):
    """What a change does to a letter."""

    DUE = "would become due now"
    LATER = "would be recovered later"
    GIVEN_UP = "would be given up"
    HELD = "would be held"
    LEFT = "would no longer be automatic"


@dataclass(frozen=True, kw_only=True)
class Change:
    """A change of the policies: one that is added, changed or taken away."""

    before: Policy | None
    after: Policy | None

    def sides(self, policies: Sequence[Policy]) -> tuple[Sequence[Policy], Sequence[Policy]]:
        """Return all policies before and after the change, whether those given have it already or not."""
        changed = {(each.cause, each.reason) for each in (self.before, self.after) if each}
        others = [each for each in policies if (each.cause, each.reason) not in changed]
        return [*others, *filter(None, [self.before])], [*others, *filter(None, [self.after])]

    @property
    def matters(self) -> bool:
        """Whether more than the name changes."""
        nameless = [replace(each, name="") if each else None for each in (self.before, self.after)]
        return nameless[0] != nameless[1]

    def scopes(self) -> Sequence[tuple[str, int | None]]:
        """Return the causes, each with one reason or any, of the letters that the change may reach."""
        reached = {(each.cause, each.reason) for each in (self.before, self.after) if each is not None}
        whole = {cause for cause, reason in reached if reason is None}
        return [one for one in sorted(reached, key=str) if one[1] is None or one[0] not in whole]


@dataclass(frozen=True, kw_only=True)
class Effected:
    """How many letters an effect is for, and some of them."""

    words: str
    count: int
    samples: Sequence[UUID]


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """What a change does: letters by effect, five of each, and whether all were looked at.

    counted: letters that it changes something for, out of `looked_at` that the changed policies are about.
    """

    counts: Mapping[Effect, int] = field(default_factory=dict)
    samples: Mapping[Effect, Sequence[UUID]] = field(default_factory=dict)
    looked_at: int = 0
    is_complete: bool = True

    def words(self) -> str:
        """Say it in a sentence."""
        said = ", ".join(f"{self.counts[effect]:,} {effect.value}" for effect in Effect if effect in self.counts)
        if self.is_complete:
            return f"With this change {said}." if said else "No present letter changes."
        seen = f"There are many letters; of the newest {self.looked_at:,} that it is about"
        return f"{seen}, {said}." if said else f"{seen}, none changes."

    @property
    def effects(self) -> Sequence[Effected]:
        """Return what it does, but for what it does to nothing."""
        return [
            Effected(words=effect.value, count=self.counts[effect], samples=self.samples[effect])
            for effect in Effect
            if effect in self.counts
        ]

    def as_json(self) -> Mapping[str, object]:
        return {"counts": {effect.name.lower(): n for effect, n in self.counts.items()}, "complete": self.is_complete}


def simulate(change: Change, *, seconds: float = SIMULATE_SECONDS) -> Simulation:
    """Say what a change would do to present letters; of the newest of them when there are too many to look at."""
    found: dict[Effect, list[UUID]] = {effect: [] for effect in Effect}
    looked_at, is_complete = 0, True
    if change.matters:
        before, after = change.sides(decisions.policies())
        now = clock()
        for letters in _parts(change, until=time.monotonic() + seconds):
            if letters is None:
                is_complete = False
                break
            looked_at += len(letters)
            for letter in letters:
                if (effect := _effect(letter, before, after, now)) is not None:
                    found[effect].append(letter.dead_letter_id)
            if sum(map(len, found.values())) >= MAX_COUNTED:
                is_complete = False
                break
    return Simulation(
        counts={effect: len(ids) for effect, ids in found.items() if ids},
        samples={effect: ids[:SAMPLES] for effect, ids in found.items() if ids},
        looked_at=looked_at,
        is_complete=is_complete,
    )


def apply(change: Change) -> None:
    """Have the open letters brought in line with a change; to be called in the transaction that makes it."""
    if change.matters:
        for cause, reason in change.scopes():
            passes.of_policy(cause, reason)


def _parts(change: Change, *, until: float) -> Iterator[Sequence[Looked] | None]:
    """Yield the letters that a change may reach, by the part; None at last when the time is up."""
    for cause, reason in change.scopes():
        last: walks.Place | None = None
        while True:
            left = until - time.monotonic()
            read = partial(_part, cause, reason, last)
            part = load("what a policy would change", read, seconds=left).value if left > 0 else None
            if part is None:
                yield None
                return
            letters, last = part
            if last is None:
                break
            yield letters


def _part(cause: str, reason: int | None, after: walks.Place | None) -> tuple[Sequence[Looked], walks.Place | None]:
    part = walks.open_of(cause, reason, after=after, limit=PART_ROWS)
    return (decisions.look_at(part.ids) if part.ids else ()), part.last


def _effect(letter: Looked, before: Sequence[Policy], after: Sequence[Policy], now: datetime) -> Effect | None:
    was_policy, policy = (policy_for(letter.cause, letter.reason, each) for each in (before, after))
    if policy == was_policy:
        return None
    was = decide(letter.facts, was_policy, now=now)
    next_at = next_look(letter.facts, policy, died_at=letter.died_at, spread=letter.spread, now=now)
    becomes = decide(replace(letter.facts, next_recovery_at=next_at), policy, now=now)
    if becomes is was:
        return None
    effects = {
        Decision.DUE: Effect.DUE,
        Decision.GIVE_UP: Effect.GIVEN_UP,
        Decision.HOLD: Effect.HELD,
        Decision.NEVER: Effect.LEFT,
        Decision.WAIT: Effect.LATER,
    }
    return effects.get(becomes)
