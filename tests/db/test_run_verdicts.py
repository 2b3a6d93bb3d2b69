"""Each letter of a run gets one verdict, whatever becomes of it meanwhile."""

import json
from datetime import timedelta
from uuid import UUID

import pytest
from django.db import OperationalError

from deadletters.models import DeadLetter, DeadLetterDeath, RecoveryItem
from deadletters.recovery import sweeping
from deadletters.recovery.stepping import step
from deadletters.triage import change_letter
from deadletters.words.filters import LetterFilter
from deadletters.words.scopes import Matching
from queues import Delay, Terminal, append_event, handles, projects
from queues.drainer import drain
from queues.models import InboxMessage, PerspectiveCursor
from queues.perspectives import subscribe
from tests.db.conftest import move_by_hand
from tests.db.runs import begun, dead, sent, to_the_end, totals, work

pytestmark = pytest.mark.django_db(transaction=True)


def item():
    return RecoveryItem.objects.get()


@pytest.mark.parametrize("outcome", ["recovered", "failed_again"])
def test_the_answer_of_a_letter_that_was_deleted_meanwhile_is_still_written(shop, olga, sql, outcome):
    dead(1)
    shop.mend(*([0] if outcome == "failed_again" else []))
    run_id = sent(olga)
    letter_id = item().dead_letter_id
    sql("DELETE FROM dead_letter_deaths")
    sql("DELETE FROM wh_dead_letters")

    work()

    assert totals(run_id) == {outcome: 1}
    assert list(DeadLetter.objects.values_list("pk", flat=True)) == ([] if outcome == "recovered" else [letter_id])


def test_a_released_run_is_no_verdict(handlers, olga):
    outcomes = [ValueError("no"), OperationalError(), None]

    class Deadlock(Exception):
        sqlstate = "40P01"

    outcomes[1].__cause__ = Deadlock()

    @handles("test.N", max_attempts=1)
    def handle(message):
        if (raised := outcomes.pop(0)) is not None:
            raise raised

    dead(1)
    run_id = sent(olga)
    work()
    assert totals(run_id) == {"sent": 1}
    assert DeadLetterDeath.objects.get().verdict is None

    InboxMessage.objects.update(scheduled_for="2000-01-01T00:00Z")
    work()
    assert totals(run_id) == {"recovered": 1}


@pytest.mark.parametrize(("disposition", "status"), [(0, 0), (2, 2), (3, 4)])
def test_a_persons_decision_in_flight_takes_effect_with_the_next_death_and_keeps_the_verdict(
    shop, olga, disposition, status
):
    dead(1)
    run_id = sent(olga)
    letter = DeadLetter.objects.get()
    change_letter(dead_letter_id=letter.pk, user=olga, changes={"operator_disposition": disposition})
    assert DeadLetter.objects.get().recovery_status == 1

    work()

    assert totals(run_id) == {"failed_again": 1}
    assert DeadLetter.objects.get().recovery_status == status


def test_success_is_a_fact_whatever_a_person_decided(shop, olga):
    dead(1)
    shop.mend()
    run_id = sent(olga)
    change_letter(dead_letter_id=DeadLetter.objects.get().pk, user=olga, changes={"operator_disposition": 3})

    work()

    letter = DeadLetter.objects.get()
    assert (letter.recovery_status, letter.operator_disposition) == (3, 3)
    assert totals(run_id) == {"recovered": 1}


def test_a_message_that_an_operator_moves_out_again_failed_differently(shop, olga):
    dead(1)
    run_id = sent(olga)
    move_by_hand(item().dead_letter_id and InboxMessage.objects.get().pk)
    assert totals(run_id) == {"failed_differently": 1}
    assert DeadLetter.objects.get().deaths == 2


def test_another_cause_is_failed_differently_even_with_the_same_words(handlers, olga):
    kinds = [ValueError("no"), Terminal("ValueError: no")]

    @handles("test.N", max_attempts=1)
    def handle(message):
        raise kinds.pop(0)

    dead(1)
    run_id = begun(olga)
    to_the_end(run_id)
    assert totals(run_id) == {"failed_differently": 1}


def test_a_message_that_nobody_handles_any_more_failed_differently(shop, handlers, olga, sql):
    dead(1)
    run_id = sent(olga)
    handlers._handlers.clear()
    sql("DELETE FROM wh_service_instances")
    work()
    assert totals(run_id) == {"failed_differently": 1}
    assert DeadLetter.objects.get().cause == "no_handler"


def test_a_delay_past_its_cap_is_a_verdict(handlers, olga):
    kinds = [ValueError("no"), Delay(timedelta(0)), Delay(timedelta(0))]

    @handles("test.N", max_attempts=1, max_delays=1)
    def handle(message):
        raise kinds.pop(0)

    dead(1)
    run_id = sent(olga)
    for _ in range(3):
        work()
        InboxMessage.objects.update(scheduled_for="2000-01-01T00:00Z")
    assert totals(run_id) == {"failed_differently": 1}
    assert DeadLetter.objects.get().cause == "delay_cap"


def test_a_letter_that_is_put_off_for_a_day_is_not_overdue_before(handlers, olga, sql):
    kinds = [ValueError("no"), Delay(timedelta(days=1)), None]

    @handles("test.N", max_attempts=1)
    def handle(message):
        if (raised := kinds.pop(0)) is not None:
            raise raised

    dead(1)
    run_id = sent(olga)
    work()
    assert sweeping.sweep() == 0
    sql("UPDATE recovery_items SET sent_at = sent_at - interval '2 hours'")
    sql("UPDATE wh_dead_letters SET last_recovery_at = last_recovery_at - interval '2 hours'")
    assert sweeping.sweep() == 0
    assert totals(run_id) == {"sent": 1}

    sql("UPDATE wh_inbox SET scheduled_for = now()")
    work()
    assert totals(run_id) == {"recovered": 1}
    assert item().delayed_until is None


def test_an_answer_is_given_once_and_a_later_death_of_the_message_is_another_matter(shop, olga):
    dead(1)
    run_id = begun(olga)
    to_the_end(run_id)
    ended_at = item().ended_at
    shop.error = KeyError
    second = begun(olga)
    to_the_end(second)

    assert totals(run_id) == {"failed_again": 1}
    assert totals(second) == {"failed_differently": 1}
    assert RecoveryItem.objects.get(run=run_id).ended_at == ended_at


def test_an_event_that_was_applied_already_is_skipped_and_its_letter_done(handlers, olga, sql):
    fails = [True]

    @projects("totals", "test.Happened", max_attempts=1)
    def apply(message):
        if fails:
            raise ValueError("no")

    subscribe()
    append_event("s", "test.Happened", 1)
    drain("wh_perspective_events", seconds=None)
    letter = DeadLetter.objects.get()
    event_id = UUID(json.loads(letter.source_row)["event_id"])
    PerspectiveCursor.objects.update_or_create(
        perspective_name="totals", stream_id=letter.stream_id, defaults={"last_event_id": event_id, "version": 1}
    )
    fails.clear()

    run_id = begun(olga, scope=Matching(filters=LetterFilter(perspective="totals")))
    step(5)
    drain("wh_perspective_events", seconds=None)

    assert totals(run_id) == {"skipped": 1}
    assert item().why == "its effect was there already, nothing was done"
    assert DeadLetter.objects.get().recovery_status == 3
