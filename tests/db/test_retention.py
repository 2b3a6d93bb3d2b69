"""Months of the delivery log: made ahead, dropped when old, whoever else does it at the same time."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from django.core.management import call_command

from queues import handles, send, tasks
from queues.models import DeliveryLogEntry
from queues.store import partitions
from queues.testing import drain
from tests.db.conftest import at_once, until_somebody_waits_for_a_lock
from tests.worker.conftest import database_url

TABLES = """
SELECT c.relname AS name, i.inhrelid IS NOT NULL AS attached, coalesce(i.inhdetachpending, false) AS pending
  FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid AND i.inhparent = 'delivery_log'::regclass
 WHERE c.relkind = 'r' AND c.relname ~ '^delivery_log_[0-9_]+$'
"""
A_ROW = (
    "INSERT INTO delivery_log (source, message_id, attempt, outcome) VALUES ('test', gen_random_uuid(), 1, 'failure')"
)


@pytest.fixture
def months(transactional_db: None, sql) -> Iterator[None]:
    """Let a test change the log's months; afterwards they are those of a new database."""
    before = tables(sql)
    yield
    for name in tables(sql).keys() - before.keys():
        sql(f"DROP TABLE {name}")
    partitions.make_ahead(3)
    assert tables(sql) == before


def tables(sql):
    """Return the tables of months: `attached`, `pending` when detached half-way, or `apart`."""
    return {
        row["name"]: "pending" if row["pending"] else "attached" if row["attached"] else "apart" for row in sql(TABLES)
    }


def month_ago(sql, number):
    """Make the partition of a past month, with one row, and return its name."""
    sql("SELECT make_delivery_log_partitions(0, now() - make_interval(months => %s))", number)
    sql(
        "INSERT INTO delivery_log (source, message_id, attempt, outcome, logged_at)"
        " VALUES ('test', gen_random_uuid(), 1, 'failure', now() - make_interval(months => %s))",
        number,
    )
    when = "to_char((now() - make_interval(months => %s)) AT TIME ZONE 'UTC', 'YYYY_MM')"
    return sql(f"SELECT 'delivery_log_' || {when} AS name", number)[0]["name"]


@contextmanager
def somebody_reads_the_log():
    """Hold what a reader holds; it is ended if nobody gives up waiting for it."""
    with psycopg.connect(database_url(), options="-c idle_in_transaction_session_timeout=20s") as other:
        other.execute("SELECT count(*) FROM delivery_log")
        yield


def test_whole_months_are_dropped_once_they_ended_so_long_ago(months, sql):
    present, last, old, older = (month_ago(sql, number) for number in (0, 1, 5, 30))

    assert partitions.drop_expired(90) == 2

    assert {present, last} <= tables(sql).keys()
    assert not {old, older} & tables(sql).keys()
    assert DeliveryLogEntry.objects.filter(source="test").count() == 2
    assert partitions.drop_expired(90) == 0


def test_the_age_counts_from_the_end_of_the_month(months, sql):
    sql("SELECT make_delivery_log_partitions(0, '2024-02-10Z')")
    expired = "SELECT relname FROM expired_delivery_log_partitions(10, %s)"

    assert sql(expired, "2024-03-10 23:59:59Z") == []
    assert sql(expired, "2024-03-11 00:00:00Z") == [{"relname": "delivery_log_2024_02"}]


@pytest.mark.parametrize("now", ["2024-02-01Z", "2024-02-29 23:59:59Z"])
def test_the_present_month_is_never_dropped(months, sql, now):
    sql("SELECT make_delivery_log_partitions(0, %s)", now)

    assert sql("SELECT relname FROM expired_delivery_log_partitions(0, %s)", now) == []


@pytest.mark.parametrize(("days", "left"), [(None, True), (90, False), (36_000, True)])
def test_keeping_house_drops_by_the_setting(months, sql, settings, days, left):
    settings.QUEUES = {**settings.QUEUES, "DELIVERY_LOG_RETENTION_DAYS": days}
    old = month_ago(sql, 12)

    tasks.keep_house()

    assert (old in tables(sql)) is left


def test_what_an_end_between_detach_and_drop_left_is_dropped_by_the_next_call(months, sql):
    old = month_ago(sql, 12)
    sql("SELECT mark_delivery_log_partition(%s)", old)
    sql(f"ALTER TABLE delivery_log DETACH PARTITION {old} CONCURRENTLY")

    assert partitions.drop_expired(90) == 1
    assert old not in tables(sql)


def test_a_month_that_somebody_detached_to_keep_it_stays(months, sql):
    old = month_ago(sql, 12)
    sql(f"ALTER TABLE delivery_log DETACH PARTITION {old}")

    assert partitions.drop_expired(90) == 0
    assert tables(sql)[old] == "apart"


def test_a_reader_delays_the_drop_and_no_writer_waits_meanwhile(months, sql, monkeypatch):
    monkeypatch.setattr(partitions, "LOCK_SECONDS", 0.5)
    old = month_ago(sql, 12)
    written = threading.Event()

    def write():
        until_somebody_waits_for_a_lock()
        sql(A_ROW)
        written.set()

    with somebody_reads_the_log():
        assert at_once(lambda: partitions.drop_expired(90), write)[0] == 0
        assert written.is_set()
        assert tables(sql)[old] == "pending"

    assert partitions.drop_expired(90) == 1
    assert old not in tables(sql)


def test_those_who_drop_at_once_drop_everything_and_none_fails(months, sql):
    old = {month_ago(sql, number) for number in (6, 12, 18, 24)}

    dropped = at_once(*[lambda: partitions.drop_expired(90)] * 3)
    partitions.drop_expired(90)

    assert sum(dropped) >= 1
    assert not old & tables(sql).keys()


def test_those_who_make_months_at_once_make_each_once(months, sql):
    made = at_once(*[lambda: partitions.make_ahead(5)] * 3)
    partitions.make_ahead(5)

    assert sum(made) in range(1, 3)
    assert sorted(tables(sql).values()) == ["attached"] * 6


def test_making_a_month_does_not_wait_long_and_is_done_by_the_next_call(months, sql):
    function = "make_delivery_log_partitions(integer, timestamptz)"
    sql(f"ALTER FUNCTION {function} SET lock_timeout = '50ms'")
    try:
        with psycopg.connect(database_url()) as other:
            other.execute("LOCK delivery_log IN SHARE UPDATE EXCLUSIVE MODE")
            assert partitions.make_ahead(4) == 0
    finally:
        sql(f"ALTER FUNCTION {function} SET lock_timeout = '3s'")

    assert partitions.make_ahead(4) == 1


def test_an_outcome_is_recorded_without_its_month_and_logged_again_once_house_was_kept(months, handlers, sql):
    @handles("test.Fail")
    def fail(message):
        raise ValueError

    for name in tables(sql):
        sql(f"DROP TABLE {name}")

    first = send("test.Fail", 1).message_id
    drain()
    tasks.keep_house()
    second = send("test.Fail", 2).message_id
    drain()

    assert list(DeliveryLogEntry.objects.values_list("message_id", flat=True)) == [second]
    assert sql("SELECT attempts FROM wh_inbox WHERE message_id = %s", first) == [{"attempts": 1}]


@pytest.mark.parametrize("start", [
    lambda: call_command("migrate", verbosity=0),
    lambda: call_command("drain", "inbox", "--until-empty"),
    tasks.make_months,
], ids=["migrate", "drain", "worker"])  # fmt: skip
def test_each_start_makes_the_months(months, sql, start, monkeypatch):
    monkeypatch.setattr("signal.signal", lambda *_: None)
    for name in tables(sql):
        sql(f"DROP TABLE {name}")

    start()

    assert sorted(tables(sql).values()) == ["attached"] * 4
