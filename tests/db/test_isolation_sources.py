"""Runs that share a commit, whichever source they come from: each pays for itself alone, and none keeps another."""

from collections import deque
from contextlib import suppress

import psycopg
import pytest
from django.db import DataError, IntegrityError, connection, transaction

from deadletters.models import DeadLetter
from queues.drainer import speed
from queues.models import DeliveryLogEntry, PerspectiveSubscription
from tests.db.conftest import at_once
from tests.db.sources import TYPE

pytestmark = pytest.mark.django_db(transaction=True)
BAD = 3


@pytest.fixture
def neighbours(work, sql, effects):
    """Let messages 0 to 5 write an effect each and share commits; return what makes the one in the middle misbehave.

    Returns the bad message's row, with its id, or None after so many drains.
    """
    ids = [work.put(n) for n in range(6)]

    def drained(misbehave, drains=1):
        def write(run):
            sql("INSERT INTO test_effects (payload) VALUES (%s)", str(run.payload))
            if run.payload == BAD:
                misbehave()

        work.does = write
        for _ in range(drains):
            work.drain()
        assert [row[work.key] for row in work.rows()] in ([], [ids[BAD]]), "the others are done"
        row = work.row(ids[BAD])
        return row and {**row, "id": ids[BAD]}

    return drained


def of_the_others():
    return [str(n) for n in range(6) if n != BAD]


def swallowed_save():
    """Django marks the transaction of a failed save() as to be rolled back."""
    with suppress(IntegrityError):
        for _ in range(2):
            PerspectiveSubscription(perspective_name="p", event_type="t").save(force_insert=True)


def swallowed_in_sql():
    with suppress(DataError), connection.cursor() as cursor:
        cursor.execute("SELECT 1/0")


def swallowed_by_psycopg():
    with suppress(psycopg.Error):
        connection.connection.execute("SELECT 1/0")


def marked_for_rollback():
    transaction.set_rollback(True)


def committed_in_sql():
    with connection.cursor() as cursor:
        cursor.execute("COMMIT")


def durable():
    with transaction.atomic(durable=True):
        pass


def another_isolation():
    with connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")


def left_open():
    transaction.atomic().__enter__()


@pytest.mark.parametrize(
    "misbehave",
    [
        swallowed_save,
        swallowed_in_sql,
        swallowed_by_psycopg,
        committed_in_sql,
        durable,
        another_isolation,
        marked_for_rollback,
        left_open,
    ],
)
def test_what_breaks_the_shared_transaction_fails_its_own_message_only(neighbours, effects, misbehave):
    row = neighbours(misbehave)

    assert sorted(effects()) == of_the_others()
    assert (row["attempts"], row["lease_token"]) == (1, None)
    assert row["error"]


@pytest.mark.parametrize("statement", ["COMMIT", "ROLLBACK"])
def test_a_transaction_that_is_ended_behind_djangos_back_costs_nobody_else_an_attempt(neighbours, effects, statement):
    """Raw psycopg passes the guard by. Those that were not recorded are given back, and run with the next claim."""
    row = neighbours(lambda: connection.connection.execute(statement), drains=2)

    assert (row["attempts"], row["lease_token"]) == (1, None)
    assert set(of_the_others()) <= set(effects())
    assert list(DeliveryLogEntry.objects.values_list("message_id", "outcome")) == [(row["id"], "failure")]


def test_a_failed_runs_writes_and_callbacks_go_with_it_and_its_neighbours_stay(neighbours, effects):
    called = []

    def fail_with_a_callback():
        transaction.on_commit(lambda: called.append("bad"))
        raise ValueError

    neighbours(fail_with_a_callback)

    assert called == []
    assert sorted(effects()) == of_the_others()


def test_a_callback_that_raises_fails_nobody_and_keeps_no_other_from_running(work, sql):
    called = []

    def call_back(run):
        def callback():
            if run.payload == 1:
                raise SystemExit(3)
            called.append(run.payload)

        transaction.on_commit(callback)

    work.does = call_back
    for n in range(4):
        work.put(n)
    report = work.drain()

    assert called == [0, 2, 3]
    assert report.counts == {"success": 4}
    assert not DeliveryLogEntry.objects.exists()


@pytest.mark.parametrize(
    "statement",
    [
        "SET LOCAL test.tenant = '7'",
        "SET test.tenant = '7'",
        "SELECT set_config('test.tenant', '7', true)",
        "SELECT set_config('test.tenant', '7', false)",
    ],
)
def test_what_a_run_sets_is_not_seen_by_any_other(work, sql, statement):
    """A tenant that one message chose must not be the next one's."""
    seen = {}

    def look_and_set(run):
        (row,) = sql("SELECT coalesce(current_setting('test.tenant', true), '') AS tenant")
        seen[run.payload] = row["tenant"]
        if run.payload == BAD:
            sql(statement)

    work.does = look_and_set
    for n in range(6):
        work.put(n)
    work.drain()

    assert seen == dict.fromkeys(range(6), "")
    assert work.rows() == []


@pytest.mark.parametrize("statement", ["SET LOCAL statement_timeout = '1ms'", "SET search_path = nowhere"])
def test_what_a_run_sets_against_itself_costs_no_neighbour_an_attempt(neighbours, effects, sql, statement):
    row = neighbours(lambda: sql(statement))

    assert set(of_the_others()) <= set(effects())
    guilty = {row["id"]} if row else set()
    assert set(DeliveryLogEntry.objects.values_list("message_id", flat=True)) <= guilty


def test_a_deferred_constraint_is_found_out_in_its_own_run(work, sql):
    sql(
        "CREATE TABLE test_parent (id int PRIMARY KEY); INSERT INTO test_parent VALUES (0);"
        "CREATE TABLE test_child (id int REFERENCES test_parent DEFERRABLE INITIALLY DEFERRED)"
    )
    try:
        work.does = lambda run: sql("INSERT INTO test_child VALUES (%s)", run.payload)
        ids = [work.put(n) for n in (0, 1, 0)]
        work.drain()

        assert work.ran == [0, 1, 0], "its neighbours do not run again"
        assert [row[work.key] for row in work.rows()] == [ids[1]]
        assert sql("SELECT id FROM test_child") == [{"id": 0}, {"id": 0}]
    finally:
        sql("DROP TABLE test_child, test_parent")


@pytest.fixture
def refused_at_commit(work, sql):
    """Let the database refuse, at the commit and twice, that a message leaves its table; return what asks for that."""

    def refuse(work_id, code, times=2):
        sql("CREATE SEQUENCE test_times")
        sql(
            "CREATE FUNCTION test_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            f" IF nextval('test_times') <= {times} THEN RAISE EXCEPTION 'refused' USING ERRCODE = '{code}'; END IF;"
            " RETURN NULL; END $$"
        )
        sql(
            f"CREATE CONSTRAINT TRIGGER test_refuse AFTER DELETE ON {work.source} DEFERRABLE INITIALLY DEFERRED"
            f" FOR EACH ROW WHEN (OLD.{work.key} = '{work_id}') EXECUTE FUNCTION test_refuse()"
        )

    yield refuse
    sql("DROP FUNCTION IF EXISTS test_refuse CASCADE; DROP SEQUENCE IF EXISTS test_times")


@pytest.mark.parametrize(("code", "outcome", "used"), [("23514", "failure", 1), ("40P01", "released", 0)])
def test_a_group_that_fails_at_commit_runs_again_one_by_one_and_only_the_guilty_one_is_charged(
    work, sql, effects, refused_at_commit, code, outcome, used
):
    ids = [work.put(n) for n in range(6)]
    refused_at_commit(ids[BAD], code)
    charges = []

    def write(run):
        charges.extend(row["attempts"] - row["releases"] for row in work.rows(ids[BAD]))
        sql("INSERT INTO test_effects (payload) VALUES (%s)", str(run.payload))

    work.does = write
    work.drain_for(2)

    assert sorted(effects()) == [str(n) for n in range(6)]
    assert work.rows() == []
    assert list(DeliveryLogEntry.objects.values_list("message_id", "outcome")) == [(ids[BAD], outcome)]
    assert charges[-1] == used


@pytest.mark.parametrize("code", ["40P01", "40001"])
def test_a_run_that_the_database_ended_for_another_one_is_released_and_not_charged(work, configure, sql, code):
    def chosen(run):
        if run.number <= 2:
            sql(f"DO $$ BEGIN RAISE EXCEPTION 'deadlock' USING ERRCODE = '{code}'; END $$")

    configure(MAX_ATTEMPTS=1)
    work.does = chosen
    work_id = work.put()
    work.drain()
    row = work.row(work_id)
    work.drain_for(2)

    assert row["attempts"] - row["releases"] == 0
    assert row["waits"] > 0, "one that is always chosen must not spin"
    assert len(work.runs) == 3
    assert work.rows() == []
    assert not DeadLetter.objects.exists()
    assert list(DeliveryLogEntry.objects.values_list("outcome", flat=True)) == ["released"] * 2


@pytest.mark.parametrize("milliseconds", [0, 10_000], ids=["quick", "slow"])
def test_what_ran_is_committed_before_a_run_that_may_be_slow_and_not_before_a_quick_one(
    work, sql, effects, configure, monkeypatch, milliseconds
):
    configure(GROUP_MS=5_000)  # what really runs here is quick, however busy the machine is
    message_type = work.queue.perspective or TYPE
    monkeypatch.setattr(speed, "_durations", {(work.queue, message_type): deque([milliseconds] * 20)})
    seen = []

    def write(run):
        seen.append(at_once(effects)[0])
        sql("INSERT INTO test_effects (payload) VALUES (%s)", str(run.payload))

    work.does = write
    for n in range(3):
        work.put(n)
    work.drain()

    together, apart = [[], [], []], [[], ["0"], ["0", "1"]]
    assert seen == (apart if milliseconds else together)
