"""The life of a message under its budget: what its runs come to one after the other."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queues.words.backoff import backoff
from queues.words.classifiers import DEFAULT_CLASSIFIERS
from queues.words.failures import Subject, attribute, attribution
from queues.words.outcomes import (
    Budget,
    Cause,
    Decision,
    Delay,
    FailureReason,
    OutcomeKind,
    Ruling,
    Terminal,
    Verdict,
    decide,
    is_spent,
    rule,
    used,
)

HOUR = timedelta(hours=1)
FAIL, TERMINAL = Ruling(verdict=Verdict.RETRY), Ruling(verdict=Verdict.TERMINAL)
DELAY = Ruling(verdict=Verdict.DELAY, delay=HOUR)
CRASH, GIVE_BACK = "the process is lost", "the charge is given back"
Run = Ruling | str


@dataclass(kw_only=True)
class Life:
    """A row as the engine keeps it: a start is charged, and gives a crash away where nothing is reported."""

    budget: Budget
    attempts: int = 0
    delays: int = 0
    releases: int = 0
    failing_runs: int = 0
    dead: Cause | None = None
    decisions: list[Decision] = field(default_factory=list)

    @property
    def used(self) -> int:
        return used(self.attempts, self.delays, self.releases)

    def claim(self) -> None:
        """Only a run that never reported leaves a spent budget behind."""
        if is_spent(self.used, self.budget):
            self.dead = Cause.WORKER_LOST

    def run(self, run: Run) -> None:
        self.attempts += 1
        if run == GIVE_BACK:
            self.releases += 1
        elif run == CRASH:
            self.failing_runs += 1
        elif isinstance(run, Ruling):
            self._report(run)

    def _report(self, ruling: Ruling) -> None:
        decision = decide(
            ruling, attempts=self.attempts, delays=self.delays, releases=self.releases, budget=self.budget
        )
        self.decisions.append(decision)
        self.delays += decision.kind is OutcomeKind.DELAYED
        self.failing_runs += ruling is FAIL
        self.dead = decision.dead

    def wait(self) -> timedelta:
        """Return the back-off after the last run, without jitter."""
        return backoff(self.used, base=timedelta(seconds=5), factor=2, cap=timedelta(seconds=300), spread=1)


def lived(budget: Budget, runs: Iterable[Run]) -> Life:
    life = Life(budget=budget)
    for run in runs:
        life.claim()
        if life.dead is None:
            life.run(run)
        if life.dead is not None:
            return life
    life.claim()
    return life


def caps(attempts: int | None, delays: int | None = 100) -> Budget:
    return Budget(max_attempts=attempts, max_delays=delays)


# --- whatever happens


RUNS = st.lists(st.sampled_from([FAIL, FAIL, DELAY, CRASH, GIVE_BACK, TERMINAL]), max_size=60)
CAPS = st.one_of(st.none(), st.integers(1, 8))


@given(CAPS, CAPS, RUNS)
@settings(max_examples=100)
def test_no_order_of_outcomes_gets_past_the_budget(attempts: int | None, delays: int | None, runs: list[Run]) -> None:
    life = lived(caps(attempts, delays), runs)

    assert life.attempts <= len(runs)
    assert life.used >= 0
    if attempts is not None:
        assert life.failing_runs <= attempts
        assert life.attempts <= attempts + life.delays + life.releases
    if delays is not None:
        assert life.delays <= delays


@given(CAPS, CAPS, RUNS)
@settings(max_examples=100)
def test_a_message_dies_for_a_cause_that_its_counters_show(
    attempts: int | None, delays: int | None, runs: list[Run]
) -> None:
    life = lived(caps(attempts, delays), runs)

    spent = attempts is not None and life.failing_runs == attempts
    match life.dead:
        case Cause.BUDGET_SPENT | Cause.WORKER_LOST:
            assert spent
        case Cause.DELAY_CAP:
            assert life.delays == delays
        case Cause.TERMINAL:
            assert life.decisions[-1].kind is OutcomeKind.TERMINAL
        case _:
            assert life.dead is None
            assert not spent


@given(CAPS, RUNS)
def test_a_charge_given_back_or_a_delay_changes_no_verdict_on_the_others(attempts: int | None, runs: list[Run]) -> None:
    burning = [run for run in runs if run not in (DELAY, GIVE_BACK)]

    life, without = lived(caps(attempts, None), runs), lived(caps(attempts, None), burning)

    assert (life.dead, life.used, life.failing_runs) == (without.dead, without.used, without.failing_runs)


# --- caps


@pytest.mark.parametrize("cap", [1, 2, 3])
@pytest.mark.parametrize("run", [FAIL, CRASH])
def test_a4_runs_failing_runs_attempts_and_cap_are_one_number(cap: int, run: Run) -> None:
    life = lived(caps(cap), [run] * 20)

    assert (life.attempts, life.failing_runs, life.used) == (cap, cap, cap)


def test_ten_failing_runs_are_allowed_by_a_cap_of_ten_however_they_fail() -> None:
    assert lived(caps(10), [FAIL, CRASH] * 5).attempts == 10
    assert lived(caps(10), [CRASH, FAIL] * 20).attempts == 10
    assert lived(caps(10), [FAIL, CRASH] * 4).dead is None


def test_a_crash_on_the_last_attempt_dies_at_the_next_claim_without_running() -> None:
    life = lived(caps(3), [FAIL, FAIL, CRASH, FAIL])

    assert (life.dead, life.attempts, len(life.decisions)) == (Cause.WORKER_LOST, 3, 2)


def test_a_crash_on_an_earlier_attempt_is_followed_by_a_run_that_dies_with_its_own_failure() -> None:
    life = lived(caps(3), [FAIL, CRASH, FAIL])

    assert (life.dead, life.attempts) == (Cause.BUDGET_SPENT, 3)


def test_a_crash_at_the_delay_cap_is_a_failing_run_and_only_another_delay_kills() -> None:
    before = [DELAY, DELAY, CRASH]

    assert lived(caps(3, 2), before).dead is None
    assert lived(caps(3, 2), [*before, FAIL]).dead is None
    assert lived(caps(3, 2), [*before, DELAY]).dead is Cause.DELAY_CAP
    assert lived(caps(1, 2), before).dead is Cause.WORKER_LOST


def test_a_cap_lowered_below_what_is_used_leaves_no_run() -> None:
    life = lived(caps(5), [FAIL] * 3)
    life.budget = caps(2)
    life.claim()

    assert (life.dead, life.attempts) == (Cause.WORKER_LOST, 3)


@pytest.mark.parametrize(("own", "runs"), [(1, 2), (2, 2), (3, 3), (6, 6), (9, 6), (-1, 6), (None, 4)])
def test_a_cap_of_the_message_holds_for_failures_and_crashes_alike_within_the_bounds(
    own: int | None, runs: int
) -> None:
    budget = caps(4).clamped(own, None, 2, 6)

    assert [lived(budget, [run] * 20).attempts for run in (FAIL, CRASH)] == [runs, runs]


def test_unset_no_limit_and_zero_are_three_values_of_a_delay_cap() -> None:
    unset, no_limit, zero = (caps(1, 5).clamped(None, own, None, None) for own in (None, -1, 0))

    assert [len(lived(budget, [DELAY] * 20).decisions) for budget in (unset, no_limit, zero)] == [6, 20, 1]


def test_a_delay_cap_of_zero_is_not_lifted_by_a_ceiling_on_attempts() -> None:
    life = lived(caps(3, 5).clamped(None, 0, 2, 9), [DELAY])

    assert (life.dead, life.delays, life.used) == (Cause.DELAY_CAP, 0, 1)


# --- delays and back-off


def test_one_delay_more_than_the_cap_is_the_death_and_no_further_delay() -> None:
    life = lived(caps(3, 4), [DELAY] * 5)

    assert (life.dead, life.delays, life.attempts) == (Cause.DELAY_CAP, 4, 5)
    assert life.decisions[-1].delay is None


def test_a2_the_first_failure_after_thirty_delays_is_one_attempt_and_waits_the_first_step() -> None:
    life = lived(caps(3), [*[DELAY] * 30, FAIL])

    assert (life.used, life.dead, life.wait()) == (1, None, timedelta(seconds=5))


def test_a_delay_between_failures_leaves_budget_and_back_off_as_they_were() -> None:
    waits = []
    life = Life(budget=caps(4))
    for run in (FAIL, DELAY, DELAY, FAIL, DELAY, FAIL):
        life.run(run)
        waits += [life.wait().total_seconds()] if run is FAIL else []

    assert waits == [5, 10, 20]
    assert lived(caps(3), [FAIL, DELAY, DELAY, FAIL, DELAY, FAIL]).dead is Cause.BUDGET_SPENT


@pytest.mark.parametrize("by", [timedelta(0), 0, 0.0, -1, timedelta(days=-3)])
def test_a_delay_of_nothing_or_less_is_due_at_once_and_still_counts_as_one(by: timedelta | float) -> None:
    decision = decide(rule(Delay(by), ()), attempts=1, delays=0, releases=0, budget=caps(1, 1))

    assert (decision.kind, decision.delay, decision.dead) == (OutcomeKind.DELAYED, timedelta(0), None)


def test_a_delay_is_never_a_classified_failure_whatever_stands_behind_it() -> None:
    try:
        raise Delay(HOUR) from TimeoutError()
    except Delay as exc:
        ruling = rule(exc, DEFAULT_CLASSIFIERS)

    assert ruling == Ruling(verdict=Verdict.DELAY, reason=FailureReason.UNKNOWN, delay=HOUR)


@given(st.one_of(st.timedeltas(), st.floats(allow_nan=False), st.integers()))
def test_a_delay_is_bounded_whatever_is_asked(by: timedelta | float) -> None:
    kept = Delay(by).by

    asked = by.total_seconds() if isinstance(by, timedelta) else by
    assert timedelta(0) <= kept <= timedelta(days=36_525)
    assert kept.total_seconds() == pytest.approx(max(0, min(asked, 36_525 * 86_400)), abs=1e-6)


def test_a_delay_that_is_no_number_is_refused_where_it_is_made() -> None:
    with pytest.raises(ValueError, match="NaN"):
        Delay(float("nan"))


# --- back-off


CURVES = st.tuples(st.integers(1, 600), st.floats(1, 10), st.integers(1, 5_000))


@given(CURVES, st.integers(1, 60), st.floats(0, 1, exclude_max=True))
def test_any_back_off_lies_between_half_and_all_of_its_step_and_never_above_its_cap(
    curve: tuple[int, float, int], failures: int, spread: float
) -> None:
    base, factor, cap = timedelta(seconds=curve[0]), curve[1], timedelta(seconds=curve[2])

    waited = backoff(failures, base=base, factor=factor, cap=cap, spread=spread)

    step = min(curve[0] * factor ** (failures - 1), curve[2])
    assert step / 2 <= waited.total_seconds() + 1e-5
    assert waited.total_seconds() <= step + 1e-5
    assert waited <= cap


# --- charging a card


class CardDeclined(Exception): ...


ORDER = Subject("order", "42")


def charged(card: str) -> BaseException:
    """Return what charging this card raises."""
    match card:
        case "declined":
            return Terminal(attribute(CardDeclined("do not honour"), ORDER))
        case "settles-later":
            return Delay(HOUR, "settles at night")
        case _:
            return attribute(ConnectionRefusedError("gateway down"), ORDER)


def test_a_declined_card_dies_on_its_first_attempt_with_the_cause_and_its_subject() -> None:
    exc = charged("declined")
    life = lived(caps(3), [rule(exc, DEFAULT_CLASSIFIERS)] * 5)

    assert (life.dead, life.attempts) == (Cause.TERMINAL, 1)
    assert attribution(exc).message.endswith("CardDeclined: do not honour")
    assert attribution(exc).subjects == (ORDER,)


def test_a_gateway_that_is_down_uses_up_the_budget_and_keeps_its_class() -> None:
    life = lived(caps(3), [rule(charged("gateway-down"), DEFAULT_CLASSIFIERS)] * 5)

    assert (life.dead, life.attempts) == (Cause.BUDGET_SPENT, 3)
    assert {decision.reason for decision in life.decisions} == {FailureReason.TRANSPORT_EXCEPTION}


def test_a_card_that_settles_later_waits_without_a_failure() -> None:
    life = lived(caps(1), [rule(charged("settles-later"), DEFAULT_CLASSIFIERS)] * 3)

    assert (life.dead, life.used, life.delays) == (None, 0, 3)
    assert {decision.delay for decision in life.decisions} == {HOUR}
