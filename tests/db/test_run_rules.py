"""The small print of runs: when a canary speaks, who takes the place of a letter put off, what is taken and let go."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.utils import timezone

from deadletters.models import DeadLetter, RecoveryItem, RunKind, RunState
from deadletters.queries import runs as reading
from deadletters.recovery import runs, sweeping
from deadletters.recovery.stepping import step
from deadletters.store.audit import Actor
from deadletters.words.plans import Plan
from deadletters.words.scopes import Letters
from queues import Delay, handles
from queues.models import InboxMessage
from tests.db import runs as driving
from tests.db.conftest import move_by_hand
from tests.db.runs import AT_ONCE, EVERYTHING, Shop, dead, sent, to_the_end, totals

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_canary_is_judged_when_all_of_it_has_answered_and_not_by_its_first_failure(handlers, olga):
    shop = Shop()
    dead(10)
    run_id = sent(olga, Plan(canary=4, ramp=0, stop_share=0.5))
    first = InboxMessage.objects.first()
    others = InboxMessage.objects.exclude(pk=first.pk)
    others.update(scheduled_for=timezone.now() + timedelta(hours=1))
    driving.work()
    step(5)

    assert totals(run_id) == {"failed_again": 1, "sent": 3, "waiting": 6}
    assert (reading.get(run_id).state, reading.get(run_id).stop_reason) == (RunState.RUNNING, "")

    shop.mend()
    others.update(scheduled_for=timezone.now())
    to_the_end(run_id)
    assert totals(run_id) == {"failed_again": 1, "recovered": 9}


def test_another_letter_takes_the_place_of_a_canary_put_off_before_the_rest_goes(handlers, olga):
    outcomes = [ValueError("no")] * 10 + [Delay(timedelta(hours=5))]

    @handles("test.N", max_attempts=1)
    def handle(message):
        if outcomes:
            raise outcomes.pop(0)

    dead(10)
    run_id = sent(olga, Plan(canary=2, ramp=0))
    driving.work()
    assert totals(run_id) == {"recovered": 1, "sent": 1, "waiting": 8}

    step(5)

    assert totals(run_id) == {"recovered": 1, "sent": 2, "waiting": 7}
    assert RecoveryItem.objects.filter(run=run_id, is_canary=True).count() == 3
    driving.work()
    step(5)
    assert totals(run_id) == {"recovered": 2, "sent": 8}


def test_a_row_that_waits_for_a_build_may_run_on_any_once_its_answer_is_overdue(work, sql):
    work_id = work.put(1)
    letter_id = move_by_hand(work_id, source=work.source)
    run_id = runs.begin(
        kind=RunKind.REPLAY,
        scope=Letters(ids=[letter_id]),
        plan=AT_ONCE,
        by=Actor(name="build b-9"),
        group_id=uuid4(),
        generation="b-9",
    )
    step(5)
    work.drain()
    assert (work.row(work_id)["only_generation"], work.ran, totals(run_id)) == ("b-9", [], {"sent": 1})
    sql("UPDATE recovery_items SET deadline_at = now() - interval '1 second'")

    assert sweeping.sweep() == 1

    assert work.row(work_id)["only_generation"] is None
    assert totals(run_id) == {"no_answer": 1}
    work.time_passes()  # a stream whose head waits for a build is looked at again in a moment
    work.drain()
    assert (work.ran, totals(run_id)) == ([1], {"recovered": 1})


@pytest.mark.parametrize(("by", "frozen"), [("filter", {"waiting": 2}), ("ids", {"waiting": 2, "skipped": 1})])
def test_a_letter_whose_place_another_took_is_none_that_a_run_will_send(handlers, olga, by, frozen):
    Shop()
    dead(3)
    ids = list(DeadLetter.objects.order_by("dead_letter_id").values_list("pk", flat=True))
    DeadLetter.objects.filter(pk=ids[0]).update(superseded_by=ids[2])
    scopes = {"filter": EVERYTHING, "ids": Letters(ids=ids)}

    run_id = runs.prepare(user=olga, scope=scopes[by])

    assert totals(run_id) == frozen
    assert set(RecoveryItem.objects.filter(state="waiting").values_list("dead_letter_id", flat=True)) == set(ids[1:])
    assert reading.to_send(run_id) == 2
