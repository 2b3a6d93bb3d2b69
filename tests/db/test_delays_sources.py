"""How a Delay waits and what it costs, whichever source it comes from: nothing but its own cap."""

from datetime import timedelta

import pytest

from deadletters.models import DeadLetter
from queues import Delay, Subject, Terminal, attribute
from queues.words.outcomes import Cause
from tests.db.sources import fails

pytestmark = pytest.mark.django_db


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
    assert [outcome for _, outcome in work.logged()] == ["delayed"] * 30 + ["failure"]


def test_a2_an_endless_delay_dies_at_its_own_cap_with_its_own_text(work):
    def not_yet(run):
        raise Delay(60, "the bank is closed")

    work.does = not_yet
    work.put(max_delays=3)
    work.drain_for(6)

    letter = DeadLetter.objects.get()
    assert (letter.cause, letter.attempts_when_dlq, letter.delays_when_dlq) == (Cause.DELAY_CAP, 4, 3)
    assert "the bank is closed" in letter.error_line
    assert [outcome for _, outcome in work.logged()] == ["delayed"] * 3 + ["failure"]


@pytest.mark.parametrize(("own", "delays"), [(0, 0), (1, 1), (None, 2), (-1, 5)])
def test_a_delay_cap_of_a_message_unset_none_and_zero_are_three_values(work, configure, own, delays):
    def not_yet(run):
        raise Delay(60)

    configure(MAX_DELAYS=2, MAX_ATTEMPTS_OVERRIDE=3)
    work.does = not_yet
    work.put(max_delays=own)
    work.drain_for(5)

    assert [outcome for _, outcome in work.logged()].count("delayed") == delays
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
    assert work.logged() == [(1, "delayed")]


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
