from collections.abc import Iterator
from datetime import timedelta
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.words.errors import InvalidSetting
from queues.words.failures import Subject, attribute, attribution, detail
from queues.words.outcomes import (
    MAX_WAIT,
    Budget,
    Cause,
    Classification,
    Decision,
    Delay,
    FailureReason,
    OutcomeKind,
    Ruling,
    Terminal,
    Verdict,
    decide,
    delays_spent,
    is_spent,
    rule,
    used,
)

HOUR = timedelta(hours=1)
RETRY = Ruling(verdict=Verdict.RETRY)
DELAY = Ruling(verdict=Verdict.DELAY, delay=HOUR)


class CardDeclined(Exception): ...


def caught(exc: BaseException, *, cause: BaseException | None = None) -> BaseException:
    """Return the exception as a handler lets it out."""
    try:
        raise exc from cause
    except BaseException as raised:
        return raised


def classify_declined(exc: BaseException) -> Classification | None:
    if isinstance(exc, CardDeclined):
        return Classification(permanent=True, reason=FailureReason.VALIDATION_ERROR)
    return None


def classify_timeout(exc: BaseException) -> Classification | None:
    if isinstance(exc, TimeoutError):
        return Classification(permanent=False, reason=FailureReason.TRANSPORT_EXCEPTION)
    return None


CLASSIFIERS = (classify_declined, classify_timeout)


# --- what an exception says


def test_an_unclassified_exception_is_retried_for_an_unknown_reason() -> None:
    assert rule(ValueError(), CLASSIFIERS) == Ruling(verdict=Verdict.RETRY, reason=FailureReason.UNKNOWN)


def test_terminal_keeps_its_cause_and_says_its_text() -> None:
    cause = CardDeclined("do not honour")
    terminal = Terminal(cause)

    assert (terminal.__cause__, str(terminal)) == (cause, "do not honour")
    assert str(Terminal("no such order")) == "no such order"


def test_terminal_takes_the_reason_of_its_classified_cause() -> None:
    ruling = rule(caught(Terminal(TimeoutError())), CLASSIFIERS)

    assert ruling == Ruling(verdict=Verdict.TERMINAL, reason=FailureReason.TRANSPORT_EXCEPTION)


@pytest.mark.parametrize("cause", [None, KeyError("from elsewhere")])
def test_terminal_keeps_what_it_was_given_when_raised_from_something_else(cause: BaseException | None) -> None:
    given = attribute(CardDeclined(), Subject("order", "42"))
    raised = caught(Terminal(given), cause=cause)

    assert rule(raised, CLASSIFIERS).reason is FailureReason.VALIDATION_ERROR
    assert attribution(raised).subjects == (Subject("order", "42"),)


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


def test_terminal_survives_a_cause_that_cannot_say_itself() -> None:
    assert str(Terminal(Mute())) == "<unprintable Mute: RuntimeError>"


@pytest.mark.parametrize(
    ("by", "kept"),
    [
        (HOUR, HOUR),
        (90, timedelta(seconds=90)),
        (0.5, timedelta(milliseconds=500)),
        (0, timedelta(0)),
        (-5, timedelta(0)),
        (-HOUR, timedelta(0)),
        (timedelta.max, MAX_WAIT),
        (float("inf"), MAX_WAIT),
        (float("-inf"), timedelta(0)),
        (10**400, MAX_WAIT),
    ],
)
def test_delay_is_kept_between_nothing_and_a_hundred_years(by: Any, kept: timedelta) -> None:
    assert Delay(by).by == kept


def test_delay_says_its_reason_or_how_long() -> None:
    assert str(Delay(HOUR, "settling")) == "settling"
    assert str(Delay(HOUR)) == "asked to run again after 1:00:00"


def test_a_delay_wrapped_twice_is_a_delay() -> None:
    inner = caught(RuntimeError("once"), cause=Delay(HOUR))
    outer = caught(ValueError("twice"), cause=inner)

    assert rule(outer, CLASSIFIERS) == Ruling(verdict=Verdict.DELAY, delay=HOUR)


def test_a_delay_as_implicit_context_is_a_delay_unless_suppressed() -> None:
    def while_handling(exc: Exception) -> Exception:
        exc.__context__ = Delay(HOUR)
        return exc

    suppressed = while_handling(ValueError())
    suppressed.__suppress_context__ = True

    assert rule(while_handling(ValueError()), ()).verdict is Verdict.DELAY
    assert rule(suppressed, ()).verdict is Verdict.RETRY


def both_ways() -> Iterator[BaseException]:
    yield caught(Terminal("no"), cause=Delay(HOUR))
    yield caught(Delay(HOUR), cause=Terminal("no"))
    yield Terminal(Delay(HOUR))
    yield ExceptionGroup("g", [Terminal("no"), ExceptionGroup("inner", [Delay(HOUR)])])


@pytest.mark.parametrize("exc", list(both_ways()))
def test_delay_wins_over_terminal_in_one_chain(exc: BaseException) -> None:
    assert rule(exc, CLASSIFIERS) == Ruling(verdict=Verdict.DELAY, delay=HOUR)


def test_terminal_wins_over_a_classifier_that_would_retry() -> None:
    assert rule(caught(TimeoutError(), cause=Terminal("no")), CLASSIFIERS).verdict is Verdict.TERMINAL


@pytest.mark.parametrize(
    "exc",
    [
        CardDeclined(),
        caught(RuntimeError(), cause=CardDeclined()),
        ExceptionGroup("g", [ValueError(), ExceptionGroup("inner", [CardDeclined()])]),
        caught(RuntimeError(), cause=ExceptionGroup("g", [CardDeclined()])),
    ],
)
def test_a_permanent_class_is_terminal_wherever_it_stands_in_the_chain(exc: BaseException) -> None:
    expected = Ruling(verdict=Verdict.TERMINAL, reason=FailureReason.VALIDATION_ERROR)

    assert rule(exc, CLASSIFIERS) == expected


def test_the_outermost_classification_wins() -> None:
    outer = caught(TimeoutError(), cause=CardDeclined())

    assert rule(outer, CLASSIFIERS) == Ruling(verdict=Verdict.RETRY, reason=FailureReason.TRANSPORT_EXCEPTION)


def test_of_two_classifiers_that_know_an_exception_the_first_wins() -> None:
    def throttled(exc: BaseException) -> Classification:
        return Classification(permanent=False, reason=FailureReason.THROTTLED)

    assert rule(TimeoutError(), (throttled, classify_timeout)).reason is FailureReason.THROTTLED
    assert rule(TimeoutError(), (classify_timeout, throttled)).reason is FailureReason.TRANSPORT_EXCEPTION


def broken(exc: BaseException) -> Classification | None:
    raise AttributeError("a bug in a classifier")


def careless(exc: BaseException) -> Any:
    return True


def test_a_classifier_that_fails_or_answers_nonsense_does_not_know() -> None:
    assert rule(TimeoutError(), (broken, careless, classify_timeout)).reason is FailureReason.TRANSPORT_EXCEPTION


def test_attribution_alone_changes_no_verdict() -> None:
    exc = detail(attribute(TimeoutError(), Subject("order", "42")), {"code": 7})

    assert rule(exc, CLASSIFIERS) == rule(TimeoutError(), CLASSIFIERS)


# --- budgets


@pytest.mark.parametrize(
    "caps",
    [
        {"max_attempts": 0, "max_delays": 1},
        {"max_attempts": -1, "max_delays": 1},
        {"max_attempts": 1, "max_delays": -1},
        {"max_attempts": 2.5, "max_delays": 1},
        {"max_attempts": "3", "max_delays": 1},
        {"max_attempts": True, "max_delays": 1},
    ],
)
def test_a_budget_that_cannot_be_is_refused_by_name(caps: dict[str, Any]) -> None:
    with pytest.raises(InvalidSetting, match=r"^MAX_(ATTEMPTS|DELAYS) is "):
        Budget(**caps)


def run_until_dead(budget: Budget, raised: Iterator[Ruling], *, runs: int) -> list[Decision]:
    """Return the decisions of a message's runs, the last of which is its death if it dies."""
    delays = 0
    decisions = []
    for attempts, ruling in enumerate(islice(raised, runs), start=1):
        decision = decide(ruling, attempts=attempts, delays=delays, releases=0, budget=budget)
        decisions.append(decision)
        delays += decision.kind is OutcomeKind.DELAYED
        if decision.dead:
            break
    return decisions


def always(ruling: Ruling) -> Iterator[Ruling]:
    while True:
        yield ruling


@pytest.mark.parametrize("cap", [1, 2, 3, 10])
def test_a_message_dies_at_exactly_its_capth_failing_run(cap: int) -> None:
    decisions = run_until_dead(Budget(max_attempts=cap, max_delays=None), always(RETRY), runs=50)

    assert [decision.dead for decision in decisions] == [None] * (cap - 1) + [Cause.BUDGET_SPENT]
    assert {decision.kind for decision in decisions} == {OutcomeKind.FAILURE}


def test_without_a_limit_a_message_never_dies_of_failures_or_delays() -> None:
    budget = Budget(max_attempts=None, max_delays=None)

    assert not any(decision.dead for decision in run_until_dead(budget, always(RETRY), runs=500))
    assert not any(decision.dead for decision in run_until_dead(budget, always(DELAY), runs=500))


@given(st.integers(1, 6), st.lists(st.booleans(), max_size=40))
def test_delays_burn_nothing(cap: int, fails: list[bool]) -> None:
    """Whatever delays come between, exactly `cap` failing runs are allowed."""
    rulings = [RETRY if failing else DELAY for failing in fails]
    decisions = run_until_dead(Budget(max_attempts=cap, max_delays=None), iter(rulings), runs=100)

    failures = sum(decision.kind is OutcomeKind.FAILURE for decision in decisions)
    assert failures == min(cap, sum(fails))
    assert bool(decisions and decisions[-1].dead) == (sum(fails) >= cap)


@pytest.mark.parametrize("cap", [0, 1, 3])
def test_the_delay_after_the_last_one_allowed_is_the_death(cap: int) -> None:
    decisions = run_until_dead(Budget(max_attempts=1, max_delays=cap), always(DELAY), runs=50)

    assert [decision.kind for decision in decisions[:-1]] == [OutcomeKind.DELAYED] * cap
    assert (decisions[-1].dead, decisions[-1].kind) == (Cause.DELAY_CAP, OutcomeKind.FAILURE)


def test_a_message_at_its_delay_cap_may_still_fail_and_be_retried() -> None:
    decision = decide(RETRY, attempts=3, delays=2, releases=0, budget=Budget(max_attempts=2, max_delays=2))

    assert decision.dead is None


def test_a_delay_is_kept_as_asked() -> None:
    decision = decide(DELAY, attempts=1, delays=0, releases=0, budget=Budget(max_attempts=1, max_delays=1))

    assert decision == Decision(kind=OutcomeKind.DELAYED, dead=None, reason=FailureReason.UNKNOWN, delay=HOUR)


def test_a_charge_given_back_leaves_the_budget_as_it_was() -> None:
    budget = Budget(max_attempts=2, max_delays=None)

    assert decide(RETRY, attempts=2, delays=0, releases=1, budget=budget).dead is None
    assert decide(RETRY, attempts=3, delays=0, releases=1, budget=budget).dead is Cause.BUDGET_SPENT


def test_terminal_dies_on_the_first_attempt_whatever_the_budget() -> None:
    ruling = Ruling(verdict=Verdict.TERMINAL, reason=FailureReason.VALIDATION_ERROR)
    decision = decide(ruling, attempts=1, delays=0, releases=0, budget=Budget(max_attempts=None, max_delays=None))

    assert decision == Decision(
        kind=OutcomeKind.TERMINAL, dead=Cause.TERMINAL, reason=FailureReason.VALIDATION_ERROR, delay=None
    )


@pytest.mark.parametrize(
    ("classified", "at_death"),
    [
        (FailureReason.UNKNOWN, FailureReason.MAX_ATTEMPTS_EXCEEDED),
        (FailureReason.TRANSPORT_EXCEPTION, FailureReason.TRANSPORT_EXCEPTION),
    ],
)
def test_the_reason_of_a_spent_budget_is_the_class_if_there_is_one(
    classified: FailureReason, at_death: FailureReason
) -> None:
    ruling = Ruling(verdict=Verdict.RETRY, reason=classified)
    first, last = run_until_dead(Budget(max_attempts=2, max_delays=None), always(ruling), runs=2)

    assert (first.reason, last.reason) == (classified, at_death)


def test_a_budget_is_spent_at_its_cap_and_not_before() -> None:
    budget = Budget(max_attempts=3, max_delays=2)

    assert [is_spent(count, budget) for count in (2, 3, 4)] == [False, True, True]
    assert [delays_spent(count, budget) for count in (1, 2, 3)] == [False, True, True]
    assert used(7, 2, 1) == 4


# --- a message's own caps


@pytest.mark.parametrize(
    ("stored", "floor", "ceiling", "cap"),
    [
        (None, None, None, 10),
        (3, None, None, 3),
        (-1, None, None, None),
        (3, 5, None, 5),
        (30, None, 20, 20),
        (-1, None, 20, 20),
        (-1, 5, None, None),
        (7, 5, 20, 7),
        (None, 5, 20, 10),
    ],
)
def test_a_message_cap_is_clamped_also_when_it_asks_for_no_limit(
    stored: int | None, floor: int | None, ceiling: int | None, cap: int | None
) -> None:
    budget = Budget(max_attempts=10, max_delays=100).clamped(stored, None, floor, ceiling)

    assert budget == Budget(max_attempts=cap, max_delays=100)


@pytest.mark.parametrize(("stored", "cap"), [(None, 100), (-1, None), (0, 0), (7, 7)])
def test_a_message_may_bring_its_own_delay_cap(stored: int | None, cap: int | None) -> None:
    assert Budget(max_attempts=10, max_delays=100).clamped(None, stored, None, None).max_delays == cap


@given(
    st.one_of(st.none(), st.just(-1), st.integers(1, 100)), st.integers(1, 50), st.integers(0, 50), st.integers(1, 100)
)
def test_no_message_gets_past_the_ceiling(stored: int | None, floor: int, above: int, default: int) -> None:
    ceiling = floor + above
    budget = Budget(max_attempts=default, max_delays=None).clamped(stored, None, floor, ceiling)

    assert budget.max_attempts is not None
    assert floor <= budget.max_attempts <= ceiling


def test_reasons_are_numbered_as_in_the_source_system() -> None:
    numbers = {
        FailureReason.NONE: 0,
        FailureReason.SERIALIZATION_ERROR: 3,
        FailureReason.MAX_ATTEMPTS_EXCEEDED: 5,
        FailureReason.LEASE_EXPIRED: 6,
        FailureReason.THROTTLED: 8,
        FailureReason.UNKNOWN: 99,
    }

    assert all(int(reason) == number for reason, number in numbers.items())
    assert 9 not in set(FailureReason)
