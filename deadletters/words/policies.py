"""What may become of a dead letter, and when the schedule recovers it: the rules as tables.

The database's functions change the rows; these tables say what they may do, and to whom it is explained.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import IntEnum, StrEnum

from queues.words.backoff import backoff
from queues.words.outcomes import Cause, FailureReason

MAX_COOLDOWN = timedelta(hours=24)
BUILD_LOOK = timedelta(hours=1)
"""How often the schedule looks whether the build is there that a letter waits for."""
LAST_LOOK = datetime(9998, 12, 31, tzinfo=UTC)
"""The database refuses later times: one letter of a mover whose clock is wrong would stop the scans of all."""
BREAKER_SCANS = 3
BREAKER_SHARE = 0.5
BREAKER_TIME = timedelta(hours=1)
FRESH_TIME = timedelta(minutes=5)
"""A letter that died longer ago is not fresh, however long ago the scan before was."""


class Status(IntEnum):
    """What the machine knows about a letter's recovery, as `recovery_status` keeps it."""

    PENDING = 0
    RECOVERING = 1
    HELD = 2
    RECOVERED = 3
    PERMANENTLY_FAILED = 4


class Disposition(IntEnum):
    """What a person decided, as `operator_disposition` keeps it; it wins over everything automatic."""

    NONE = 0
    RETRY_NOW = 1
    HOLD_INDEFINITELY = 2
    MARK_PERMANENTLY_FAILED = 3


class Event(StrEnum):
    """What happens to a letter: to its message, by a person, or by its policy."""

    SENT = "sent"
    HANDLED = "handled"
    DIED = "died"
    NO_ANSWER = "no_answer"
    RETRY_NOW = "retry_now"
    HOLD = "hold"
    RELEASE = "release"
    GIVE_UP = "give_up"
    REOPEN = "reopen"
    POLICY_HOLD = "policy_hold"
    POLICY_GIVE_UP = "policy_give_up"


_HELD_OR_OPEN = (Status.PENDING, Status.HELD)
_DECIDED_IN_FLIGHT = (Event.RETRY_NOW, Event.HOLD, Event.RELEASE, Event.GIVE_UP)

TRANSITIONS: Mapping[tuple[Status, Event], Status] = {
    **{(status, Event.SENT): Status.RECOVERING for status in _HELD_OR_OPEN},
    # A fact, whatever was decided meanwhile.
    **{(status, Event.HANDLED): Status.RECOVERED for status in Status},
    # Without a decision of a person; with one see `status_after_death`.
    **{(status, Event.DIED): Status.PENDING for status in Status},
    (Status.RECOVERING, Event.NO_ANSWER): Status.HELD,
    # While its message is under way only what a person decided is kept.
    **{(Status.RECOVERING, event): Status.RECOVERING for event in _DECIDED_IN_FLIGHT},
    **{(status, Event.RETRY_NOW): Status.PENDING for status in _HELD_OR_OPEN},
    **{(status, Event.HOLD): Status.HELD for status in _HELD_OR_OPEN},
    **{(status, Event.RELEASE): Status.PENDING for status in _HELD_OR_OPEN},
    # Of one that its policy gave up: now a person has.
    **{(status, Event.GIVE_UP): Status.PERMANENTLY_FAILED for status in (*_HELD_OR_OPEN, Status.PERMANENTLY_FAILED)},
    (Status.PERMANENTLY_FAILED, Event.REOPEN): Status.PENDING,
    (Status.PENDING, Event.POLICY_HOLD): Status.HELD,
    (Status.PENDING, Event.POLICY_GIVE_UP): Status.PERMANENTLY_FAILED,
}
"""Status and event to the status that follows; what is not here is not allowed."""

_DECIDES = {
    Event.RETRY_NOW: Disposition.RETRY_NOW,
    Event.HOLD: Disposition.HOLD_INDEFINITELY,
    Event.RELEASE: Disposition.NONE,
    Event.GIVE_UP: Disposition.MARK_PERMANENTLY_FAILED,
    Event.REOPEN: Disposition.NONE,
}


def next_status(status: int, event: Event) -> Status | None:
    """Return the status that an event leads to; None when it is not allowed in this status."""
    return TRANSITIONS.get((Status(status), event))


def decisions_on(status: int, disposition: int) -> Sequence[Event]:
    """Return what a person may decide about a letter as it is; in flight it holds from its next death on."""
    in_flight = [Event.HOLD, Event.GIVE_UP] if disposition == Disposition.NONE else [Event.RELEASE]
    return {
        Status.PENDING: [Event.HOLD, Event.GIVE_UP],
        Status.RECOVERING: in_flight,
        Status.HELD: [Event.RELEASE, Event.GIVE_UP],
        Status.PERMANENTLY_FAILED: [Event.REOPEN],
    }.get(Status(status), [])


def next_disposition(disposition: int, event: Event) -> Disposition:
    """Return what a person's decision is after an allowed event; a send uses up "retry now" and nothing else."""
    if event is Event.SENT and disposition == Disposition.RETRY_NOW:
        return Disposition.NONE
    return _DECIDES.get(event, Disposition(disposition))


def status_after_death(status: int, disposition: int) -> Status:
    """Return the status of a letter whose message died again; what a person decided about it comes first."""
    decided = {
        Disposition.HOLD_INDEFINITELY: Status.HELD,
        Disposition.MARK_PERMANENTLY_FAILED: Status.PERMANENTLY_FAILED,
    }
    return decided.get(Disposition(disposition)) or TRANSITIONS[Status(status), Event.DIED]


class AfterBudget(StrEnum):
    """What becomes of a letter whose automatic recoveries are used up."""

    HOLD = "hold"
    GIVE_UP = "give_up"


@dataclass(frozen=True, kw_only=True)
class Policy:
    """What the schedule does with letters of a cause, or of a cause and a failure reason (None: of any).

    Not automatic: the schedule leaves such a letter alone, open for a person. Otherwise it is recovered at most
    `max_recoveries` times, and `then` says what follows; `cooldown` is the wait before the first.
    """

    name: str
    cause: str
    reason: int | None
    max_recoveries: int
    cooldown: timedelta
    then: AfterBudget
    automatic: bool = True


def _never(name: str, cause: Cause) -> Policy:
    return Policy(
        name=name,
        cause=cause,
        reason=None,
        max_recoveries=0,
        cooldown=timedelta(0),
        then=AfterBudget.HOLD,
        automatic=False,
    )


def _spent(name: str, reason: FailureReason | None, times: int, minutes: int, then: AfterBudget) -> Policy:
    return Policy(
        name=name,
        cause=Cause.BUDGET_SPENT,
        reason=reason,
        max_recoveries=times,
        cooldown=timedelta(minutes=minutes),
        then=then,
    )


_SPENT = (
    _spent("throttled", FailureReason.THROTTLED, 3, 30, AfterBudget.GIVE_UP),
    _spent("transport failed", FailureReason.TRANSPORT_EXCEPTION, 3, 60, AfterBudget.GIVE_UP),
    _spent("transport not ready", FailureReason.TRANSPORT_NOT_READY, 3, 30, AfterBudget.GIVE_UP),
    _spent("lease expired", FailureReason.LEASE_EXPIRED, 5, 0, AfterBudget.GIVE_UP),
    _spent("attempts used up", FailureReason.MAX_ATTEMPTS_EXCEEDED, 1, 6 * 60, AfterBudget.HOLD),
    _spent("event not stored", FailureReason.EVENT_STORAGE_FAILURE, 0, 0, AfterBudget.HOLD),
    _spent("not valid", FailureReason.VALIDATION_ERROR, 0, 0, AfterBudget.HOLD),
    _spent("not serialisable", FailureReason.SERIALIZATION_ERROR, 0, 0, AfterBudget.HOLD),
    _spent("dead at its broker", FailureReason.BROKER_DEAD_LETTER, 3, 60, AfterBudget.HOLD),
    _spent("redelivered without end", FailureReason.POISON_REDELIVERY_LOOP, 0, 0, AfterBudget.HOLD),
    _spent("any other reason", None, 1, 60, AfterBudget.HOLD),
)

DEFAULT_POLICIES: tuple[Policy, ...] = (
    _never("can never succeed", Cause.TERMINAL),
    _never("no handler", Cause.NO_HANDLER),
    _never("unreadable", Cause.UNREADABLE),
    _never("too many delays", Cause.DELAY_CAP),
    _never("worker lost", Cause.WORKER_LOST),  # a killer must not kill one worker after another
    _never("moved by a person", Cause.OPERATOR),
    Policy(
        name="imported from a broker",
        cause=Cause.IMPORTED,
        reason=None,
        max_recoveries=3,
        cooldown=timedelta(hours=1),
        then=AfterBudget.HOLD,
    ),
    *_SPENT,
)
"""Made once in the database, where an administrator edits them: by cause first, then by reason."""

NO_POLICY = Policy(
    name="none",
    cause="",
    reason=None,
    max_recoveries=0,
    cooldown=timedelta(0),
    then=AfterBudget.HOLD,
    automatic=False,
)
"""Of a letter for which no policy was made: the schedule leaves it alone."""


def policy_for(cause: str | None, reason: int, policies: Iterable[Policy]) -> Policy:
    """Return the policy of a letter: that of its cause and reason, else that of its cause, else NO_POLICY.

    A letter of an adopted database has no cause: its reason tells a lost worker, anything else spent its budget.
    """
    known = {(policy.cause, policy.reason): policy for policy in policies}
    lost = Cause.WORKER_LOST if reason == FailureReason.LEASE_EXPIRED else Cause.BUDGET_SPENT
    by = cause or lost
    return known.get((by, reason)) or known.get((by, None)) or NO_POLICY


def cooldown_after(policy: Policy, recovery_attempts: int, *, spread: float) -> timedelta:
    """Return how long after its death a letter waits that was recovered `recovery_attempts` times.

    The policy's cooldown doubled with each, at most MAX_COOLDOWN, between half and all of it by `spread` in [0, 1).
    """
    doublings = min(recovery_attempts, 60)  # more than a day by then, or nothing to double
    return backoff(doublings + 1, base=policy.cooldown, factor=2, cap=MAX_COOLDOWN, spread=spread)


@dataclass(frozen=True, kw_only=True)
class LetterFacts:
    """What a decision about a letter is taken on.

    `recovery_attempts`: recoveries by the schedule since the last reset; `next_recovery_at`: None while none is
    set; `quiet_until`: its own or its group's, whichever is later; `awaits_generation`: it or its group is quiet until
    a build that no worker has reported. `is_group_held`: its group is held, and no person has decided otherwise about
    this letter since; `is_held_by_group`: its disposition is the one of a group. `is_opened`: a person opened it since
    its death, so that no policy closes it. `is_known`: its source is one of ours; others cannot be sent back.
    """

    status: int
    disposition: int
    recovery_attempts: int
    next_recovery_at: datetime | None
    quiet_until: datetime | None = None
    awaits_generation: bool = False
    is_group_held: bool = False
    is_held_by_group: bool = False
    is_opened: bool = False
    is_known: bool = True


class Decision(StrEnum):
    """What becomes of a letter now, without a person. `NEVER`: nothing, by itself; `WAIT`: nothing yet.

    `GROUP_HOLD`: it is held because its group is; `GROUP_RELEASE`: it is not any more, because its group is not.
    """

    DUE = "due"
    WAIT = "wait"
    HOLD = "hold"
    GIVE_UP = "give_up"
    NEVER = "never"
    GROUP_HOLD = "group_hold"
    GROUP_RELEASE = "group_release"


def decide(letter: LetterFacts, policy: Policy, *, now: datetime) -> Decision:
    """Return what becomes of a letter: what a person decided, about it or its group, else what its policy says."""
    if (of_group := _of_group(letter)) is not None:
        return of_group
    if letter.status not in _HELD_OR_OPEN:
        return Decision.NEVER
    if not letter.is_known and letter.disposition in (Disposition.NONE, Disposition.RETRY_NOW):
        return Decision.NEVER
    if letter.disposition != Disposition.NONE:
        return _as_decided(letter)
    if letter.status == Status.HELD or not policy.automatic:
        return Decision.NEVER
    if letter.awaits_generation or _is_ahead(letter.quiet_until, now):
        return Decision.WAIT
    if letter.recovery_attempts >= policy.max_recoveries:
        if letter.is_opened:
            return Decision.NEVER
        return Decision.HOLD if policy.then is AfterBudget.HOLD else Decision.GIVE_UP
    is_waiting = letter.next_recovery_at is None or _is_ahead(letter.next_recovery_at, now)
    return Decision.WAIT if is_waiting else Decision.DUE


def next_look(letter: LetterFacts, policy: Policy, *, died_at: datetime, spread: float, now: datetime) -> datetime:
    """Return when the schedule looks at an open letter next: after its cooldown and its quiet time.

    One that waits for a build is looked at every BUILD_LOOK: nobody says when it comes.
    """
    moments = [died_at + cooldown_after(policy, letter.recovery_attempts, spread=spread)]
    if letter.quiet_until is not None:
        moments.append(letter.quiet_until)
    if letter.awaits_generation:
        moments.append(now + BUILD_LOOK)
    return min(max(moments), LAST_LOOK)


def _of_group(letter: LetterFacts) -> Decision | None:
    if letter.is_held_by_group:
        return None if letter.is_group_held else Decision.GROUP_RELEASE
    is_free = letter.disposition == Disposition.NONE and letter.status in (*_HELD_OR_OPEN, Status.RECOVERING)
    return Decision.GROUP_HOLD if letter.is_group_held and is_free else None


def _as_decided(letter: LetterFacts) -> Decision:
    if letter.disposition == Disposition.RETRY_NOW:
        return Decision.DUE
    if letter.disposition == Disposition.MARK_PERMANENTLY_FAILED:
        return Decision.GIVE_UP
    return Decision.NEVER if letter.status == Status.HELD else Decision.HOLD


def _is_ahead(moment: datetime | None, now: datetime) -> bool:
    return moment is not None and moment > now


@dataclass(frozen=True, kw_only=True)
class Scan:
    """A scan of the schedule that recovered something: how many letters, and how many died since the scan before."""

    began_at: datetime
    letters: int
    fresh: int

    @property
    def is_fresh(self) -> bool:
        return self.letters > 0 and self.fresh >= self.letters * BREAKER_SHARE


def suspended_until(scans: Sequence[Scan], *, now: datetime) -> datetime | None:
    """Return until when the schedule recovers nothing by itself; None: it does. `scans`: the latest first.

    Letters that die again as soon as they are recovered go round in a circle: BREAKER_SCANS such scans within
    BREAKER_TIME suspend it for BREAKER_TIME after the last of them.
    """
    latest = scans[:BREAKER_SCANS]
    if len(latest) < BREAKER_SCANS or not all(scan.is_fresh for scan in latest):
        return None
    if latest[0].began_at - latest[-1].began_at > BREAKER_TIME:
        return None
    until = latest[0].began_at + BREAKER_TIME
    return until if until > now else None
