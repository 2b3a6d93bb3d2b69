"""Savepoints of runs that share a commit: set by the first thing that is sent, whoever sends it."""

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from queues import handles, send
from queues.drainer import batch
from queues.models import InboxMessage
from queues.testing import drain

pytestmark = pytest.mark.django_db(transaction=True)


def insert(payload):
    return f"INSERT INTO test_effects (payload) VALUES ('{payload}')"


def by_django(payload):
    with connection.cursor() as cursor:
        cursor.execute(insert(payload))


def in_an_atomic_block(payload):
    with transaction.atomic():
        by_django(payload)


def by_psycopg(payload):
    connection.connection.execute(insert(payload))


def by_a_cursor_of_psycopg_that_was_there(payload):
    with connection.cursor() as cursor:
        cursor.cursor.execute(insert(payload))


def in_a_transaction_of_psycopg(payload):
    with connection.connection.transaction():
        by_psycopg(payload)


def in_a_pipeline(payload):
    with connection.connection.pipeline():
        by_psycopg(payload)


def by_copy(payload):
    with connection.cursor() as cursor, cursor.copy("COPY test_effects (payload) FROM STDIN") as copy:
        copy.write_row([str(payload)])


@pytest.fixture
def numbers(handlers, monkeypatch):
    """Handle numbers in one group, by what is given; return what sends and drains them."""

    def drained(handle, *payloads, max_attempts=5):
        handles("test.Number", max_attempts=max_attempts)(lambda message: handle(message.payload))
        monkeypatch.setattr(batch, "is_slow", lambda kind: False)
        for payload in payloads:
            send("test.Number", payload)
        return drain()

    return drained


@pytest.mark.parametrize(
    "write",
    [
        by_django,
        in_an_atomic_block,
        by_psycopg,
        by_a_cursor_of_psycopg_that_was_there,
        in_a_transaction_of_psycopg,
        in_a_pipeline,
        by_copy,
    ],
)
def test_a_failed_runs_writes_are_undone_by_whatever_way_they_went(numbers, effects, write):
    def handle(payload):
        write(payload)
        if payload == 1:
            raise ValueError

    numbers(handle, 0, 1, 2)

    assert effects() == ["0", "2"]
    assert [row.attempts for row in InboxMessage.objects.all()] == [1]


def test_twenty_runs_that_send_nothing_cost_as_many_statements_as_two(numbers):
    numbers(lambda payload: None)

    assert len(statements_of_draining(20)) == len(statements_of_draining(2))


def statements_of_draining(messages):
    for payload in range(messages):
        send("test.Number", payload)
    with CaptureQueriesContext(connection) as sent:
        assert drain().messages == messages
    return sent


def test_a_run_that_sends_something_has_its_savepoint_checked_and_released_at_once(numbers, effects):
    with CaptureQueriesContext(connection) as sent:
        numbers(by_django, 0)

    about = [query["sql"] for query in sent if "SAVEPOINT" in query["sql"]]
    assert about == [
        "SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED; RELEASE SAVEPOINT queues_run",
    ]


def test_a_failed_run_that_sent_nothing_leaves_no_callback_and_no_mark(numbers, effects):
    called = []

    def handle(payload):
        transaction.on_commit(lambda: called.append(payload))
        if payload == 1:
            transaction.set_rollback(True)

    numbers(handle, 0, 1, 2)

    assert called == [0, 2]
    assert [row.attempts for row in InboxMessage.objects.all()] == [1]


def test_a_group_has_no_more_savepoints_than_the_server_keeps_at_hand(numbers, effects, monkeypatch, configure):
    configure(GROUP_MESSAGES=100)
    monkeypatch.setattr(batch, "SAVEPOINTS_AT_MOST", 3)
    groups = []
    monkeypatch.setattr(batch.recording, "write", recorded(batch.recording.write, groups))

    numbers(lambda payload: by_django(payload) if payload >= 4 else None, *range(11))

    assert groups == [7, 3, 1]


def recorded(write, groups):
    def note(results, token):
        groups.append(len(results))
        write(results, token)

    return note
