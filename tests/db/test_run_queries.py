"""Reads of runs: what the list, the page of a run and the page of a letter are made of."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from deadletters.models import FailureGroup, GroupFingerprint, ItemState, RecoveryItem, RunKind, RunState
from deadletters.queries import parts, runs
from deadletters.words.errors import NoSuchRun
from deadletters.words.filters import Cursor, ItemFilter, RunFilter
from tests.factories import NOON, a_letter, a_run

pytestmark = pytest.mark.django_db

STATES = [ItemState.RECOVERED, ItemState.FAILED_AGAIN, ItemState.SENT, ItemState.SKIPPED]


def test_runs_are_listed_newest_first_with_their_letters_by_state():
    old, new = a_run([a_letter()]), a_run([a_letter() for _ in range(5)], states=STATES)

    page = runs.page(RunFilter())

    assert [row.run.pk for row in page.rows] == [new.pk, old.pk]
    assert page.rows[0].totals == {
        "recovered": 1,
        "failed_again": 1,
        "sent": 1,
        "skipped": 1,
        "waiting": 1,
        "failed_differently": 0,
        "no_answer": 0,
    }
    assert page.next is None


def test_the_pages_of_the_list_show_every_run_once_at_equal_times_too():
    made = {a_run(created_at=NOON).pk for _ in range(30)}
    seen, filters = [], RunFilter(size=25)

    while filters is not None:
        page = runs.page(filters)
        seen += [row.run.pk for row in page.rows]
        filters = RunFilter(size=25, after=page.next) if page.next else None

    assert len(seen) == 30
    assert set(seen) == made


@pytest.mark.parametrize(
    "filters",
    [
        RunFilter(state="paused"),
        RunFilter(kind="replay"),
        RunFilter(actor="vera"),
        RunFilter(group="00000000-0000-0000-0000-000000000007"),
    ],
    ids=["state", "kind", "actor", "group"],
)
def test_a_filter_leaves_the_others_out(filters):
    wanted = {"state": RunState.PAUSED, "kind": RunKind.REPLAY, "actor": "vera", "group": filters.group_id}
    named = {("group_id" if name == "group" else name): wanted[name] for name, _ in filters.parts()}
    found = a_run(**named)
    a_run(group_id=uuid4())

    assert [row.run.pk for row in runs.page(filters).rows] == [found.pk]


def test_a_list_costs_the_same_however_many_runs_it_shows():
    def cost():
        with CaptureQueriesContext(connection) as queries:
            runs.page(RunFilter())
        return len(queries)

    a_run([a_letter()])
    before = cost()
    for _ in range(5):
        a_run([a_letter()])

    assert cost() == before == 3


def test_the_letters_of_a_run_are_shown_in_its_order_whatever_their_state():
    letters = [a_letter() for _ in range(30)]
    run = a_run(letters, states=STATES)
    a_run(letters)

    first = runs.items(run.pk, ItemFilter(size=25))
    second = runs.items(run.pk, ItemFilter(size=25, after=first.next))

    shown = [item.dead_letter_id for item in (*first.rows, *second.rows)]
    assert shown == [letter.pk for letter in letters]
    assert second.next is None


def test_the_letters_of_one_state_are_shown_alone():
    run = a_run([a_letter() for _ in range(6)], states=STATES)

    assert [item.place for item in runs.items(run.pk, ItemFilter(state="failed_again")).rows] == [1]


def test_why_letters_ended_is_counted():
    run = a_run([a_letter() for _ in range(4)], states=[ItemState.SKIPPED] * 3)
    RecoveryItem.objects.filter(place__in=[0, 1]).update(why="changed since frozen")
    RecoveryItem.objects.filter(place=2).update(why="is held by a person")

    assert runs.whys(run.pk) == [("skipped", "changed since frozen", 2), ("skipped", "is held by a person", 1)]


def test_when_somebody_else_recovered_each_makes_no_reasons_of_one():
    run = a_run([a_letter() for _ in range(3)], states=[ItemState.SKIPPED] * 3)
    for item in RecoveryItem.objects.all():
        item.why = f"was recovered already by vera at 2026-01-01 00:00:0{item.place} UTC"
        item.save(update_fields=["why"])

    assert runs.whys(run.pk) == [("skipped", "was recovered already by vera", 3)]


def test_letters_of_the_run_that_died_again_are_no_newcomers():
    letters = [a_letter(message_type="a.A") for _ in range(3)]
    run = a_run(letters[:2], scope={"filter": {"type": "a.A"}}, frozen_at=NOON - timedelta(days=1))

    assert runs.newcomers(run) == 1


def test_the_runs_of_a_letter_are_known_newest_first():
    letter = a_letter()
    first, second = a_run([letter, a_letter()]), a_run([letter])

    assert [item.run_id for item in parts.of(letter).items] == [second.pk, first.pk]
    assert parts.of(a_letter()).items == []


def test_there_is_no_such_run():
    with pytest.raises(NoSuchRun):
        runs.get(uuid4())


@pytest.mark.parametrize(
    ("read", "index"),
    [
        (lambda run: runs.page(RunFilter()), "recovery_runs_newest"),
        (lambda run: runs.page(RunFilter(after=Cursor(at=NOON, id=run.pk))), "recovery_runs_newest"),
        (lambda run: runs.page(RunFilter(group=str(uuid4()))), "recovery_runs_of_group"),
        (lambda run: runs.items(run.pk, ItemFilter()), "recovery_items_by_state"),
        (lambda run: runs.items(run.pk, ItemFilter(state="sent")), "recovery_items_by_state"),
        (lambda run: runs.totals(run.pk), "recovery_items_by_state"),
    ],
    ids=["list", "a later page", "of a group", "letters", "of a state", "totals"],
)
def test_reads_use_their_indexes(read, index):
    run = a_run([a_letter() for _ in range(3)])
    with connection.cursor() as cursor:
        for way in ("seqscan", "bitmapscan", "sort"):
            cursor.execute(f"SET LOCAL enable_{way} = off")

    with CaptureQueriesContext(connection) as queries:
        read(run)

    assert any(index in plan_of(query["sql"]) for query in queries)


def plan_of(sql):
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {sql}")
        return "\n".join(line for (line,) in cursor.fetchall())


def test_runs_on_letters_of_a_group_that_are_of_no_group_are_found_by_their_faults():
    group = FailureGroup.objects.create(group_id=uuid4(), title="Torn")
    GroupFingerprint.objects.create(fingerprint="0" * 16, version=2, group=group)
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO recovery_runs (run_id, kind, state, scope, plan, actor, created_at, finished_at, fingerprints)"
            " SELECT gen_random_uuid(), 'schedule', 'finished', '{}', '{}', 'schedule', now() - n * interval '1 min',"
            "        now(), ARRAY[lpad(to_hex(n), 16, '0')] FROM generate_series(1, 20000) n"
        )
        cursor.execute("SELECT gin_clean_pending_list('recovery_runs_of_fault')")  # as vacuum does
        cursor.execute("ANALYZE recovery_runs")
        limits = {"runs": runs.RUNS_OF_GROUP, "items": runs.OTHER_ITEMS, "fingerprints": 50, "group": group.pk}
        cursor.execute("EXPLAIN " + runs._OF_GROUP, limits)
        plan = "\n".join(line for (line,) in cursor.fetchall())

    assert "recovery_runs_of_fault" in plan
