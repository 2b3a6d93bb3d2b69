"""The schema: SQL files and migrations agree, everything is named, and all of it goes down and up again."""

import re
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import connection

from deadletters.models import AfterBudget, Disposition, RecoveryStatus
from deadletters.sql import KEPT
from deadletters.words import policies
from queues.sql import WORK_TABLES as WORK

ROOT = Path(__file__).parents[2]
SQL_FILES = sorted((*ROOT.glob("queues/sql/*.sql"), *ROOT.glob("deadletters/sql/*.sql")))
MIGRATIONS = sorted((*ROOT.glob("queues/migrations/0*.py"), *ROOT.glob("deadletters/migrations/0*.py")))
WORK_TABLES = ("wh_inbox", "wh_outbox", "wh_perspective_events")


def rows(statement, *arguments):
    with connection.cursor() as cursor:
        cursor.execute(statement, arguments)
        return cursor.fetchall()


@pytest.mark.parametrize("path", SQL_FILES, ids=lambda path: path.name)
def test_each_sql_file_is_run_by_exactly_one_migration(path):
    users = [m.name for m in MIGRATIONS if m.parts[-3] == path.parts[-3] and f"'{path.stem}'" in m.read_text()]

    assert len(users) == 1
    assert re.fullmatch(r"\w+_v\d+", path.stem)


def functions():
    return sorted(
        rows(
            "SELECT p.proname, pg_get_function_identity_arguments(p.oid) FROM pg_proc p"
            " JOIN pg_namespace n ON n.oid = p.pronamespace AND n.nspname = 'public' WHERE p.prolang <> 13"
        )
    )


def tables():
    return sorted(rows("SELECT tablename FROM pg_tables WHERE schemaname = 'public'"))


@pytest.mark.django_db(transaction=True)
def test_the_schema_goes_down_to_nothing_and_up_to_the_same():
    before = functions(), tables()
    try:
        call_command("migrate", "deadletters", "zero", verbosity=0)
        call_command("migrate", "queues", "zero", verbosity=0)
        left = [name for (name,) in tables() if name.startswith(("wh_", "dead_letter", "delivery_log"))]
        assert left == []
        assert [name for name, _ in functions() if "dead_letter" in name or "wh_" in name] == []
    finally:
        call_command("migrate", verbosity=0)

    assert (functions(), tables()) == before


@pytest.mark.django_db
@pytest.mark.parametrize("table", WORK_TABLES)
def test_no_index_of_a_work_table_names_what_a_claim_changes(table):
    for (definition,) in rows("SELECT indexdef FROM pg_indexes WHERE tablename = %s", table):
        assert not re.search(r"lease|instance_id|attempts|started|suspect|status|error|failure", definition)
    ((options,),) = rows("SELECT reloptions FROM pg_class WHERE relname = %s", table)
    assert "fillfactor=50" in options


@pytest.mark.django_db
@pytest.mark.parametrize("table", WORK_TABLES)
def test_a_snapshot_keeps_every_column_that_has_no_place_of_its_own(table):
    """A new column of a work table must be kept, or be named here with the place where it goes."""
    elsewhere = {
        WORK[table]["id"], "message_type", "event_data", "metadata", "envelope_raw", "envelope_bytes", "destination",
        "perspective_name", "error", "failure_detail",
    }  # fmt: skip
    columns = {
        name for (name,) in rows("SELECT column_name FROM information_schema.columns WHERE table_name = %s", table)
    }

    assert set(KEPT[table]) == columns - elsewhere


@pytest.mark.django_db
def test_a_claim_updates_rows_in_their_own_page():
    rows_before = 200
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO wh_inbox (message_id, message_type, event_data)"
            " SELECT gen_random_uuid(), 't', '{}' FROM generate_series(1, %s)",
            [rows_before],
        )
        cursor.execute(
            "SELECT count(*) FROM claim_wh_inbox('wh_inbox', gen_random_uuid(), gen_random_uuid(), 500, 50, '30 s')"
        )
        assert cursor.fetchone() == (rows_before,)
        cursor.execute("SELECT pg_stat_get_xact_tuples_hot_updated('wh_inbox'::regclass)")
        (in_place,) = cursor.fetchone()
    assert in_place > 0.75 * rows_before, "the lease makes a row larger, so a full page lets a few go elsewhere"


@pytest.mark.django_db
def test_the_log_has_partitions_three_months_ahead_and_no_default():
    found = rows(
        "SELECT pg_get_expr(c.relpartbound, c.oid) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
        " WHERE i.inhparent = 'delivery_log'::regclass"
    )

    assert len(found) >= 4
    assert not any("DEFAULT" in bound for (bound,) in found)
    assert rows("SELECT made, missing FROM make_delivery_log_partitions(3)") == [(0, 0)]


@pytest.mark.django_db
def test_a_writer_that_leaves_the_due_time_out_means_now():
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO wh_inbox (message_id, message_type, event_data, scheduled_for)"
            " VALUES (gen_random_uuid(), 't', '{}', NULL) RETURNING scheduled_for <= clock_timestamp()"
        )
        assert cursor.fetchone() == (True,)


@pytest.mark.django_db
@pytest.mark.parametrize("caps", ["0, NULL", "-2, NULL", "NULL, -2"])
def test_the_database_refuses_caps_that_mean_nothing(caps):
    from django.db import IntegrityError, transaction

    with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO wh_inbox (message_id, message_type, event_data, max_attempts, max_delays)"
            f" VALUES (gen_random_uuid(), 't', '{{}}', {caps})"
        )


@pytest.mark.django_db
@pytest.mark.parametrize("change", ["UPDATE operator_actions SET reason = 'x'", "DELETE FROM operator_actions"])
def test_the_database_refuses_to_change_the_audit(change):
    from django.db import DatabaseError, transaction

    from deadletters.store.audit import Actor, record

    record(actor=Actor(name="ann"), action="recover")
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(change)


@pytest.mark.django_db
def test_every_index_and_check_of_ours_has_a_name_that_somebody_chose():
    ours = "tablename !~ '^(auth|django|demo)_' AND schemaname = 'public'"
    made_up = rows(f"SELECT indexname FROM pg_indexes WHERE {ours} AND indexname ~ '_[0-9a-f]{{8}}(_|$)'")

    assert made_up == []


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("table", "ours"),
    [
        (RecoveryStatus, policies.Status),
        (Disposition, policies.Disposition),
        (AfterBudget, policies.AfterBudget),
    ],
)
def test_words_and_tables_know_the_same_values(table, ours):
    assert sorted(table.values) == sorted(ours)


@pytest.mark.parametrize("path", [*SQL_FILES, *ROOT.glob("*/store/*.py")], ids=lambda path: path.name)
def test_no_statement_of_ours_leaves_state_in_a_session(path):
    """Behind PgBouncer the next statement may come on another session, and the next client on this one."""
    text = re.sub(r"--.*", "", path.read_text())
    kept = r"pg_(try_)?advisory_lock|\bLISTEN\b|\bPREPARE\b|CREATE\s+TEMP|\bSET\s+SESSION\b|\bWITH\s+HOLD\b"

    assert not re.search(kept, text)
