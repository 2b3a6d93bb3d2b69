"""Claims, order and charges: engine.md sections 1 and 2 on a real inbox."""

import threading
import uuid
from datetime import timedelta

import pytest
from django.db import IntegrityError, connection, transaction

from deadletters.models import DeadLetter
from queues import Delay, NewMessage, handles, send, send_many
from queues.models import DeliveryLogEntry, InboxMessage
from queues.store import claims
from queues.testing import drain
from queues.words.outcomes import Cause, FailureReason
from tests.db.conftest import at_once

LEASE = timedelta(seconds=30)


def claim(limit=100, per_stream=50):
    claims.admit("wh_inbox", 1000)
    token = uuid.uuid4()
    rows = claims.claim(
        "wh_inbox", instance_id=uuid.uuid4(), token=token, limit=limit, per_stream=per_stream, lease=LEASE
    )
    streams = tuple({row.stream_id for row in rows if row.stream_id})
    held = claims.Held(source="wh_inbox", token=token, messages=tuple(row.message_id for row in rows), streams=streams)
    return rows, held


def numbers(rows):
    by_id = {row.message_id: row for row in rows}
    found = InboxMessage.objects.filter(message_id__in=by_id).order_by("position")
    return [int(message.event_data) for message in found]


def send_numbers(count, stream=None):
    send_many([NewMessage(type="test.N", payload=n, stream=stream) for n in range(count)])


@pytest.mark.django_db
def test_a_claim_takes_a_streams_first_rows_in_order_and_nobody_else_gets_the_rest():
    send_numbers(5, stream="s")

    first, _ = claim(per_stream=3)
    second, _ = claim()

    assert numbers(first) == [0, 1, 2]
    assert second == []


@pytest.mark.django_db
def test_a_row_that_is_not_due_holds_those_behind_it_in_its_stream():
    send("test.N", 0, stream="s", delay=timedelta(hours=1))
    send("test.N", 1, stream="s")
    send("test.N", 2, stream="other")

    rows, _ = claim()

    assert numbers(rows) == [2]


@pytest.mark.django_db
def test_a_released_claim_counts_nothing_and_is_claimed_again_at_once():
    send_numbers(2, stream="s")
    send_numbers(2)
    _, held = claim()
    held.release()

    rows, _ = claim()

    assert len(rows) == 4
    assert {(row.attempts, row.suspect, row.lapsed) for row in rows} == {(0, False, False)}


@pytest.mark.django_db
def test_an_empty_stream_row_is_deleted_and_comes_back_with_its_next_message(sql):
    send_numbers(1, stream="s")
    handled = []
    from queues.words.handlers import registry

    with registry.scratch():
        handles("test.N")(lambda message: handled.append(message.payload))
        drain()
        assert sql("SELECT * FROM wh_streams") == []
        send_numbers(1, stream="s")
        drain()

    assert handled == [0, 0]


@pytest.mark.django_db
def test_a_lost_token_fails_the_fence_and_an_unbroken_one_holds(leases_lapse):
    send_numbers(2, stream="s")
    send_numbers(2)
    _, old = claim()
    assert old.is_held()

    leases_lapse()
    assert old.is_held()
    _, new = claim()

    assert not old.is_held()
    assert new.is_held()
    assert old.renew(LEASE) == 0


@pytest.mark.django_db
def test_a_lapsed_lease_without_a_recorded_start_is_one_provisional_charge(leases_lapse):
    send_numbers(1)
    claim()
    leases_lapse()
    (once,), _ = claim()
    leases_lapse()
    (twice,), _ = claim()

    assert (once.attempts, once.suspect, once.was_started) == (1, True, False)
    assert (twice.attempts, twice.suspect) == (1, True)


@pytest.mark.django_db
def test_a_provisional_charge_is_given_back_with_the_next_report(handlers, leases_lapse, inbox_row):
    @handles("test.N", max_attempts=2)
    def fail(message):
        raise ValueError

    message_id = send("test.N", 1).message_id
    claim()
    leases_lapse()
    drain()

    row = inbox_row(message_id)
    assert (row["attempts"], row["releases"], row["suspect"]) == (2, 1, False)
    assert not DeadLetter.objects.exists()


@pytest.mark.django_db
def test_provisional_charges_alone_never_kill_a_message(handlers, leases_lapse):
    ran = []
    handles("test.N", max_attempts=1)(lambda message: ran.append(1))
    send("test.N", 1)
    for _ in range(4):
        claim()
        leases_lapse()
    drain()

    assert ran == [1]
    assert not DeadLetter.objects.exists()


@pytest.mark.django_db
def test_a_start_that_never_reported_is_charged_and_the_last_one_kills_as_worker_lost(
    handlers, leases_lapse, time_passes
):
    @handles("test.N", max_attempts=2)
    def fail(message):
        raise ValueError("the one that reported")

    message_id = send("test.N", 1).message_id
    drain()
    time_passes()
    (row,), held = claim()
    assert claims.start("wh_inbox", token=held.token, message_id=row.message_id)
    leases_lapse()
    drain()

    letter = DeadLetter.objects.get(source_id=message_id)
    assert (letter.cause, letter.failure_reason) == (Cause.WORKER_LOST, FailureReason.LEASE_EXPIRED)
    assert letter.error_text == "exceeded retry limit"
    assert letter.attempts_when_dlq == 2
    assert "the one that reported" in letter.death_rows.get().last_reported_error


@pytest.mark.django_db
def test_a_recorded_start_in_a_stream_explains_the_loss_of_its_followers(leases_lapse):
    send_numbers(2, stream="s")
    (head, _), held = claim()
    claims.start("wh_inbox", token=held.token, message_id=head.message_id)
    leases_lapse()

    (head, follower), _ = claim()

    assert (head.attempts, head.was_started) == (1, True)
    assert (follower.attempts, follower.suspect) == (0, False)


@pytest.mark.django_db
def test_a_start_under_a_lost_token_is_refused(leases_lapse):
    send_numbers(1)
    (row,), old = claim()
    leases_lapse()
    claim()

    assert not claims.start("wh_inbox", token=old.token, message_id=row.message_id)


@pytest.mark.django_db
def test_a_failing_head_keeps_its_stream_waiting_and_not_the_others(handlers, time_passes):
    order = []

    @handles("test.Step")
    def step(message):
        order.append((message.meta.stream, message.payload))
        if message.payload == 0 and message.meta.attempts == 1 and message.meta.stream == "a":
            raise ValueError

    for stream in "ab":
        for n in range(2):
            send("test.Step", n, stream=stream)
    drain()
    time_passes()
    drain()

    assert [n for stream, n in order if stream == "a"] == [0, 0, 1]
    assert order.index(("b", 1)) < order.index(("a", 1))


@pytest.mark.django_db
def test_a_dead_head_lets_its_stream_go_on(handlers):
    order = []

    @handles("test.Step", max_attempts=1)
    def step(message):
        order.append(message.payload)
        if message.payload == 0:
            raise ValueError

    send_many([NewMessage(type="test.Step", payload=n, stream="s") for n in range(3)])
    drain()

    assert order == [0, 1, 2]
    assert DeadLetter.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_row_that_commits_late_is_run_and_in_its_place(handlers):
    """Position 1 commits after position 2 has run: nothing is skipped for being lower."""
    order = []
    handles("test.N")(lambda message: order.append(message.payload))
    inserted, may_commit = threading.Event(), threading.Event()

    def slow_sender():
        try:
            with transaction.atomic():
                send("test.N", "late")
                send("test.N", "late in stream", stream="s")
                inserted.set()
                assert may_commit.wait(10)
        finally:
            connection.close()

    thread = threading.Thread(target=slow_sender)
    thread.start()
    assert inserted.wait(10)
    send("test.N", "early in stream", stream="s")
    drain()
    may_commit.set()
    thread.join(10)
    drain()

    assert order[0] == "early in stream"
    assert sorted(order[1:]) == ["late", "late in stream"]


@pytest.mark.django_db(transaction=True)
def test_two_drainers_on_one_inbox_run_each_message_once(sql):
    """Two claimers at a barrier, again and again, over free rows and streams."""
    send_numbers(300)
    for stream in range(20):
        send_numbers(10, stream=f"s{stream}")
    got = []

    def drainer():
        while True:
            rows, held = claim(limit=40, per_stream=5)
            if not rows:
                return
            with transaction.atomic():
                assert held.is_held()
                got.extend(row.message_id for row in rows)
                InboxMessage.objects.filter(message_id__in=held.messages).delete()
            held.release()

    at_once(drainer, drainer)

    assert sorted(map(str, got)) == sorted(set(map(str, got)))
    assert len(got) + InboxMessage.objects.count() == 500
    drained, _ = claim(limit=500)
    assert len(drained) == InboxMessage.objects.count()


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
