"""Recovery runs on the real engine: frozen scopes, waves, stops, and a verdict for every letter."""

from datetime import timedelta

import pytest

from deadletters.models import (
    DeadLetter,
    DeadLetterDeath,
    RecoveryItem,
    RunState,
)
from deadletters.queries import runs as reading
from deadletters.recovery import runs, sweeping
from deadletters.recovery.stepping import step
from deadletters.triage import recover
from deadletters.words.errors import BadChange, BadPlan
from deadletters.words.plans import Plan
from queues import Delay, handles
from queues.models import InboxMessage, Stream
from tests.db.conftest import move_by_hand, send_numbers
from tests.db.runs import AT_ONCE, EVERYTHING, Shop, begun, dead, sent, to_the_end, totals, work
from tests.factories import a_user

pytestmark = pytest.mark.django_db(transaction=True)


def test_every_letter_of_a_run_has_a_verdict_and_they_sum_up(shop, olga):
    dead(20)
    shop.mend(3, 7)

    run_id = begun(olga)
    run = to_the_end(run_id)

    assert run.state == RunState.FINISHED
    assert totals(run_id) == {"recovered": 18, "failed_again": 2}
    assert DeadLetter.objects.filter(recovery_status=3).count() == 18
    assert run.frozen_count == 20


def test_a_death_of_another_kind_is_failed_differently(shop, olga):
    dead(3)
    shop.error = KeyError

    run_id = begun(olga)
    to_the_end(run_id)

    assert totals(run_id) == {"failed_differently": 3}


def test_recover_all_of_a_broken_handler_tries_each_letter_once(shop, olga):
    dead(20)
    run_id = begun(olga)
    to_the_end(run_id)

    assert totals(run_id) == {"failed_again": 20}
    assert DeadLetter.objects.filter(recovery_status=0, deaths=2, recoveries_total=1).count() == 20


def test_newcomers_are_counted_apart_and_never_swallowed(shop, olga):
    dead(5)
    run_id = begun(olga)
    send_numbers(2)
    work()
    shop.mend()

    to_the_end(run_id)

    assert totals(run_id) == {"recovered": 5}
    assert reading.newcomers(reading.get(run_id)) == 2
    assert DeadLetter.objects.filter(recovery_status=0).count() == 2


def test_a_canary_that_fails_again_stops_the_run_and_the_rest_stays_dead(shop, olga):
    dead(15)
    run_id = begun(olga, plan=Plan(canary=5))

    run = to_the_end(run_id)

    assert run.state == RunState.STOPPED
    assert run.stop_reason == "stopped itself: 5 of 5 canaries were failures"
    assert totals(run_id) == {"failed_again": 5, "skipped": 10}
    assert DeadLetter.objects.filter(recovery_status=0, deaths=1).count() == 10


def test_after_a_good_canary_each_wave_is_larger_than_the_one_before(shop, olga):
    dead(30)
    shop.mend()
    run_id = begun(olga, plan=Plan(canary=2, ramp=3))
    sizes = []
    for _ in range(12):
        step(5)
        sizes.append(reading.totals(run_id)["sent"])
        work()

    assert [size for size in sizes if size] == [2, 6, 18, 4]
    assert totals(run_id) == {"recovered": 30}


def test_a_later_wave_stops_at_a_number_of_failures_and_a_share(shop, olga):
    dead(40)
    shop.mend(*range(30))
    run_id = begun(olga, plan=Plan(canary=3, ramp=3, stop_failures=4))

    run = to_the_end(run_id)

    assert run.state == RunState.STOPPED
    found = totals(run_id)
    assert found["failed_again"] >= 4
    assert found["skipped"] > 0
    assert sum(found.values()) == 40


def test_a_canary_that_is_put_off_is_replaced_and_its_deadline_moves(handlers, olga):
    mended = []

    @handles("test.N", max_attempts=1)
    def handle(message):
        if not mended:
            raise ValueError("no")
        if message.payload >= 8:
            raise Delay(timedelta(hours=5))

    dead(10)
    mended.append(True)
    run_id = begun(olga, plan=Plan(canary=2, ramp=0))
    for _ in range(8):
        step(5)
        work()

    assert totals(run_id) == {"recovered": 8, "sent": 2}
    put_off = RecoveryItem.objects.filter(run=run_id, state="sent")
    assert {item.deadline_at - item.delayed_until for item in put_off} == {timedelta(seconds=3600)}
    assert put_off.filter(is_canary=True).count() == 2
    assert reading.get(run_id).state == RunState.RUNNING


def test_what_changed_since_it_was_frozen_is_skipped_and_says_so(shop, olga):
    dead(4)
    shop.mend()
    run_id = runs.prepare(user=olga, scope=EVERYTHING)
    first, second, third, _ = DeadLetter.objects.order_by("dead_lettered_at", "dead_letter_id")
    DeadLetter.objects.filter(pk=first.pk).update(row_version=9)
    second.delete()
    runs.start(user=olga, run_id=run_id, plan=AT_ONCE)
    recover(dead_letter_id=third.pk, user=a_user("vera", "Operators"))
    work()

    to_the_end(run_id)

    assert totals(run_id) == {"recovered": 1, "skipped": 3}
    said = {why for _, why, _ in reading.whys(run_id)}
    assert "changed since frozen" in said
    assert "the letter is gone" in said
    assert any(why.startswith("was recovered already by vera at ") for why in said)


def test_what_a_person_holds_is_skipped_unless_the_plan_says_otherwise(shop, olga):
    dead(2)
    shop.mend()
    DeadLetter.objects.filter(pk=DeadLetter.objects.first().pk).update(operator_disposition=2, recovery_status=2)

    run_id = begun(olga)
    to_the_end(run_id)
    assert totals(run_id) == {"recovered": 1, "skipped": 1}

    run_id = begun(olga, plan=Plan(canary=0, include_held=True))
    to_the_end(run_id)
    assert totals(run_id) == {"recovered": 1}


def test_a_stream_is_recovered_head_first_one_at_a_time(shop, olga):
    dead(5, stream="order-7")
    shop.mend()
    run_id = begun(olga)
    in_flight = []
    for _ in range(12):
        step(5)
        in_flight.append(reading.totals(run_id)["sent"])
        work()

    assert max(in_flight) == 1
    assert shop.ran == [0, 1, 2, 3, 4]
    assert totals(run_id) == {"recovered": 5}


def test_the_rest_of_a_stream_is_not_sent_past_a_letter_that_holds_it(handlers, olga):
    shop = Shop(after_death="hold")
    dead(1, stream="order-7")
    Stream.objects.update(held_by=None)
    send_numbers(2, "order-7")
    work()
    head, _ = DeadLetter.objects.order_by("dead_lettered_at")
    Stream.objects.update(held_by=head.pk)
    shop.mend(0)

    run_id = begun(olga)
    to_the_end(run_id)

    assert totals(run_id) == {"failed_again": 1, "skipped": 1}
    assert [why for _, why, _ in reading.whys(run_id)] == ["its stream waits behind another dead letter"]


def test_pausing_sends_nothing_more_and_resuming_goes_on(shop, olga):
    dead(6)
    shop.mend()
    run_id = sent(olga, Plan(canary=2, ramp=0, in_flight=2))
    runs.pause(user=olga, run_id=run_id)
    work()
    step(5)
    assert totals(run_id) == {"recovered": 2, "waiting": 4}

    runs.resume(user=olga, run_id=run_id)
    to_the_end(run_id)

    assert totals(run_id) == {"recovered": 6}


def test_stopping_leaves_exact_sets_of_sent_and_unsent(shop, olga):
    dead(6)
    shop.mend()
    run_id = sent(olga, Plan(canary=0, in_flight=2))
    runs.stop(user=olga, run_id=run_id)

    assert totals(run_id) == {"sent": 2, "skipped": 4}
    assert reading.get(run_id).state == RunState.STOPPED
    assert reading.whys(run_id) == [("skipped", "not sent: stopped by olga", 4)]
    work()
    assert totals(run_id) == {"recovered": 2, "skipped": 4}
    assert DeadLetter.objects.filter(recovery_status=0).count() == 4


def test_a_run_that_has_not_begun_is_undone_whole(shop, olga):
    dead(3)
    run_id = begun(olga)
    runs.stop(user=olga, run_id=run_id)
    assert totals(run_id) == {"skipped": 3}
    assert DeadLetter.objects.filter(recovery_status=0).count() == 3


def test_an_action_in_a_wrong_state_changes_nothing_and_says_so(shop, olga):
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


def test_above_a_hundred_the_number_is_said(shop, olga):
    send_numbers(101)
    for message_id in InboxMessage.objects.values_list("pk", flat=True):
        move_by_hand(message_id)
    run_id = runs.prepare(user=olga, scope=EVERYTHING)
    for count in (None, 100):
        with pytest.raises(BadPlan):
            runs.start(user=olga, run_id=run_id, plan=AT_ONCE, count=count)
    assert reading.get(run_id).starts_at is None
    runs.start(user=olga, run_id=run_id, plan=AT_ONCE, count=101)


def test_no_answer_in_time_is_said_and_corrected_when_it_comes(shop, olga, sql):
    dead(2)
    shop.mend(1)
    run_id = sent(olga, Plan(canary=0, deadline_seconds=1))
    sql("UPDATE recovery_items SET deadline_at = now() - interval '1 second'")

    assert sweeping.sweep() == 2
    assert totals(run_id) == {"no_answer": 2}
    assert DeadLetter.objects.filter(recovery_status=1).count() == 2
    assert set(DeadLetterDeath.objects.values_list("verdict", flat=True)) == {"no_answer"}

    work()
    assert totals(run_id) == {"recovered": 1, "failed_again": 1}
    assert set(DeadLetterDeath.objects.values_list("verdict", flat=True)) == {"recovered", "failed_again", None}


def test_what_follows_an_overdue_message_in_its_stream_is_not_sent_to_wait_behind_it(shop, olga, sql):
    dead(3, stream="order-7")
    shop.mend()
    run_id = sent(olga)
    sql("UPDATE recovery_items SET deadline_at = now() - interval '1 second' WHERE state = 'sent'")

    assert sweeping.sweep() == 1

    assert totals(run_id) == {"no_answer": 1, "skipped": 2}
    assert {why for state, why, _ in reading.whys(run_id)} == {"an earlier message of its stream gave no answer"}
    to_the_end(run_id)
    assert totals(run_id) == {"recovered": 1, "skipped": 2}


def test_a_letter_whose_message_is_nowhere_got_no_answer_and_is_held(shop, olga, sql):
    dead(1)
    run_id = sent(olga)
    sql("DELETE FROM wh_inbox")
    assert sweeping.sweep() == 0
    sql("UPDATE wh_dead_letters SET last_recovery_at = last_recovery_at - interval '6 minutes'")

    assert sweeping.sweep() == 1
    assert totals(run_id) == {"no_answer": 1}
    letter = DeadLetter.objects.get()
    assert letter.recovery_status == 2
    assert letter.death_rows.get().verdict == "no_answer"
