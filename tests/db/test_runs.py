"""Recovery runs on the real engine: frozen scopes, waves, stops, and a verdict for every letter."""

from datetime import timedelta

import pytest

from deadletters.models import DeadLetter, DeadLetterDeath, ItemState, RecoveryItem, RecoveryRun, RunKind, RunState
from deadletters.queries import runs as reading
from deadletters.recovery import runs, sweeping
from deadletters.recovery.stepping import step
from deadletters.store.audit import Actor
from deadletters.words.errors import BadChange, BadPlan
from deadletters.words.filters import LetterFilter
from deadletters.words.plans import Plan
from deadletters.words.scopes import Letters, Matching
from queues import Delay, Terminal, send
from queues.drainer import drain
from queues.words.handlers import handles
from tests.db.conftest import send_numbers
from tests.factories import a_user

pytestmark = pytest.mark.django_db(transaction=True)

EVERYTHING = Matching(filters=LetterFilter(type="test.N"))
AT_ONCE = Plan(canary=0, ramp=0, stop_failures=None)


@pytest.fixture
def olga():
    return a_user("olga", "Operators")


@pytest.fixture
def broken(handlers):
    """A handler that refuses payloads; it starts with all of them."""
    refused = {"all": True, "seen": []}

    @handles("test.N", max_attempts=1)
    def handle(message):
        refused["seen"].append(message.payload)
        if refused["all"] is True or message.payload in (refused["all"] or ()):
            raise refused.get("error", ValueError)("no such order")

    return refused


def work():
    drain("wh_inbox", seconds=None)


def dead(count, stream=None):
    send_numbers(count, stream)
    work()
    assert DeadLetter.objects.filter(recovery_status=0).count() == count


def begun(user, scope=EVERYTHING, plan=AT_ONCE):
    run_id = runs.prepare(user=user, scope=scope)
    step(5)
    run = reading.get(run_id)
    runs.start(user=user, run_id=run_id, plan=plan, count=run.frozen_count)
    return run_id


def to_the_end(run_id):
    """Step and drain in turn until the run has ended."""
    for _ in range(100):
        step(5)
        work()
        run = reading.get(run_id)
        if run.state in (RunState.FINISHED, RunState.STOPPED) and not reading.totals(run_id)["sent"]:
            return run
    raise AssertionError("the run does not end")


def totals(run_id):
    return {state: count for state, count in reading.totals(run_id).items() if count}


def test_every_letter_of_a_run_has_a_verdict_and_they_sum_up(broken, olga):
    dead(20)
    broken["all"] = {3, 7}

    run_id = begun(olga)
    run = to_the_end(run_id)

    assert run.state == RunState.FINISHED
    assert totals(run_id) == {"recovered": 18, "failed_again": 2}
    assert DeadLetter.objects.filter(recovery_status=3).count() == 18
    assert run.frozen_count == 20


def test_a_death_of_another_kind_is_failed_differently(broken, olga):
    dead(3)
    broken["error"] = KeyError

    run_id = begun(olga)
    to_the_end(run_id)

    assert totals(run_id) == {"failed_differently": 3}


def test_recover_all_of_a_broken_handler_tries_each_letter_once(broken, olga):
    dead(60)
    run_id = begun(olga)
    to_the_end(run_id)

    assert totals(run_id) == {"failed_again": 60}
    assert DeadLetter.objects.filter(recovery_status=0, deaths=2, recoveries_total=1).count() == 60


def test_newcomers_are_counted_apart_and_never_swallowed(broken, olga):
    dead(5)
    run_id = begun(olga)
    send_numbers(2)
    work()
    broken["all"] = False

    to_the_end(run_id)

    assert totals(run_id) == {"recovered": 5}
    assert reading.newcomers(reading.get(run_id)) == 2
    assert DeadLetter.objects.filter(recovery_status=0).count() == 2


def test_a_canary_that_fails_again_stops_the_run_and_the_rest_stays_dead(broken, olga):
    dead(50)
    run_id = begun(olga, plan=Plan(canary=5))

    run = to_the_end(run_id)

    assert run.state == RunState.STOPPED
    assert run.stop_reason == "stopped itself: 5 of 5 canaries were failures"
    assert totals(run_id) == {"failed_again": 5, "skipped": 45}
    assert DeadLetter.objects.filter(recovery_status=0, deaths=1).count() == 45


def test_after_a_good_canary_each_wave_is_larger_than_the_one_before(broken, olga):
    dead(60)
    broken["all"] = False
    run_id = begun(olga, plan=Plan(canary=2, ramp=3))
    sizes = []
    for _ in range(30):
        step(5)
        sizes.append(reading.totals(run_id)["sent"])
        work()

    assert [size for size in sizes if size] == [2, 6, 18, 34]
    assert totals(run_id) == {"recovered": 60}


def test_a_later_wave_stops_at_the_number_of_failures(broken, olga):
    dead(100)
    broken["all"] = set(range(100)) - set(range(95, 100))
    run_id = begun(olga, plan=Plan(canary=5, ramp=4, stop_failures=10))
    RecoveryItem.objects.filter(run=run_id).update(is_canary=False)

    run = to_the_end(run_id)

    assert run.state == RunState.STOPPED
    assert reading.totals(run_id)["skipped"] > 0


def test_a_canary_that_is_put_off_is_replaced(handlers, olga, work_off):
    dead_by = {"broken": True}

    @handles("test.N", max_attempts=1)
    def handle(message):
        if dead_by["broken"]:
            raise ValueError("no")
        if message.payload >= 8:
            raise Delay(timedelta(hours=5))

    dead(10)
    dead_by["broken"] = False
    run_id = begun(olga, plan=Plan(canary=2, ramp=0))
    work_off()

    assert reading.totals(run_id) == {**dict.fromkeys(ItemState.values, 0), "recovered": 8, "sent": 2}
    put_off = RecoveryItem.objects.get(run=run_id, state="sent", place=10)
    assert put_off.deadline_at - put_off.delayed_until == timedelta(seconds=3600)
    assert reading.get(run_id).state == RunState.RUNNING


@pytest.fixture
def work_off():
    def off():
        for _ in range(8):
            step(5)
            work()

    return off


def test_what_changed_since_it_was_frozen_is_skipped_and_says_so(broken, olga):
    dead(4)
    broken["all"] = False
    run_id = runs.prepare(user=olga, scope=EVERYTHING)
    first, second, third, _ = DeadLetter.objects.order_by("dead_lettered_at", "dead_letter_id")
    DeadLetter.objects.filter(pk=first.pk).update(row_version=9)
    second.delete()
    runs.start(user=olga, run_id=run_id, plan=AT_ONCE)
    from deadletters.triage import recover

    recover(dead_letter_id=third.pk, user=a_user("vera", "Operators"))
    work()

    to_the_end(run_id)

    assert totals(run_id) == {"recovered": 1, "skipped": 3}
    said = {why for _, why, _ in reading.whys(run_id)}
    assert "changed since frozen" in said
    assert "the letter is gone" in said
    assert any(why.startswith("was recovered already by vera at ") for why in said)


def test_what_a_person_holds_is_skipped_unless_the_plan_says_otherwise(broken, olga):
    dead(2)
    broken["all"] = False
    DeadLetter.objects.filter(pk=DeadLetter.objects.first().pk).update(operator_disposition=2, recovery_status=2)

    run_id = begun(olga)
    to_the_end(run_id)
    assert totals(run_id) == {"recovered": 1, "skipped": 1}

    run_id = begun(olga, plan=Plan(canary=0, include_held=True))
    to_the_end(run_id)
    assert totals(run_id) == {"recovered": 1}


def test_a_stream_is_recovered_head_first_one_at_a_time(broken, olga):
    dead(5, stream="order-7")
    broken["all"] = False
    broken["seen"].clear()
    run_id = begun(olga)
    in_flight = []
    for _ in range(12):
        step(5)
        in_flight.append(reading.totals(run_id)["sent"])
        work()

    assert max(in_flight) == 1
    assert broken["seen"] == [0, 1, 2, 3, 4]
    assert totals(run_id) == {"recovered": 5}


def test_the_rest_of_a_stream_is_not_sent_past_a_letter_that_holds_it(handlers, olga):
    fails = {"all": True}

    @handles("test.N", max_attempts=1, after_death="hold")
    def handle(message):
        if fails["all"] or message.payload == 0:
            raise ValueError("no")

    dead(1, stream="order-7")
    DeadLetter.objects.get()
    from deadletters.models import DeadLetter as Letter
    from queues.models import Stream

    Stream.objects.update(held_by=None)
    send_numbers(1, "order-7")
    work()
    assert Letter.objects.count() == 2
    fails["all"] = False
    Stream.objects.update(held_by=Letter.objects.order_by("dead_lettered_at").first().pk)

    run_id = begun(olga)
    to_the_end(run_id)

    assert totals(run_id) == {"failed_again": 1, "skipped": 1}
    assert [why for _, why, _ in reading.whys(run_id)] == ["its stream waits behind another dead letter"]


def test_pausing_sends_nothing_more_and_resuming_goes_on(broken, olga):
    dead(6)
    broken["all"] = False
    run_id = begun(olga, plan=Plan(canary=2, ramp=0, in_flight=2))
    step(5)
    step(5)
    runs.pause(user=olga, run_id=run_id)
    work()
    step(5)
    assert totals(run_id) == {"recovered": 2, "waiting": 4}

    runs.resume(user=olga, run_id=run_id)
    to_the_end(run_id)

    assert totals(run_id) == {"recovered": 6}


def test_stopping_leaves_exact_sets_of_sent_and_unsent(broken, olga):
    dead(6)
    broken["all"] = False
    run_id = begun(olga, plan=Plan(canary=0, in_flight=2))
    step(5)
    runs.stop(user=olga, run_id=run_id)

    assert totals(run_id) == {"sent": 2, "skipped": 4}
    assert reading.get(run_id).state == RunState.STOPPED
    assert reading.whys(run_id) == [("skipped", "not sent: stopped by olga", 4)]
    work()
    assert totals(run_id) == {"recovered": 2, "skipped": 4}
    assert DeadLetter.objects.filter(recovery_status=0).count() == 4


def test_a_run_that_has_not_begun_is_undone_whole(broken, olga):
    dead(3)
    run_id = begun(olga)
    runs.stop(user=olga, run_id=run_id)
    assert totals(run_id) == {"skipped": 3}
    assert DeadLetter.objects.filter(recovery_status=0).count() == 3


def test_an_action_in_a_wrong_state_changes_nothing_and_says_so(broken, olga):
    dead(1)
    run_id = runs.prepare(user=olga, scope=EVERYTHING)
    with pytest.raises(BadChange, match="State is ready"):
        runs.pause(user=olga, run_id=run_id)
    runs.start(user=olga, run_id=run_id, plan=AT_ONCE)
    with pytest.raises(BadChange, match="started already"):
        runs.start(user=olga, run_id=run_id, plan=AT_ONCE)
    runs.stop(user=olga, run_id=run_id)
    with pytest.raises(BadChange, match="is stopped already"):
        runs.stop(user=olga, run_id=run_id)


def test_above_a_hundred_the_number_is_said(broken, olga):
    dead(101)
    run_id = runs.prepare(user=olga, scope=EVERYTHING)
    for count in (None, 100):
        with pytest.raises(BadPlan):
            runs.start(user=olga, run_id=run_id, plan=AT_ONCE, count=count)
    assert reading.get(run_id).starts_at is None
    runs.start(user=olga, run_id=run_id, plan=AT_ONCE, count=101)


def test_no_answer_in_time_is_said_and_corrected_when_it_comes(broken, olga, sql):
    dead(2)
    broken["all"] = {1}
    run_id = begun(olga, plan=Plan(canary=0, deadline_seconds=1))
    step(5)
    step(5)
    sql("UPDATE recovery_items SET deadline_at = now() - interval '1 second'")

    assert sweeping.sweep() == 2
    assert totals(run_id) == {"no_answer": 2}
    assert DeadLetter.objects.filter(recovery_status=1).count() == 2
    assert set(DeadLetterDeath.objects.values_list("verdict", flat=True)) == {"no_answer"}

    work()
    assert totals(run_id) == {"recovered": 1, "failed_again": 1}
    assert set(DeadLetterDeath.objects.values_list("verdict", flat=True)) == {"recovered", "failed_again", None}


def test_a_letter_whose_message_is_nowhere_got_no_answer_and_is_held(broken, olga, sql):
    dead(1)
    run_id = begun(olga)
    step(5)
    step(5)
    sql("DELETE FROM wh_inbox")
    assert sweeping.sweep() == 0
    sql("UPDATE wh_dead_letters SET last_recovery_at = last_recovery_at - interval '6 minutes'")

    assert sweeping.sweep() == 1
    assert totals(run_id) == {"no_answer": 1}
    letter = DeadLetter.objects.get()
    assert letter.recovery_status == 2
    assert letter.death_rows.get().verdict == "no_answer"


def test_the_machine_needs_nobody_to_start_its_runs(broken):
    dead(2)
    broken["all"] = False
    letters = list(DeadLetter.objects.values_list("pk", flat=True))
    run_id = runs.begin(kind=RunKind.SCHEDULE, scope=Letters(ids=letters), plan=AT_ONCE, by=Actor(name="schedule"))

    to_the_end(run_id)

    assert totals(run_id) == {"recovered": 2}
    assert set(DeadLetter.objects.values_list("recovery_attempts", flat=True)) == {1}


def test_the_rate_bounds_what_is_sent(broken, olga):
    dead(5)
    run_id = begun(olga, plan=Plan(canary=0, rate=0.001))
    for _ in range(5):
        step(5)

    assert reading.totals(run_id)["sent"] == 1
    RecoveryRun.objects.filter(pk=run_id).update(rate_refilled_at="2000-01-01T00:00Z", rate_tokens=0)
    step(5)
    assert reading.totals(run_id)["sent"] == 2


def test_letters_of_a_filter_beyond_the_newest_are_not_left_out(broken, olga, monkeypatch):
    dead(8)
    monkeypatch.setattr("deadletters.queries.letters.SEARCHED", 3)
    run_id = runs.prepare(user=olga, scope=Matching(filters=LetterFilter(cause="budget_spent")))
    assert reading.get(run_id).frozen_count == 8


def test_a_single_recovery_and_a_run_send_a_message_once(broken, olga):
    dead(1)
    broken["all"] = False
    run_id = begun(olga)
    step(5)
    step(5)
    from deadletters.store.recovery import Sent
    from deadletters.triage import recover

    again = recover(dead_letter_id=DeadLetter.objects.get().pk, user=olga)

    assert again.sent is Sent.RECOVERING
    assert again.by == "olga"
    broken["seen"].clear()
    to_the_end(run_id)
    assert broken["seen"] == [0]


def test_a_terminal_answer_is_a_failure_too(handlers, olga):
    fixed = {"terminal": False}

    @handles("test.N", max_attempts=1)
    def handle(message):
        raise Terminal("never") if fixed["terminal"] else ValueError("no")

    dead(1)
    fixed["terminal"] = True
    run_id = begun(olga)
    to_the_end(run_id)
    assert totals(run_id) == {"failed_differently": 1}
    send("test.N", 1)
