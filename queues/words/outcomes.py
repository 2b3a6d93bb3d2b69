"""What a handler may say by what it raises, and what that comes to under a budget."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import IntEnum, StrEnum

from queues.words.chain import Carrier, walk
from queues.words.errors import InvalidSetting
from queues.words.foreign import is_a
from queues.words.text import text_of

MAX_WAIT = timedelta(days=36_525)
"""A hundred years: the longest wait asked for that is kept, since a database's times end."""

NO_LIMIT = -1
"""`max_attempts` and `max_delays` of a stored message without a limit; NULL there means unset."""


class FailureReason(IntEnum):
    """Why a message failed, as the source system numbers it."""

    NONE = 0
    TRANSPORT_NOT_READY = 1
    TRANSPORT_EXCEPTION = 2
    SERIALIZATION_ERROR = 3
    VALIDATION_ERROR = 4
    MAX_ATTEMPTS_EXCEEDED = 5
    LEASE_EXPIRED = 6
    EVENT_STORAGE_FAILURE = 7
    THROTTLED = 8
    SECURITY_CONTEXT_ESTABLISHMENT_FAILURE = 10
    EMPTY_STREAM_ID = 11
    MESSAGE_BODY_TOO_LARGE = 12
    BODY_CLAIM_PROVIDER_UNKNOWN = 13
    BODY_CLAIM_INTEGRITY_FAILURE = 14
    COMPOSITE_INNER_EVENT_LIMIT_EXCEEDED = 15
    COMPOSITE_EXPANSION_FAILURE = 16
    BROKER_DEAD_LETTER = 17
    POISON_REDELIVERY_LOOP = 18
    UNKNOWN = 99


class Cause(StrEnum):
    """Why a message was dead-lettered."""

    BUDGET_SPENT = "budget_spent"
    TERMINAL = "terminal"
    DELAY_CAP = "delay_cap"
    WORKER_LOST = "worker_lost"
    NO_HANDLER = "no_handler"
    UNREADABLE = "unreadable"
    IMPORTED = "imported"
    OPERATOR = "operator"


class OutcomeKind(StrEnum):
    """What the delivery log says of one event of a message."""

    SUCCESS = "success"
    FAILURE = "failure"
    TERMINAL = "terminal"
    DELAYED = "delayed"
    WORKER_LOST = "worker_lost"
    RELEASED = "released"


class _AppliedAlready:
    """What work returns that found its effect there already, and did nothing."""


APPLIED_ALREADY = _AppliedAlready()


class Terminal(Carrier):
    """Raised by a handler: the message can never succeed. Takes the cause, or a sentence.

    A cause that is an exception counts with its subjects, detail and class, also under `raise Terminal(x) from y`.
    """

    def __init__(self, cause: BaseException | str) -> None:
        super().__init__(cause)
        if is_a(cause, BaseException):
            self.__cause__ = self.carried = cause

    def __str__(self) -> str:
        return text_of(self.args[0])


class Delay(Exception):
    """Raised by a handler: not yet, run me again after `by` (a number: seconds). No failure, burns no attempt.

    `by` is kept between nothing (the next poll) and MAX_WAIT.
    """

    def __init__(self, by: timedelta | float, reason: str = "") -> None:
        asked = by if isinstance(by, timedelta) else timedelta(seconds=max(min(by, MAX_WAIT.total_seconds()), 0))
        self.by = max(min(asked, MAX_WAIT), timedelta(0))
        super().__init__(reason or f"asked to run again after {self.by}")


@dataclass(frozen=True, kw_only=True)
class Classification:
    """A classifier's word on one exception."""

    permanent: bool
    reason: FailureReason


Classifier = Callable[[BaseException], Classification | None]
"""Looks at one exception, not at its chain; None = it does not know this one."""


class Verdict(StrEnum):
    RETRY = "retry"
    TERMINAL = "terminal"
    DELAY = "delay"


@dataclass(frozen=True, kw_only=True)
class Ruling:
    """How a raised exception is to be taken, before any budget."""

    verdict: Verdict
    reason: FailureReason = FailureReason.UNKNOWN
    delay: timedelta | None = None


def rule(exc: BaseException, classifiers: Sequence[Classifier]) -> Ruling:
    """Walk the whole chain: a Delay anywhere wins, then a Terminal, then the first classification, then retry.

    Classifiers are asked about the outermost exception first; one that raises does not know.
    """
    chain = list(walk(exc))
    for node in chain:
        if is_a(node, Delay):
            return Ruling(verdict=Verdict.DELAY, delay=node.by)
    known = _classify(chain, classifiers)
    terminal = any(is_a(node, Terminal) for node in chain) or (known is not None and known.permanent)
    reason = known.reason if known else FailureReason.UNKNOWN
    return Ruling(verdict=Verdict.TERMINAL if terminal else Verdict.RETRY, reason=reason)


def _classify(chain: Sequence[BaseException], classifiers: Sequence[Classifier]) -> Classification | None:
    found = (_ask(classify, node) for node in chain for classify in classifiers)
    return next((classification for classification in found if classification is not None), None)


def _ask(classify: Classifier, node: BaseException) -> Classification | None:
    try:
        word = classify(node)
    except Exception:  # a classifier's fault must not keep the failure itself from being recorded
        return None
    return word if is_a(word, Classification) else None


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How many failing runs and how many delays a message may have; None = no limit."""

    max_attempts: int | None
    max_delays: int | None

    def __post_init__(self) -> None:
        _check_cap("MAX_ATTEMPTS", self.max_attempts, least=1)
        _check_cap("MAX_DELAYS", self.max_delays, least=0)

    def clamped(
        self, row_max_attempts: int | None, row_max_delays: int | None, floor: int | None, ceiling: int | None
    ) -> "Budget":
        """Return the budget of one message: its own caps where set (-1 = no limit), attempts within the bounds."""
        if row_max_attempts is row_max_delays is floor is ceiling is None:
            return self  # as for most messages
        return Budget(
            max_attempts=_within(_own(row_max_attempts, self.max_attempts), floor, ceiling),
            max_delays=_own(row_max_delays, self.max_delays),
        )


def _check_cap(name: str, cap: object, *, least: int) -> None:
    if cap is None:
        return
    if isinstance(cap, bool) or not isinstance(cap, int) or cap < least:
        raise InvalidSetting(name, cap, f"a whole number from {least}, or None for no limit")


def _own(stored: int | None, default: int | None) -> int | None:
    if stored is None:
        return default
    return None if stored == NO_LIMIT else stored


def _within(attempts: int | None, floor: int | None, ceiling: int | None) -> int | None:
    if attempts is None:
        return ceiling
    raised = attempts if floor is None else max(attempts, floor)
    return raised if ceiling is None else min(raised, ceiling)


def used(attempts: int, delays: int, releases: int) -> int:
    """Return how much of the budget is used: runs that were neither delays nor given back."""
    return attempts - delays - releases


def is_spent(used_runs: int, budget: Budget) -> bool:
    return budget.max_attempts is not None and used_runs >= budget.max_attempts


def delays_spent(delays: int, budget: Budget) -> bool:
    return budget.max_delays is not None and delays >= budget.max_delays


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What comes of a run: its outcome, and the cause when it was the message's last."""

    kind: OutcomeKind
    dead: Cause | None
    reason: FailureReason
    delay: timedelta | None = None


def decide(ruling: Ruling, *, attempts: int, delays: int, releases: int, budget: Budget) -> Decision:
    """Apply the budget to a ruling; `attempts` counts this run, `delays` those before it."""
    if ruling.verdict is Verdict.DELAY:
        return _delayed(ruling, delays, budget)
    if ruling.verdict is Verdict.TERMINAL:
        return Decision(kind=OutcomeKind.TERMINAL, dead=Cause.TERMINAL, reason=ruling.reason)
    if not is_spent(used(attempts, delays, releases), budget):
        return Decision(kind=OutcomeKind.FAILURE, dead=None, reason=ruling.reason)
    unclassified = ruling.reason is FailureReason.UNKNOWN
    reason = FailureReason.MAX_ATTEMPTS_EXCEEDED if unclassified else ruling.reason
    return Decision(kind=OutcomeKind.FAILURE, dead=Cause.BUDGET_SPENT, reason=reason)


def _delayed(ruling: Ruling, delays: int, budget: Budget) -> Decision:
    if delays_spent(delays, budget):
        return Decision(kind=OutcomeKind.FAILURE, dead=Cause.DELAY_CAP, reason=ruling.reason)
    return Decision(kind=OutcomeKind.DELAYED, dead=None, reason=ruling.reason, delay=ruling.delay)
