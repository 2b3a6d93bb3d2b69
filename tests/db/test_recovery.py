"""Recovery of one dead letter: sent once, judged by the handler's success."""

from uuid import uuid4

import pytest
from django.db import transaction

from deadletters.models import DeadLetter, DeadLetterDeath, RecoveryStatus
from deadletters.store.recovery import Sent, dispose, recover
from queues import Terminal, handles, send
from queues.models import DeliveryLogEntry
from queues.testing import drain
from queues.words.outcomes import FailureReason
from tests.db.conftest import at_once
from tests.factories import a_letter


@pytest.fixture
def flaky(handlers):
    """Register a handler that dies until `works` is set, and return its switch and its runs."""
    state = {"works": False, "runs": []}

    @handles("test.Flaky", max_attempts=1)
    def handler(message):
        state["runs"].append(message.meta)
        if not state["works"]:
            raise Terminal(f"death {len(state['runs'])}")

    return state


def die():
    send("test.Flaky", {"order_id": "42"}, stream="order-42")
    drain()
    return DeadLetter.objects.get()


@pytest.mark.django_db
def test_recovered_means_handled_not_sent(flaky):
    letter = die()
    flaky["works"] = True

    assert recover(letter.dead_letter_id, "ann") is Sent.SENT
    letter.refresh_from_db()
    assert letter.recovery_status == RecoveryStatus.RECOVERING
    assert letter.recovered_at is None

    drain()
    letter.refresh_from_db()
    assert letter.recovery_status == RecoveryStatus.RECOVERED
    assert letter.recovered_at is not None
    death = DeadLetterDeath.objects.get()
    assert (death.recovery_actor, death.verdict) == ("ann", "recovered")


@pytest.mark.django_db
def test_a_recovered_message_starts_a_new_life_with_attempts_zero(flaky):
    letter = die()
    recover(letter.dead_letter_id, "ann")
    drain()

    meta = flaky["runs"][-1]
    assert (meta.attempts, meta.life, meta.dead_letter_id) == (1, 2, letter.dead_letter_id)


@pytest.mark.django_db
def test_a_second_death_reopens_the_same_letter_and_keeps_the_first(flaky):
    letter = die()
    recover(letter.dead_letter_id, "ann")
    drain()

    again = DeadLetter.objects.get()
    assert again.dead_letter_id == letter.dead_letter_id
    assert (again.deaths, again.recovery_status, again.life) == (2, RecoveryStatus.PENDING, 2)
    assert again.first_dead_lettered_at == letter.first_dead_lettered_at
    first, second = DeadLetterDeath.objects.order_by("number")
    assert "death 1" in first.error_text
    assert first.verdict == "failed_again"
    assert "death 2" in second.error_text
    assert second.verdict is None


@pytest.mark.django_db
def test_runs_under_recovery_are_logged_even_when_they_succeed(flaky, settings):
    settings.QUEUES = {**settings.QUEUES, "DELIVERY_LOG": "off"}
    letter = die()
    flaky["works"] = True
    recover(letter.dead_letter_id, "ann")
    drain()

    assert list(DeliveryLogEntry.objects.values_list("outcome", "life")) == [("success", 2)]


@pytest.mark.django_db
def test_a_letter_that_is_recovering_recovered_or_unknown_is_not_sent_again(flaky):
    letter = die()
    flaky["works"] = True

    assert recover(letter.dead_letter_id, "ann") is Sent.SENT
    assert recover(letter.dead_letter_id, "bob") is Sent.RECOVERING
    drain()
    assert recover(letter.dead_letter_id, "bob") is Sent.RECOVERED
    assert recover(letter.source_id, "bob") is None
    assert DeadLetterDeath.objects.get().recovery_actor == "ann"


@pytest.mark.django_db
def test_a_waiting_message_with_the_same_id_is_a_conflict_and_changes_nothing(flaky, sql):
    letter = die()
    sql("INSERT INTO wh_inbox (message_id, message_type, event_data) VALUES (%s, 'other', '{}')", letter.source_id)

    assert recover(letter.dead_letter_id, "ann") is Sent.CONFLICT

    letter.refresh_from_db()
    assert letter.recovery_status == RecoveryStatus.PENDING
    assert sql("SELECT message_type FROM wh_inbox") == [{"message_type": "other"}]


@pytest.mark.django_db
def test_the_same_id_dead_again_reopens_its_letter_even_without_a_recovery(flaky, sql):
    letter = die()
    sql("INSERT INTO wh_inbox (message_id, message_type, event_data) VALUES (%s, 'test.Flaky', '{}')", letter.source_id)
    drain()

    assert DeadLetter.objects.get().deaths == 2


@pytest.mark.django_db
def test_a_letter_of_an_adopted_database_without_a_source_row_is_recovered(handlers, sql):
    seen = []
    handles("old.Type")(lambda message: seen.append(message.payload))
    sql(
        "INSERT INTO wh_dead_letters (dead_letter_id, source_table, source_id, message_type, envelope, failure_reason,"
        " attempts_when_dlq, generation) VALUES (gen_random_uuid(), 'wh_inbox', gen_random_uuid(), 'old.Type',"
        ' \'{"event_data": {"a": 1}, "metadata": {}}\', 5, 10, \'old\')'
    )
    letter = DeadLetter.objects.get()

    assert recover(letter.dead_letter_id, "ann") is Sent.SENT
    drain()

    assert seen == [{"a": 1}]
    letter.refresh_from_db()
    assert letter.recovery_status == RecoveryStatus.RECOVERED


@pytest.mark.django_db(transaction=True)
def test_two_people_recovering_at_once_make_one_run_of_the_handler(flaky):
    letter = die()
    flaky["works"] = True
    flaky["runs"].clear()

    answers = at_once(
        *(lambda name=name: transaction.atomic(recover)(letter.dead_letter_id, name) for name in ("ann", "bob"))
    )
    drain()

    assert sorted(answers) == [Sent.RECOVERING, Sent.SENT]
    assert len(flaky["runs"]) == 1


@pytest.mark.django_db
def test_a_recovered_message_takes_its_old_place_in_its_stream(handlers):
    order, broken = [], {"yes": True}

    @handles("test.Step")
    def step(message):
        if message.payload == 1 and broken["yes"]:
            raise Terminal("not now")
        order.append(message.payload)

    send("test.Step", 1, stream="s")
    drain()
    broken["yes"] = False
    send("test.Step", 2, stream="s")
    recover(DeadLetter.objects.get().dead_letter_id, "ann")
    drain()

    assert order == [1, 2]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("disposition", "status"),
    [(2, RecoveryStatus.HELD), (3, RecoveryStatus.PERMANENTLY_FAILED), (0, RecoveryStatus.PENDING)],
)
def test_what_a_person_decided_of_a_message_in_flight_wins_when_it_dies_again(flaky, disposition, status):
    letter = die()
    recover(letter.dead_letter_id, "ann")
    dispose(letter.dead_letter_id, disposition)
    drain()

    letter.refresh_from_db()
    assert (letter.recovery_status, letter.deaths, letter.operator_disposition) == (status, 2, disposition)


@pytest.mark.django_db
def test_a_handled_message_is_recovered_whatever_a_person_decided_meanwhile(flaky):
    letter = die()
    flaky["works"] = True
    recover(letter.dead_letter_id, "ann")
    dispose(letter.dead_letter_id, 2)
    drain()

    letter.refresh_from_db()
    assert (letter.recovery_status, letter.operator_disposition) == (RecoveryStatus.RECOVERED, 2)


@pytest.mark.django_db
def test_a_superseded_letter_is_not_settled(sql):
    letter = a_letter(status=RecoveryStatus.RECOVERING, superseded_by=uuid4())

    assert sql("SELECT settle_recovered(%s) AS n", [letter.pk]) == [{"n": 0}]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ConnectionError("down"), FailureReason.TRANSPORT_EXCEPTION),
        (UnicodeDecodeError("utf-8", b"x", 0, 1, "bad"), FailureReason.SERIALIZATION_ERROR),
        (Terminal("no"), FailureReason.UNKNOWN),
        (RuntimeError("x"), FailureReason.MAX_ATTEMPTS_EXCEEDED),
    ],
)
def test_the_classified_reason_crosses_and_not_always_the_spent_budget(handlers, error, reason):
    @handles("test.Fails", max_attempts=1)
    def fails(message):
        raise error

    send("test.Fails", {})
    drain()

    assert DeadLetter.objects.get().failure_reason == reason


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("change", "is_due"),
    [
        ("", True),
        ("next_recovery_at = NULL", False),
        ("next_recovery_at = now() + interval '1 minute'", False),
        ("recovery_status = 1", False),
        ("recovery_status = 2", False),
        ("recovery_status = 4", False),
        ("recovery_status = 3, recovered_at = now()", False),
        ("superseded_by = gen_random_uuid()", False),
    ],
)
def test_what_the_schedule_looks_at(change, is_due, sql):
    a_letter()
    sql("UPDATE wh_dead_letters SET next_recovery_at = now() - interval '1 second'")
    if change:
        sql(f"UPDATE wh_dead_letters SET {change}")

    assert bool(sql("SELECT due_dead_letters(10)")) == is_due
