"""Handlers that misbehave, and messages that no handler can run: each pays for itself alone."""

import uuid
from datetime import timedelta

import pytest
from django.db import IntegrityError, connection, transaction

from deadletters.models import DeadLetter
from queues import Delay, NewMessage, handles, send, send_many
from queues.models import DeliveryLogEntry, InboxMessage
from queues.testing import drain
from queues.words.outcomes import Cause
from tests.db.conftest import send_numbers


@pytest.mark.django_db
def test_a_handlers_writes_go_with_its_failure_and_its_callbacks_too(handlers, django_capture_on_commit_callbacks, sql):
    called = []

    @handles("test.Writes")
    def writes(message):
        send("test.Child", message.payload, delay=timedelta(hours=1))
        transaction.on_commit(lambda: called.append(message.payload))
        if message.payload == "bad":
            raise ValueError

    for payload in ("good", "bad"):
        send("test.Writes", payload)
    with django_capture_on_commit_callbacks(execute=True):
        drain()

    children = sql("SELECT event_data::text AS p FROM wh_inbox WHERE message_type = 'test.Child'")
    assert [child["p"] for child in children] == ['"good"']
    assert called == ["good"]


@pytest.mark.django_db
def test_a_swallowed_database_error_is_a_failure_not_a_success(handlers, inbox_row):
    @handles("test.Swallows")
    def swallows(message):
        try:
            with connection.cursor() as cursor:
                cursor.execute(
                    "INSERT INTO wh_inbox (message_id, message_type, event_data)"
                    " SELECT message_id, '', '{}' FROM wh_inbox"
                )
        except IntegrityError:
            pass

    message_id = send("test.Swallows", {}).message_id
    drain()

    assert inbox_row(message_id)["attempts"] == 1


@pytest.mark.django_db
def test_one_bad_message_in_a_group_leaves_its_neighbours_committed(handlers):
    @handles("test.N", max_attempts=1)
    def one_fails(message):
        if message.payload == 7:
            raise ValueError

    send_numbers(20)
    report = drain()

    assert report.counts["success"] == 19
    assert DeadLetter.objects.count() == 1


@pytest.mark.django_db
def test_an_unreadable_payload_dies_at_once_and_does_not_block_those_behind_it(handlers, sql):
    ran = []
    handles("test.N")(lambda message: ran.append(message.payload))
    deep = "[" * 1500 + "]" * 1500
    sql("INSERT INTO wh_inbox (message_id, message_type, event_data) VALUES (gen_random_uuid(), 'test.N', %s)", deep)
    sql(
        "INSERT INTO wh_inbox (message_id, message_type, event_data, envelope_raw)"
        " VALUES (gen_random_uuid(), 'test.N', '{}', '\\xff')"
    )
    send("test.N", "good")
    drain()

    assert ran == ["good"]
    assert set(DeadLetter.objects.values_list("cause", "attempts_when_dlq")) == {(Cause.UNREADABLE, 0)}


@pytest.mark.django_db
def test_a_type_without_a_handler_dies_at_once_unless_a_live_worker_has_it(handlers, sql, inbox_row):
    sql(
        "INSERT INTO wh_service_instances (instance_id, service_name, host_name, process_id, metadata)"
        " VALUES (gen_random_uuid(), 's', 'h', 1, '{\"types\": [\"new.Type\"]}')"
    )
    gone, rolling = send("gone.Type", {}).message_id, send("new.Type", {}).message_id
    drain()

    assert DeadLetter.objects.get().source_id == gone
    assert DeadLetter.objects.get().cause == Cause.NO_HANDLER
    assert inbox_row(rolling)["attempts"] == 0
    assert list(DeliveryLogEntry.objects.filter(message_id=rolling).values_list("outcome", flat=True)) == ["released"]


@pytest.mark.django_db
def test_a_delay_of_a_head_holds_its_stream(handlers):
    ran = []

    @handles("test.Step")
    def step(message):
        ran.append(message.payload)
        if message.payload == 0:
            raise Delay(60)

    send_many([NewMessage(type="test.Step", payload=n, stream="s") for n in range(2)])
    drain()

    assert ran == [0]


@pytest.mark.django_db
def test_a_chosen_id_is_stored_once(inbox_row):
    chosen = uuid.uuid4()
    assert send("test.N", 1, message_id=chosen).is_new
    assert not send("test.N", 2, message_id=chosen).is_new
    assert inbox_row(chosen)["event_data"] in (1, "1")


@pytest.mark.django_db
def test_a_log_that_cannot_be_written_never_fails_the_outcome(handlers, inbox_row, sql):
    sql("DROP TABLE delivery_log CASCADE")

    @handles("test.N")
    def fail(message):
        raise ValueError

    message_id = send("test.N", 1).message_id
    drain()

    assert inbox_row(message_id)["attempts"] == 1


@pytest.mark.django_db
@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit, BaseException])
def test_a_handler_that_tries_to_end_the_process_has_failed(handlers, inbox_row, kind):
    @handles("test.Exit")
    def leave(message):
        raise kind(3)

    handles("test.N")(lambda message: None)
    message_id = send("test.Exit", {}).message_id
    send_numbers(3)
    report = drain()

    assert report.counts["success"] == 3
    assert inbox_row(message_id)["attempts"] == 1
    assert kind.__name__ in inbox_row(message_id)["error"]


@pytest.mark.django_db(transaction=True)
def test_a_handler_that_closes_the_connection_is_charged_and_loses_nothing(handlers, inbox_row):
    @handles("test.Close")
    def close(message):
        connection.close()

    handles("test.N")(lambda message: None)
    send_numbers(3)
    message_id = send("test.Close", {}).message_id
    drain()
    drain()

    assert inbox_row(message_id)["attempts"] == 1
    assert InboxMessage.objects.count() == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("statement", ["BEGIN", "BEGIN; SELECT 1/0"])
def test_a_handler_outside_transactions_that_leaves_one_open_has_failed(handlers, inbox_row, statement):
    @handles("test.Begin", atomic=False)
    def begin(message):
        with connection.cursor() as cursor:
            cursor.execute(statement)

    message_id = send("test.Begin", {}).message_id
    drain()

    assert (inbox_row(message_id)["attempts"], inbox_row(message_id)["lease_token"]) == (1, None)


@pytest.mark.django_db(transaction=True)
def test_an_open_atomic_block_of_a_handler_outside_transactions_is_closed(handlers, inbox_row):
    @handles("test.Enter", atomic=False)
    def enter(message):
        transaction.atomic().__enter__()

    message_id = send("test.Enter", {}).message_id
    drain()

    assert "left a transaction open" in inbox_row(message_id)["error"]
    assert not connection.in_atomic_block


@pytest.mark.django_db(transaction=True)
def test_what_a_handler_sets_in_its_session_does_not_stop_the_messages_behind_it(handlers, inbox_row):
    done = []

    @handles("test.Session")
    def session(message):
        with connection.cursor() as cursor:
            cursor.execute("SET default_transaction_read_only = on; SET search_path = nowhere")

    handles("test.N")(lambda message: done.append(message.payload))
    send("test.Session", {})
    send_numbers(3)
    for _ in range(2):
        drain()

    assert sorted(set(done)) == [0, 1, 2]
    assert not InboxMessage.objects.filter(message_type="test.N").exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("error", [ValueError, SystemExit])
def test_a_callback_that_raises_takes_no_neighbours_callback_with_it(handlers, error):
    called = []

    @handles("test.Callback")
    def callback(message):
        def run():
            if message.payload == 0:
                raise error
            called.append(message.payload)

        transaction.on_commit(run)

    send_many([NewMessage(type="test.Callback", payload=n) for n in range(3)])
    report = drain()

    assert called == [1, 2]
    assert report.counts["success"] == 3


@pytest.mark.django_db(transaction=True)
def test_a_deferred_constraint_fails_its_own_message_only(handlers, sql, inbox_row):
    runs = []
    sql(
        "CREATE TABLE test_parent (id int PRIMARY KEY); CREATE TABLE test_child"
        " (id int REFERENCES test_parent DEFERRABLE INITIALLY DEFERRED)"
    )
    try:

        @handles("test.Child")
        def child(message):
            runs.append(message.payload)
            sql("INSERT INTO test_child VALUES (%s)", message.payload)

        sql("INSERT INTO test_parent VALUES (1)")
        receipts = send_many([NewMessage(type="test.Child", payload=n) for n in (1, 2, 1)])
        drain()

        assert [inbox_row(receipt.message_id) is None for receipt in receipts] == [True, False, True]
        assert sql("SELECT count(*) AS n FROM test_child") == [{"n": 2}]
        assert runs == [1, 2, 1], "found out in its own savepoint, its neighbours do not run again"
    finally:
        sql("DROP TABLE test_child, test_parent")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("statement", ["COMMIT", "rollback", "COMMIT; BEGIN"])
def test_a_handler_cannot_commit_its_neighbours_by_hand(handlers, inbox_row, sql, statement):
    runs = []

    @handles("test.Commit")
    def commit(message):
        with connection.cursor() as cursor:
            cursor.execute(statement)

    handles("test.N")(lambda message: runs.append(message.payload))
    send_numbers(3)
    message_id = send("test.Commit", {}).message_id
    drain()

    assert runs == [0, 1, 2]
    assert "atomic=False" in inbox_row(message_id)["error"]
    assert InboxMessage.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_run_that_broke_the_connection_is_in_the_log(handlers):
    @handles("test.Close")
    def close(message):
        connection.close()

    message_id = send("test.Close", {}).message_id
    drain()

    (entry,) = DeliveryLogEntry.objects.filter(message_id=message_id)
    assert (entry.outcome, entry.attempt) == ("failure", 1)
    assert entry.started_at is not None


@pytest.mark.django_db(transaction=True)
def test_a_handler_outside_transactions_that_turns_autocommit_off_has_failed(handlers, inbox_row):
    @handles("test.Auto", atomic=False)
    def auto(message):
        connection.set_autocommit(False)

    message_id = send("test.Auto", {}).message_id
    drain()

    assert "left a transaction open" in inbox_row(message_id)["error"]
    assert connection.get_autocommit()


@pytest.mark.django_db
def test_a_row_without_a_recorded_reason_dies_without_one(handlers, sql):
    handles("test.N", max_attempts=2)(lambda message: None)
    sql(
        "INSERT INTO wh_inbox (message_id, message_type, event_data, attempts)"
        " VALUES (gen_random_uuid(), 'test.N', '1', 5)"
    )
    drain()

    assert DeadLetter.objects.get().error_text is None


@pytest.mark.django_db
@pytest.mark.parametrize("code", ["40P01", "40001"])
def test_a_run_that_the_database_ended_for_another_one_runs_again_and_is_not_charged(handlers, sql, time_passes, code):
    runs = []

    @handles("test.Chosen", max_attempts=2)
    def chosen(message):
        runs.append(message.meta.attempts)
        if len(runs) <= 3:
            sql(f"DO $$ BEGIN RAISE EXCEPTION 'deadlock' USING ERRCODE = '{code}'; END $$")

    message_id = send("test.Chosen", 1).message_id
    for _ in range(4):
        drain()
        time_passes()

    assert runs == [1, 2, 3, 4]
    assert not DeadLetter.objects.exists()
    outcomes = DeliveryLogEntry.objects.filter(message_id=message_id).values_list("outcome", flat=True)
    assert list(outcomes) == ["released"] * 3
