"""Recovery runs under people, steppers and movers at once: nothing is sent twice, nothing is lost, items sum up."""

import threading
from collections import Counter

import pytest
from django.db import connection, transaction

from deadletters.models import DeadLetter, DeadLetterDeath, RecoveryItem, RecoveryRun, RunState
from deadletters.recovery import runs, stepping
from deadletters.store import runs as writing
from deadletters.triage import recover
from deadletters.words.plans import Plan
from queues import NewMessage, send_many
from queues.models import InboxMessage
from tests.db.conftest import at_once, move_by_hand, until_somebody_waits_for_a_lock
from tests.db.runs import AT_ONCE, EVERYTHING, begun, dead, sent, to_the_end, totals, work
from tests.factories import a_user

pytestmark = pytest.mark.django_db(transaction=True)

PEOPLE = 50


def in_the_inbox():
    return sorted(InboxMessage.objects.values_list("dead_letter_id", flat=True))


def test_fifty_people_who_recover_one_group_send_each_letter_once(shop):
    dead(12)
    shop.mend()
    people = [a_user(f"person-{n}", "Operators") for n in range(PEOPLE)]
    begun_by = [begun(person) for person in people]

    at_once(*[lambda: stepping.step(20)] * 10)
    assert in_the_inbox() == sorted(DeadLetter.objects.values_list("pk", flat=True))
    for run_id in begun_by:
        to_the_end(run_id)

    together = Counter()
    for run_id in begun_by:
        assert sum(totals(run_id).values()) == 12
        together.update(totals(run_id))
    assert together == {"recovered": 12, "skipped": 12 * (PEOPLE - 1)}
    assert sorted(shop.ran) == list(range(12))
    whys = set(RecoveryItem.objects.filter(state="skipped").values_list("why", flat=True))
    assert all(why.startswith(("is being recovered already by person-", "was recovered already by")) for why in whys)


def test_two_steppers_at_once_send_each_letter_of_a_run_once(shop, olga):
    dead(30)
    shop.mend()
    run_id = begun(olga, plan=Plan(canary=0, in_flight=7))

    for _ in range(20):
        at_once(*[lambda: stepping.step(20)] * 4)
        assert len(in_the_inbox()) <= 7
        work()

    assert totals(run_id) == {"recovered": 30}
    assert sorted(shop.ran) == list(range(30))
    assert DeadLetter.objects.filter(recoveries_total=1).count() == 30


def test_a_run_that_is_stopped_while_it_sends_leaves_what_was_sent_and_nothing_more(shop, olga, monkeypatch):
    dead(20)
    run_id = begun(olga, plan=Plan(canary=0, in_flight=5))
    is_sending, may_go_on = threading.Event(), threading.Event()
    send = writing.send

    def slowly(*args, **named):
        sent = send(*args, **named)
        is_sending.set()
        assert may_go_on.wait(20)
        return sent

    monkeypatch.setattr(writing, "send", slowly)

    def stop():
        assert is_sending.wait(20)
        runs.stop(user=olga, run_id=run_id)

    def let_go():
        assert is_sending.wait(20)
        until_somebody_waits_for_a_lock()
        may_go_on.set()

    at_once(lambda: stepping.step(20), stop, let_go)
    monkeypatch.undo()
    stepping.step(5)

    assert totals(run_id) == {"sent": 5, "skipped": 15}
    assert len(in_the_inbox()) == 5
    assert RecoveryRun.objects.get().state == RunState.STOPPED


def test_a_single_recovery_and_a_run_at_once_send_each_message_once(shop, olga):
    dead(10)
    begun(olga)
    letters = list(DeadLetter.objects.values_list("pk", flat=True))

    def one_by_one():
        return [recover(dead_letter_id=letter, user=olga).is_sent for letter in letters]

    _, alone = at_once(lambda: stepping.step(20), one_by_one)

    assert in_the_inbox() == sorted(letters)
    assert RecoveryItem.objects.filter(state="sent").count() == 10 - sum(alone)
    assert set(DeadLetter.objects.values_list("recoveries_total", flat=True)) == {1}


def test_a_mover_in_sql_beside_a_run_and_its_drainer_leaves_one_verdict_for_each_letter(shop, olga):
    dead(40)
    shop.mend(*range(0, 40, 3))
    run_id = begun(olga, plan=Plan(canary=0, in_flight=10, stop_failures=None))
    done = threading.Event()

    def move():
        while not done.is_set():
            for message_id in InboxMessage.objects.order_by("?").values_list("pk", flat=True)[:2]:
                move_by_hand(message_id, error="moved by a script")

    def go_on():
        try:
            to_the_end(run_id)
        finally:
            done.set()

    at_once(go_on, move)

    found = totals(run_id)
    assert sum(found.values()) == 40
    assert set(found) <= {"recovered", "failed_again", "failed_differently"}
    assert not InboxMessage.objects.exists()
    answered = DeadLetterDeath.objects.exclude(verdict=None).values_list("verdict", flat=True)
    assert Counter(answered) == Counter(found)
    assert DeadLetter.objects.filter(recovery_status=3).count() == found["recovered"]


def test_verdicts_and_the_sweep_do_not_wait_for_each_other_for_ever(shop, olga, sql):
    dead(30)
    shop.mend(*range(0, 30, 2))
    run_id = sent(olga)
    sql("UPDATE recovery_items SET deadline_at = now() - interval '1 second'")
    from deadletters.recovery import sweeping

    at_once(work, sweeping.sweep, sweeping.sweep)
    work()

    assert totals(run_id) == {"recovered": 15, "failed_again": 15}


def test_live_messages_are_not_starved_by_a_run(shop, olga):
    """What is sent without an answer is bounded, so that a new message waits for no more than that."""
    dead(50)
    shop.mend()
    sent(olga, Plan(canary=0, in_flight=5))
    send_many([NewMessage(type="test.N", payload="live")])
    work()

    assert shop.ran.index("live") <= 5


def test_a_freeze_waits_for_no_mover_and_no_mover_for_it(shop, olga):
    dead(3)
    with transaction.atomic():
        run_id = runs.prepare(user=olga, scope=EVERYTHING)

        def move():
            send_many([NewMessage(type="test.N", payload="late")])
            work()
            with connection.cursor() as cursor:
                cursor.execute("SET lock_timeout = '5s'")
                cursor.execute("UPDATE wh_dead_letters SET row_version = row_version + 1")
                return cursor.rowcount

        assert at_once(move) == [4]
    runs.start(user=olga, run_id=run_id, plan=AT_ONCE)
    assert sum(totals(run_id).values()) == 3
