"""The move to the dead letters, by SQL alone and by two at once."""

import uuid

import psycopg
import pytest
from django.db import DatabaseError, OperationalError, connection, transaction

from deadletters.models import DeadLetter, DeadLetterDeath
from queues import NewMessage, send, send_many
from queues.models import InboxMessage
from tests.db.conftest import INSTANCE, at_once, move_by_hand
from tests.worker.conftest import database_url


@pytest.mark.django_db
def test_the_seven_arguments_of_the_source_move_a_row_written_by_hand(sql):
    message_id, letter_id = uuid.uuid4(), uuid.uuid4()
    sql(
        "INSERT INTO wh_inbox (message_id, message_type, event_data, attempts)"
        " VALUES (%s, 'by.Hand', '{\"a\": 1}', 11)",
        message_id,
    )

    (moved,) = sql(
        "SELECT move_to_dead_letters(%s, 'wh_inbox', %s, 2, 'boom', %s, 'build-1') AS id",
        letter_id,
        message_id,
        INSTANCE,
    )

    letter = DeadLetter.objects.get()
    assert moved["id"] == letter.dead_letter_id == letter_id
    assert (letter.source_id, letter.attempts_when_dlq, letter.failure_reason) == (message_id, 11, 2)
    assert (letter.error_text, letter.generation, letter.recovery_status) == ("boom", "build-1", 0)
    assert sql("SELECT count(*) AS n FROM wh_inbox") == [{"n": 0}]


@pytest.mark.django_db
def test_a_row_that_is_gone_moves_to_null_and_writes_nothing():
    assert move_by_hand(uuid.uuid4()) is None
    assert not DeadLetter.objects.exists()


@pytest.mark.django_db
def test_an_unknown_source_table_raises_and_changes_nothing():
    message_id = send("test.Any", {}).message_id

    with pytest.raises(DatabaseError, match="unknown source table 'wh_nowhere'"), transaction.atomic():
        move_by_hand(message_id, source="wh_nowhere")

    assert not DeadLetter.objects.exists()


@pytest.mark.django_db
def test_a_missing_error_text_stays_null_and_an_empty_one_stays_empty():
    missing, empty = (send("test.Any", {}).message_id for _ in range(2))
    move_by_hand(missing, error=None)
    move_by_hand(empty, error="")

    texts = {letter.source_id: (letter.error_text, letter.error_line) for letter in DeadLetter.objects.all()}
    assert texts == {missing: (None, None), empty: ("", "")}


@pytest.mark.django_db
def test_a_row_under_a_live_lease_of_another_instance_is_moved_only_by_force(sql):
    message_id = send("test.Any", {}).message_id
    sql(
        "UPDATE wh_inbox SET lease_token = gen_random_uuid(), lease_expiry = now() + interval '1 minute',"
        " instance_id = gen_random_uuid()"
    )

    assert move_by_hand(message_id) is None
    assert move_by_hand(message_id, force=True) is not None


@pytest.mark.django_db(transaction=True)
def test_two_movers_of_one_row_make_one_letter_and_the_loser_gets_null():
    message_id = send("test.Any", {}).message_id

    answers = at_once(*[lambda: transaction.atomic(move_by_hand)(message_id)] * 2)

    letter = DeadLetter.objects.get()
    assert sorted(answers, key=str) == sorted([letter.dead_letter_id, None], key=str)
    assert DeadLetterDeath.objects.count() == 1


@transaction.atomic
def within_50_ms(action):
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL statement_timeout = 50")
    action()


@pytest.mark.django_db(transaction=True)
def test_a_move_that_is_cancelled_while_its_row_is_locked_leaves_the_row_and_no_letter():
    """The delete waits for a lock until the statement's time is up: never both, never neither."""
    message_id = send("test.Any", {}).message_id
    with psycopg.connect(database_url()) as other:
        other.execute("SELECT 1 FROM wh_inbox FOR UPDATE")
        with pytest.raises(OperationalError, match="statement timeout"):
            within_50_ms(lambda: move_by_hand(message_id))
        other.rollback()

    assert InboxMessage.objects.count() == 1
    assert not DeadLetter.objects.exists()
    assert not DeadLetterDeath.objects.exists()
    assert move_by_hand(message_id) == DeadLetter.objects.get().pk


@pytest.mark.django_db
def test_a_batch_is_moved_whole_and_says_which_rows_were_gone(sql):
    ids = [receipt.message_id for receipt in send_many([NewMessage(type="test.Any", payload=n) for n in range(3)])]
    moves = [
        {"dead_letter_id": str(uuid.uuid4()), "source_id": str(i), "failure_reason": 2} for i in [*ids, uuid.uuid4()]
    ]
    import json

    moved = sql("SELECT * FROM move_batch_to_dead_letters('wh_inbox', %s, %s, 'g')", json.dumps(moves), INSTANCE)

    assert {row["source_id"] for row in moved} == set(ids)
    assert DeadLetter.objects.count() == 3


@pytest.mark.django_db
def test_the_letter_rebuilds_the_row_completely(sql):
    """Every column of the row comes back, but for what a new life resets."""
    message_id = send("test.Any", {"n": 12345678901234567890.5, "text": "é\u2028"}, stream="order-7").message_id
    sql(
        "UPDATE wh_inbox SET scope = '{\"tenant\": 3}', is_event = true, flags = 5, priority = 100,"
        " handler_name = 'h.H',"
        " partition_number = 9, status = 3, max_attempts = 4, max_delays = -1, attempts = 3, delays = 1, releases = 1,"
        " error = 'last', failure_detail = '{\"detail\": {\"a\": 1}}', failure_reason = 8, source_commit_sequence = 77,"
        " source_service_id = gen_random_uuid(), chain_emitted_at = now(),"
        " envelope_raw = '\\x00ff', received_at = now() - interval '1 day'"
    )
    (before,) = sql("SELECT * FROM wh_inbox")
    letter_id = move_by_hand(message_id)

    assert sql("SELECT recover_dead_letter(%s, 'me') AS code", letter_id) == [{"code": "sent"}]

    (after,) = sql("SELECT * FROM wh_inbox")
    reset = {
        "attempts": 0,
        "delays": 0,
        "releases": 0,
        "error": None,
        "failure_detail": None,
        "failure_reason": 99,
        "life": 2,
        "dead_letter_id": letter_id,
        "suspect": False,
    }
    assert {name: after[name] for name in reset} == reset
    kept = {name for name in before if name not in {*reset, "scheduled_for"}}
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}


@pytest.mark.django_db
def test_a_payload_of_json_null_survives_death_and_recovery(sql):
    message_id = send("test.Any", None).message_id
    letter_id = move_by_hand(message_id)

    sql("SELECT recover_dead_letter(%s, 'me')", letter_id)

    assert sql("SELECT event_data::text AS data FROM wh_inbox") == [{"data": "null"}]
