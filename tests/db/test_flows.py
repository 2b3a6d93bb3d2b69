"""Flows of the sources: exact at every committed moment, whoever writes and deletes rows and however many at once."""

import threading
from functools import partial

import pytest
from django.core.management import call_command
from django.db import NotSupportedError, connection, transaction

from deadletters.models import DeadLetter
from deadletters.store.recovery import recover
from queues import NewMessage, Terminal, append_event, handles, projects, publish, send, send_many
from queues.models import FlowDelta, FlowTotal, InboxMessage
from queues.perspectives import subscribe
from queues.store.flows import Flow, flows, fold
from queues.testing import drain
from queues.words.sources import INBOX, OUTBOX, PERSPECTIVES, SOURCES
from tests.db.conftest import at_once, move_by_hand
from tests.factories import a_letter


def counted_and_found():
    """Return depths by the counters, and rows that are there: one statement each, so call it when nobody writes."""
    rows = {}
    with connection.cursor() as cursor:
        for source in SOURCES:
            cursor.execute(f"SELECT count(*) FROM {source}")
            rows[source] = cursor.fetchone()[0]
    return {source: flow.depth for source, flow in flows().items()}, rows


def assert_exact():
    counted, found = counted_and_found()
    assert counted == found


def insert_by_hand(sql, count, source=INBOX):
    sql(
        f"INSERT INTO {source} (message_id, message_type, event_data)"
        " SELECT gen_random_uuid(), 'test.Foreign', '{}' FROM generate_series(1, %s)",
        count,
    )


@pytest.mark.django_db
def test_every_way_in_and_out_of_the_inbox_is_counted(handlers, sql):
    handles("test.Good")(lambda message: None)

    @handles("test.Bad")
    def bad(message):
        raise Terminal("no")

    send_many([NewMessage(type="test.Good", payload=n) for n in range(5)])
    send_many([NewMessage(type="test.Bad", payload=n, stream="s") for n in range(3)])
    drain()
    insert_by_hand(sql, 4)
    sql("DELETE FROM wh_inbox WHERE message_id IN (SELECT message_id FROM wh_inbox LIMIT 3)")
    move_by_hand(InboxMessage.objects.get().pk)
    recover(DeadLetter.objects.filter(message_type="test.Bad").first().pk, actor="olga")

    assert flows()[INBOX] == Flow(sent=12, returned=1, succeeded=5, died=4, removed=3)
    assert flows()[INBOX].dead == 3
    assert_exact()
    drain()
    assert flows()[INBOX] == Flow(sent=12, returned=1, succeeded=5, died=5, removed=3)
    assert_exact()


@pytest.mark.django_db
def test_outbox_and_perspectives_are_counted_each_for_itself(handlers):
    @projects("test_totals", "test.Added", "test.Refused")
    def total(message):
        if message.type == "test.Refused":
            raise Terminal("no")

    subscribe()
    publish("test.Good", 1, destination="nobody", max_attempts=1)
    append_event("a", "test.Added", 1)
    append_event("b", "test.Refused", 2)
    drain(PERSPECTIVES)
    drain(OUTBOX)
    publish("test.Good", 2, destination="here")

    assert flows() == {
        INBOX: Flow(),
        OUTBOX: Flow(sent=2, died=1),
        PERSPECTIVES: Flow(sent=2, succeeded=1, died=1),
    }
    assert_exact()


@pytest.mark.django_db
def test_a_recovered_letter_of_a_broker_is_sent_since_it_has_never_been_in_the_inbox(handlers):
    letter = a_letter(source_table="broker", message_type="test.Foreign", cause="unreadable")

    assert recover(letter.pk, actor="olga") == "sent"

    assert flows()[INBOX] == Flow(sent=1)
    assert_exact()


@pytest.mark.django_db
def test_sending_an_id_twice_counts_once_and_a_rollback_leaves_no_trace(handlers):
    first = send("test.Good", 1).message_id
    send("test.Good", 1, message_id=first)
    with transaction.atomic():
        send("test.Good", 2)
        InboxMessage.objects.all().delete()
        transaction.set_rollback(True)

    assert flows()[INBOX] == Flow(sent=1)
    assert_exact()


@pytest.mark.django_db
def test_statements_that_touch_no_row_leave_no_delta(sql):
    sql("DELETE FROM wh_inbox")
    sql("INSERT INTO wh_inbox SELECT * FROM wh_inbox")
    sql("SELECT record_wh_inbox('{}', '[]')")

    assert not FlowDelta.objects.exists()


@pytest.mark.django_db
def test_folding_changes_no_flow_and_leaves_one_row_for_a_source(sql):
    insert_by_hand(sql, 7)
    insert_by_hand(sql, 2, OUTBOX)
    sql("DELETE FROM wh_inbox")
    before = flows()

    assert fold() == 3
    assert flows() == before
    insert_by_hand(sql, 1)
    assert fold() == 1

    assert not FlowDelta.objects.exists()
    assert list(FlowTotal.objects.order_by("source").values_list("source", "sent", "removed")) == [
        (INBOX, 8, 7),
        (OUTBOX, 2, 0),
    ]
    assert fold() == 0


@pytest.mark.django_db
def test_a_fold_is_bounded(sql, monkeypatch):
    monkeypatch.setattr("queues.store.flows.FOLD_ROWS", 2)
    for _ in range(5):
        insert_by_hand(sql, 1)

    assert fold(at_most=2) == 2
    assert FlowDelta.objects.count() == 3
    assert flows()[INBOX].sent == 5


@pytest.mark.django_db(transaction=True)
def test_truncating_a_work_table_counts_its_rows_as_removed(sql):
    insert_by_hand(sql, 6)
    sql("DELETE FROM wh_inbox WHERE message_id IN (SELECT message_id FROM wh_inbox LIMIT 1)")
    sql("TRUNCATE wh_inbox")

    assert flows()[INBOX] == Flow(sent=6, removed=6)
    assert_exact()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
@pytest.mark.parametrize("source", SOURCES)
def test_truncating_by_an_old_snapshot_is_refused_since_it_would_miscount(source, level, sql):
    def truncate():
        with transaction.atomic():
            sql(f"SET TRANSACTION ISOLATION LEVEL {level}")
            sql("SELECT 1")
            at_once(partial(insert_by_hand, sql, 3))
            sql(f"TRUNCATE {source}")

    with pytest.raises(
        NotSupportedError, match=f"{source} cannot be truncated in a transaction that is {level.lower()}"
    ) as refused:
        truncate()

    assert "READ COMMITTED" in refused.value.__cause__.diag.message_hint
    assert flows()[INBOX] == Flow(sent=3)
    assert_exact()


@pytest.mark.django_db(transaction=True)
def test_emptying_the_whole_database_starts_anew(sql):
    insert_by_hand(sql, 6)

    call_command("flush", interactive=False, verbosity=0)

    assert flows()[INBOX] == Flow()
    assert_exact()


@pytest.mark.django_db(transaction=True)
def test_two_folders_and_two_writers_at_once_lose_and_double_nothing(sql):
    for _ in range(200):
        insert_by_hand(sql, 1)

    def write():
        for n in range(100):
            insert_by_hand(sql, 1, OUTBOX if n % 2 else INBOX)

    def fold_often():
        return sum(fold(at_most=1) for _ in range(40))

    at_once(write, fold_often, fold_often, write)
    fold()

    assert flows() == {INBOX: Flow(sent=300), OUTBOX: Flow(sent=100), PERSPECTIVES: Flow()}
    assert not FlowDelta.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_folder_skips_what_another_one_holds(sql):
    insert_by_hand(sql, 1)
    insert_by_hand(sql, 1)
    held = FlowDelta.objects.earliest("id").pk
    taken, done = threading.Event(), threading.Event()

    def hold():
        with transaction.atomic():
            sql("SELECT 1 FROM flow_deltas WHERE id = %s FOR UPDATE", held)
            taken.set()
            assert done.wait(20)

    def fold_meanwhile():
        assert taken.wait(20)
        try:
            return fold(at_most=1)
        finally:
            done.set()

    assert at_once(hold, fold_meanwhile)[1] == 1
    assert list(FlowDelta.objects.values_list("pk", flat=True)) == [held]
    assert flows()[INBOX].sent == 2


READ_AT_ONE_MOMENT = """
SELECT (SELECT coalesce(sum(n), 0)::integer
          FROM (SELECT source, sent + returned - succeeded - died - removed AS n FROM flow_totals
                UNION ALL SELECT source, sent + returned - succeeded - died - removed FROM flow_deltas) f
         WHERE source = 'wh_inbox'),
       (SELECT count(*) FROM wh_inbox)
"""
SOME = "(SELECT message_id FROM wh_inbox LIMIT 3 FOR UPDATE SKIP LOCKED)"


def counters_and_rows():
    with connection.cursor() as cursor:
        cursor.execute(READ_AT_ONE_MOMENT)
        return cursor.fetchone()


@pytest.mark.django_db(transaction=True)
def test_a_reader_finds_counters_and_rows_agree_at_every_moment(sql):
    """Senders, a recorder, a hand with DELETE and a folder at work, while one reads both in one statement."""
    done = threading.Semaphore(0)

    def send_some(n):
        send_many([NewMessage(type="test.N", payload=k) for k in range(n % 5)])
        insert_by_hand(sql, n % 3)

    def take_some(n):
        sql(
            f"DELETE FROM wh_inbox WHERE message_id IN {SOME}"
            if n % 2
            else f"SELECT record_wh_inbox(ARRAY{SOME}, '[]')"
        )

    def fold_some(_):
        fold(at_most=1)

    def work(action):
        try:
            for n in range(60):
                action(n)
        finally:
            done.release()

    def read():
        seen, ended = [], 0
        while ended < 3:
            seen.append(counters_and_rows())
            ended += done.acquire(blocking=False)
        return seen

    seen = at_once(*(partial(work, action) for action in (send_some, take_some, fold_some)), read)[-1]

    assert len(seen) > 3
    assert [pair for pair in seen if pair[0] != pair[1]] == []
    assert_exact()
