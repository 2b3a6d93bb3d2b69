"""How often a message runs and when it dies, whichever source it waits in: one budget for all drainers."""

from datetime import timedelta

import pytest

from deadletters.models import DeadLetter
from deadletters.store.letters import Store
from queues import Delay, Subject, Terminal, attribute
from queues.conf import conf
from queues.models import DeliveryLogEntry
from queues.words.outcomes import Cause, FailureReason, OutcomeKind

pytestmark = pytest.mark.django_db


def fails(run):
    raise ValueError(f"run {run.number}")


def logged(work, letter=None):
    """Return attempt and outcome of each event in the log."""
    entries = DeliveryLogEntry.objects.filter(source=work.source).order_by("id")
    return list(entries.values_list("attempt", "outcome"))


# --- the cap


@pytest.mark.parametrize("cap", [1, 2, 3])
def test_a4_runs_attempts_and_log_entries_are_the_cap_exactly(work, configure, cap):
    configure(MAX_ATTEMPTS=cap)
    work.does = fails
    work_id = work.put()
    work.drain_for(cap + 2)

    letter = DeadLetter.objects.get()
    assert len(work.runs) == cap
    assert logged(work) == [(attempt, "failure") for attempt in range(1, cap + 1)]
    assert (letter.source_table, letter.source_id, letter.attempts_when_dlq) == (work.source, work_id, cap)
    assert letter.error_line == f"ValueError: run {cap}"
    assert (letter.cause, letter.failure_reason) == (Cause.BUDGET_SPENT, FailureReason.MAX_ATTEMPTS_EXCEEDED)
    assert (letter.generation, letter.recovery_status) == (conf().generation, 0)
    assert work.rows() == []


@pytest.mark.parametrize("cap", [1, 2, 3])
def test_the_last_run_that_the_cap_allows_may_still_succeed(work, configure, cap):
    configure(MAX_ATTEMPTS=cap)

    def last_one_works(run):
        if run.number < cap:
            fails(run)

    work.does = last_one_works
    work.put()
    work.drain_for(cap)

    assert len(work.runs) == cap
    assert work.rows() == []
    assert not DeadLetter.objects.exists()


@pytest.mark.parametrize(("attempt", "cap", "dies"), [(1, 3, False), (2, 3, False), (3, 3, True), (1, 1, True)])
def test_a_failing_run_is_the_last_one_exactly_when_it_reaches_the_cap(work, configure, attempt, cap, dies):
    configure(MAX_ATTEMPTS=cap)
    work.does = fails
    work.put(attempts=attempt - 1)
    work.drain()

    assert len(work.runs) == 1
    assert [letter.attempts_when_dlq for letter in DeadLetter.objects.all()] == ([attempt] if dies else [])
    assert [row["attempts"] for row in work.rows()] == ([] if dies else [attempt])


@pytest.mark.parametrize("unlimited", [{"cap": None, "row": None}, {"cap": 1, "row": -1}], ids=["setting", "row"])
def test_without_a_limit_a_message_at_a_hundred_attempts_fails_and_stays(work, configure, unlimited):
    configure(MAX_ATTEMPTS=unlimited["cap"])
    work.does = fails
    work_id = work.put(attempts=99, max_attempts=unlimited["row"])
    work.drain()

    assert work.row(work_id)["attempts"] == 100
    assert "run 1" in work.row(work_id)["error"]
    assert not DeadLetter.objects.exists()


def test_a4_a_cap_lowered_below_what_is_used_moves_the_row_untried_with_its_last_failure(work, configure):
    configure(MAX_ATTEMPTS=5)
    work.does = fails
    work.put()
    work.drain_for(3)
    configure(MAX_ATTEMPTS=2)
    work.drain_for(2)

    letter = DeadLetter.objects.get()
    assert len(work.runs) == 3
    assert (letter.cause, letter.attempts_when_dlq, letter.error_line) == (Cause.BUDGET_SPENT, 3, "ValueError: run 3")
    assert len(logged(work)) == 3


def test_a4_a_cap_raised_while_a_row_waits_gives_it_the_runs_of_the_new_cap(work, configure):
    configure(MAX_ATTEMPTS=2)
    work.does = fails
    work.put()
    work.drain()
    configure(MAX_ATTEMPTS=5)
    work.drain_for(6)

    assert len(work.runs) == 5
    assert DeadLetter.objects.get().attempts_when_dlq == 5


def test_a4_a_cap_raised_over_a_dead_message_leaves_it_dead(work, configure):
    configure(MAX_ATTEMPTS=2)
    work.does = fails
    work.put()
    work.drain_for(2)
    configure(MAX_ATTEMPTS=5)
    work.drain_for(2)

    assert len(work.runs) == 2
    assert DeadLetter.objects.get().attempts_when_dlq == 2


@pytest.mark.parametrize(("own", "runs"), [(1, 2), (3, 3), (9, 4), (-1, 4)])
def test_a_message_with_a_cap_of_its_own_runs_so_often_within_the_bounds_of_its_source(work, configure, own, runs):
    configure(MAX_ATTEMPTS=3, MIN_ATTEMPTS_OVERRIDE=2, MAX_ATTEMPTS_OVERRIDE=4)
    work.does = fails
    work.put(max_attempts=own)
    work.drain_for(6)

    assert len(work.runs) == runs
    assert DeadLetter.objects.get().attempts_when_dlq == runs


@pytest.mark.parametrize(("own", "runs"), [(1, 2), (9, 4), (-1, 4)])
def test_a_message_with_a_cap_of_its_own_crashes_so_often_within_the_bounds_of_its_source(work, configure, own, runs):
    configure(MAX_ATTEMPTS=3, MIN_ATTEMPTS_OVERRIDE=2, MAX_ATTEMPTS_OVERRIDE=4)
    work.put(max_attempts=own)
    for _ in range(runs):
        assert not DeadLetter.objects.exists()
        work.start_and_vanish()
    work.drain()

    assert work.runs == []
    assert (DeadLetter.objects.get().cause, DeadLetter.objects.get().attempts_when_dlq) == (Cause.WORKER_LOST, runs)


def test_a_foreign_row_over_its_cap_is_dead_lettered_with_its_stored_error_and_not_run(work, configure):
    configure(MAX_ATTEMPTS=10)
    work.put("over", attempts=11, error="the bank said no")
    work.put("under", attempts=3)
    work.drain()

    assert work.ran == ["under"]
    assert (DeadLetter.objects.get().error_text, DeadLetter.objects.get().attempts_when_dlq) == ("the bank said no", 11)


@pytest.mark.parametrize("error", [None, ""], ids=["none", "empty"])
def test_no_recorded_reason_and_an_empty_one_stay_two_things(work, error):
    work.put(attempts=11, error=error)
    work.drain()

    assert DeadLetter.objects.get().error_text == error


def test_the_defaults_are_ten_runs_a_hundred_delays_and_a_tick_of_five_seconds(configure):
    assert (conf().max_attempts, conf().max_delays, conf().tick_seconds) == (10, 100, 5)

    configure(MAX_ATTEMPTS=None, MAX_DELAYS=None)
    assert (conf().max_attempts, conf().max_delays) == (None, None)


# --- what a dead message is


def test_a_message_of_two_failures_is_dead_with_the_second_one_and_all_that_it_was(work, configure):
    """A different reason for each attempt; the letter has the last one, its subjects, and the message as it was."""

    def fail_with_a_subject(run):
        raise attribute(ValueError(f"reason {run.number}"), Subject("order", str(run.number)))

    configure(MAX_ATTEMPTS=2)
    work.does = fail_with_a_subject
    work_id = work.put({"a": 1}, stream="s")
    stream_id = work.row(work_id)["stream_id"]
    work.drain_for(4)

    letter = DeadLetter.objects.get()
    assert (letter.source_id, letter.stream_id) == (work_id, stream_id)
    assert letter.error_line == "ValueError: reason 2"
    assert letter.failure_detail["subjects"] == [{"type": "order", "id": "2"}]
    assert list(letter.subjects.values_list("type", "id")) == [("order", "2")]
    assert letter.dead_lettered_at is not None
    assert len(work.runs) == 2


@pytest.mark.parametrize("subjects", [(), (Subject("order", "42"),)], ids=["message only", "attributed"])
def test_terminal_dies_on_its_first_run_with_what_was_attributed_or_nothing(work, sql, subjects):
    def declined(run):
        raise attribute(Terminal("the card was declined"), *subjects)

    work.does = declined
    work.put()
    work.drain_for(2)

    (letter,) = sql("SELECT cause, attempts_when_dlq, error_text, failure_detail FROM wh_dead_letters")
    assert (letter["cause"], letter["attempts_when_dlq"]) == ("terminal", 1)
    assert "the card was declined" in letter["error_text"]
    assert (letter["failure_detail"] is None) == (subjects == ())
    assert logged(work) == [(1, "terminal")]
    assert len(work.runs) == 1


def test_a_failure_below_the_cap_is_on_the_row_whole_and_nobody_moved(work):
    def fail_at_length(run):
        try:
            raise OSError("the socket")
        except OSError as exc:
            raise RuntimeError("the bank") from exc

    work.does = fail_at_length
    work_id = work.put()
    work.drain()

    assert all(part in work.row(work_id)["error"] for part in ("RuntimeError: the bank", "OSError: the socket"))
    assert "fail_at_length" in work.row(work_id)["error"]
    assert not DeadLetter.objects.exists()


def test_a_classified_failure_keeps_its_reason_when_the_budget_is_spent(work, configure):
    def refused(run):
        raise ConnectionRefusedError("the other side is away")

    configure(MAX_ATTEMPTS=1)
    work.does = refused
    work.put()
    work.drain()

    assert DeadLetter.objects.get().failure_reason == FailureReason.TRANSPORT_EXCEPTION


def test_a_message_that_succeeds_leaves_no_row_and_no_failure(work):
    work.put()
    report = work.drain()

    assert report.counts == {OutcomeKind.SUCCESS: 1}
    assert work.rows() == []
    assert logged(work) == []
    assert not DeadLetter.objects.exists()


# --- a move that fails, and no store


def test_a_message_whose_move_fails_is_neither_completed_nor_run_through_and_is_moved_later(
    work, configure, monkeypatch
):
    def broken(self, deaths):
        raise RuntimeError("the store is away")

    configure(MAX_ATTEMPTS=2)
    work.does = fails
    work_id = work.put()
    with monkeypatch.context() as away:
        away.setattr(Store, "move", broken)
        work.drain_for(4)
    row = work.row(work_id)
    runs = len(work.runs)
    work.drain_for(1)

    assert runs == 2, "a message without a budget is not run because its move fails"
    assert (row["attempts"], row["lease_token"]) == (2, None)
    assert "run 2" in row["error"]
    assert row["waits"] > 0
    assert DeadLetter.objects.get().error_line == "ValueError: run 2"
    assert work.rows() == []


def test_without_a_store_a_failing_message_stays_and_runs_again(work, configure):
    configure(MAX_ATTEMPTS=1, DEAD_LETTER_STORE=None)
    work.does = fails
    work_id = work.put()
    work.drain_for(3)

    assert work.row(work_id) is not None
    assert not DeadLetter.objects.exists()


# --- delays


def test_a2_thirty_delays_and_a_failure_are_one_attempt_with_the_first_step_of_back_off(work, configure):
    def waits_thirty_times(run):
        if run.number <= 30:
            raise Delay(timedelta(hours=3))
        raise ValueError("for real")

    configure(MAX_ATTEMPTS=3)
    work.does = waits_thirty_times
    work_id = work.put()
    work.drain_for(31)

    row = work.row(work_id)
    assert row["attempts"] - row["delays"] - row["releases"] == 1
    assert row["delays"] == 30
    assert 0 < row["waits"] <= 5
    assert [outcome for _, outcome in logged(work)] == ["delayed"] * 30 + ["failure"]


def test_a2_an_endless_delay_dies_at_its_own_cap_with_its_own_text(work):
    def not_yet(run):
        raise Delay(60, "the bank is closed")

    work.does = not_yet
    work.put(max_delays=3)
    work.drain_for(6)

    letter = DeadLetter.objects.get()
    assert (letter.cause, letter.attempts_when_dlq, letter.delays_when_dlq) == (Cause.DELAY_CAP, 4, 3)
    assert "the bank is closed" in letter.error_line
    assert [outcome for _, outcome in logged(work)] == ["delayed"] * 3 + ["failure"]


@pytest.mark.parametrize(("own", "delays"), [(0, 0), (1, 1), (None, 2), (-1, 5)])
def test_a_delay_cap_of_a_message_unset_none_and_zero_are_three_values(work, configure, own, delays):
    def not_yet(run):
        raise Delay(60)

    configure(MAX_DELAYS=2, MAX_ATTEMPTS_OVERRIDE=3)
    work.does = not_yet
    work.put(max_delays=own)
    work.drain_for(5)

    assert [outcome for _, outcome in logged(work)].count("delayed") == delays
    assert DeadLetter.objects.exists() == (own != -1)


def test_a_delay_is_due_by_the_database_clock_after_what_it_asked(work):
    def later(run):
        raise Delay(timedelta(hours=3))

    work.does = later
    work_id = work.put()
    work.drain()

    row = work.row(work_id)
    assert timedelta(hours=2, minutes=59).total_seconds() < row["waits"] <= timedelta(hours=3).total_seconds()
    assert (row["attempts"], row["delays"], row["error"]) == (1, 1, None)
    assert logged(work) == [(1, "delayed")]


@pytest.mark.parametrize("by", [0, -60])
def test_a_delay_of_nothing_or_less_is_due_at_the_next_poll(work, by):
    def once(run):
        if run.number == 1:
            raise Delay(by)

    work.does = once
    work.put()
    work.drain()

    assert len(work.runs) == 2
    assert work.rows() == []


def test_a_delay_between_failures_changes_neither_the_budget_nor_the_back_off(work, configure):
    def fail_wait_fail(run):
        if run.number == 2:
            raise Delay(60)
        fails(run)

    configure(MAX_ATTEMPTS=3)
    work.does = fail_wait_fail
    work_id = work.put()
    work.drain()
    assert 2.4 < work.row(work_id)["waits"] <= 5
    work.drain_for(2)
    assert 4.9 < work.row(work_id)["waits"] <= 10, "the second failure waits the second step"
    work.drain_for(2)

    assert len(work.runs) == 4
    assert (DeadLetter.objects.get().attempts_when_dlq, DeadLetter.objects.get().delays_when_dlq) == (4, 1)


def test_a_message_that_waited_once_has_its_whole_budget_of_failures(work, configure):
    def waits_first(run):
        if run.number == 1:
            raise Delay(60)
        fails(run)

    configure(MAX_ATTEMPTS=3)
    work.does = waits_first
    work.put()
    work.drain_for(6)

    assert len(work.runs) == 4
    assert DeadLetter.objects.get().error_line == "ValueError: run 4"


def test_a_delay_keeps_the_last_real_failure(work):
    def fail_then_wait(run):
        if run.number == 1:
            raise attribute(ValueError("the real one"), Subject("order", "42"))
        raise Delay(60)

    work.does = fail_then_wait
    work_id = work.put()
    work.drain_for(2)

    row = work.row(work_id)
    assert row["error"].startswith("ValueError: the real one")
    assert "42" in str(row["failure_detail"])


def test_a_delay_wins_over_terminal_in_one_chain(work):
    def both(run):
        try:
            raise Terminal("never")
        except Terminal as exc:
            raise Delay(60) from exc

    work.does = both
    work_id = work.put()
    work.drain()

    assert work.row(work_id)["delays"] == 1
    assert not DeadLetter.objects.exists()
