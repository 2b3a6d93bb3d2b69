"""Letters whose message dies again: their budget, their verdict, their subjects, and never another message's."""

import json
import threading
import uuid
from contextlib import closing

import pytest
from django.db import IntegrityError, connection, transaction

from deadletters.models import DeadLetter, DeadLetterDeath, DeadLetterSubject
from deadletters.store.letters import Store
from deadletters.store.recovery import recover
from queues.words.dead_letters import Death
from queues.words.failures import Failure
from queues.words.outcomes import Cause, FailureReason
from tests.db.conftest import INSTANCE, move_by_hand, until_somebody_waits_for_a_lock
from tests.db.rows import row_of, write_row

pytestmark = pytest.mark.django_db


def die_again(letter_id, *, generation="build-1", error="boom"):
    (source_id,) = DeadLetter.objects.filter(pk=letter_id).values_list("source_id", flat=True)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT move_to_dead_letters(gen_random_uuid(), 'wh_inbox', %s, 2, %s, NULL, %s)",
            [source_id, error, generation],
        )


def scheduled_recovery(letter_id):
    with connection.cursor() as cursor:
        cursor.execute("SELECT recover_dead_letter(%s, 'schedule', p_scheduled => true)", [letter_id])


def test_the_budget_of_automatic_recoveries_counts_those_of_the_schedule_exactly():
    letter_id = move_by_hand(write_row("wh_inbox"))
    for spent in (1, 2, 3):
        scheduled_recovery(letter_id)
        die_again(letter_id)
        assert DeadLetter.objects.get().recovery_attempts == spent

    recover(letter_id, "ann")
    die_again(letter_id)
    assert DeadLetter.objects.get().recovery_attempts == 3, "a person's recovery does not count"


def test_the_first_death_on_a_new_build_starts_the_budget_anew_and_only_once():
    letter_id = move_by_hand(write_row("wh_inbox"))
    scheduled_recovery(letter_id)
    die_again(letter_id, generation="build-2")
    assert DeadLetter.objects.get().recovery_attempts == 0

    scheduled_recovery(letter_id)
    die_again(letter_id, generation="build-1")
    assert DeadLetter.objects.get().recovery_attempts == 1, "a rollback is not new"


@pytest.mark.parametrize(
    ("second", "verdict"),
    [
        ({"error": "Boom: order 18"}, "failed_again"),
        ({"error": "Other: order 18"}, "failed_differently"),
        ({"error": "Boom: order 17", "cause": "terminal"}, "failed_differently"),
    ],
)
def test_a_second_death_is_the_same_fault_only_if_fingerprint_and_cause_agree(second, verdict):
    letter_id = move_by_hand(write_row("wh_inbox"), error="Boom: order 17")
    recover(letter_id, "ann")

    move_by_hand(DeadLetter.objects.get().source_id, **second)

    assert DeadLetterDeath.objects.get(number=1).verdict == verdict


def test_a_message_that_could_not_be_run_again_failed_differently():
    letter_id = move_by_hand(write_row("wh_inbox"), error="no handler", cause="no_handler")
    recover(letter_id, "ann")

    move_by_hand(DeadLetter.objects.get().source_id, error="no handler", cause="no_handler")

    assert DeadLetterDeath.objects.get(number=1).verdict == "failed_differently"


def test_versions_of_fingerprints_are_compared_at_one_version():
    letter_id = move_by_hand(write_row("wh_inbox"), error="Boom: order 17")
    recover(letter_id, "ann")
    source_id = DeadLetter.objects.get().source_id

    store_death(source_id, Failure(message="Boom: order 18"))

    assert DeadLetter.objects.get().error_fingerprint_version == 2
    assert DeadLetterDeath.objects.get(number=1).verdict == "failed_again"


def store_death(source_id, failure, **changes):
    token = uuid.uuid4()
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE wh_inbox SET lease_token = %s, lease_expiry = now() + interval '1 min', instance_id = %s"
            " WHERE message_id = %s",
            [token, INSTANCE, source_id],
        )
    death = {
        "source": "wh_inbox",
        "source_id": source_id,
        "cause": Cause.BUDGET_SPENT,
        "reason": FailureReason.UNKNOWN,
        "failure": failure,
        "last_reported": None,
        "attempts": 1,
        "instance_id": INSTANCE,
        "generation": "build-1",
        "lease_token": token,
        **changes,
    }
    return Store().move([Death(**death)])


def test_the_store_moves_and_returns_the_letter_and_nothing_for_a_row_that_is_gone():
    source_id = write_row("wh_inbox")

    assert store_death(source_id, Failure(message="x")) == {source_id: DeadLetter.objects.get().pk}
    assert store_death(source_id, Failure(message="x")) == {}


@pytest.mark.parametrize("missing", ["source", "generation"])
def test_the_store_refuses_a_death_without_a_source_or_a_build(missing):
    with pytest.raises(ValueError, match="names its source and its generation"):
        store_death(write_row("wh_inbox"), Failure(message="x"), **{missing: ""})
    assert not DeadLetter.objects.exists()


def test_a_letter_id_that_another_message_has_is_not_used_again():
    first, second = write_row("wh_inbox"), write_row("wh_inbox")
    letter_id = move_by_hand(first)

    other_id = move_by_hand_to(letter_id, second)

    assert other_id not in (None, letter_id)
    assert set(DeadLetter.objects.values_list("dead_letter_id", "source_id", "deaths")) == {
        (letter_id, first, 1),
        (other_id, second, 1),
    }


def move_by_hand_to(letter_id, source_id):
    with connection.cursor() as cursor:
        cursor.execute("SELECT move_to_dead_letters(%s, 'wh_inbox', %s, 2, 'boom', NULL, 'b')", [letter_id, source_id])
        return cursor.fetchone()[0]


@pytest.mark.django_db(transaction=True)
def test_two_movers_with_one_new_letter_id_lose_no_message(sql):
    letter_id, messages = uuid.uuid4(), [write_row("wh_inbox"), write_row("wh_inbox")]
    locked, leave = threading.Event(), threading.Event()

    def first():
        with closing(connection), transaction.atomic():
            move_by_hand_to(letter_id, messages[0])
            locked.set()
            assert leave.wait(20)

    thread = threading.Thread(target=first)
    thread.start()
    assert locked.wait(20)
    second = threading.Thread(target=refused_move, args=(letter_id, messages[1]))
    second.start()
    try:
        until_somebody_waits_for_a_lock()
    finally:
        leave.set()
    thread.join(20)
    second.join(20)

    assert list(DeadLetter.objects.values_list("source_id", flat=True)) == [messages[0]]
    assert row_of("wh_inbox")["message_id"] == messages[1]


def refused_move(letter_id, source_id):
    with closing(connection), pytest.raises(IntegrityError, match="wh_dead_letters_pkey"), transaction.atomic():
        move_by_hand_to(letter_id, source_id)


def test_a_row_of_a_superseded_letter_overwrites_no_letter(sql):
    old, survivor = (move_by_hand(write_row("wh_inbox")) for _ in range(2))
    sql("UPDATE wh_dead_letters SET superseded_by = %s WHERE dead_letter_id = %s", survivor, old)
    source_id = write_row("wh_inbox", dead_letter_id=old)

    letter_id = move_by_hand(source_id)

    assert letter_id not in (old, survivor)
    assert DeadLetter.objects.get(pk=letter_id).source_id == source_id
    assert DeadLetter.objects.filter(deaths=1).count() == 3


def test_a_row_whose_letter_is_gone_makes_a_letter_under_that_id():
    gone = uuid.uuid4()

    assert move_by_hand(write_row("wh_inbox", dead_letter_id=gone)) == gone


def test_a_death_that_recorded_no_subject_leaves_the_letter_with_those_it_had(sql):
    structure = json.dumps({"subjects": [{"type": "order", "id": "42"}]})
    letter_id = move_by_hand(write_row("wh_inbox", failure_detail=structure))
    recover(letter_id, "ann")
    move_by_hand(DeadLetter.objects.get().source_id, cause="no_handler")
    assert [subject.id for subject in DeadLetterSubject.objects.all()] == ["42"]

    recover(letter_id, "ann")
    sql("UPDATE wh_inbox SET failure_detail = %s", structure.replace("42", "43"))
    move_by_hand(DeadLetter.objects.get().source_id)
    assert [subject.id for subject in DeadLetterSubject.objects.all()] == ["43"]


def test_a_second_death_is_not_due_by_the_first_ones_date(sql):
    letter_id = move_by_hand(write_row("wh_inbox"), cause="operator")
    recover(letter_id, "ann")
    sql("UPDATE wh_dead_letters SET next_recovery_at = now()")

    move_by_hand(DeadLetter.objects.get().source_id, cause="operator")

    assert DeadLetter.objects.get().next_recovery_at is None
