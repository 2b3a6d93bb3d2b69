"""How often a message runs and when it dies, whichever source it waits in: one budget for all drainers."""

import pytest

from deadletters.models import DeadLetter
from deadletters.store.letters import Store
from queues import Subject, Terminal, attribute
from queues.conf import conf
from queues.words.outcomes import Cause, FailureReason, OutcomeKind
from tests.db.sources import fails

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("cap", [1, 2, 3])
def test_a4_runs_attempts_and_log_entries_are_the_cap_exactly(work, configure, cap):
    configure(MAX_ATTEMPTS=cap)
    work.does = fails
    work_id = work.put()
    work.drain_for(cap + 2)

    letter = DeadLetter.objects.get()
    assert len(work.runs) == cap
    assert work.logged() == [(attempt, "failure") for attempt in range(1, cap + 1)]
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
    assert len(work.logged()) == 3


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
    assert work.logged() == [(1, "terminal")]
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
    assert work.logged() == []
    assert not DeadLetter.objects.exists()


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
