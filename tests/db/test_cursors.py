"""Cursors of perspectives: moved once for each group, and never past what somebody else has applied."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from queues import append_event, projects, send
from queues.drainer import batch
from queues.models import PerspectiveCursor, PerspectiveEvent
from queues.perspectives import subscribe
from queues.testing import drain
from queues.words.messages import stream_uuid
from tests.db.conftest import at_once
from tests.db.projecting import PERSPECTIVES, cursor_of, effects, versions


@pytest.fixture(autouse=True)
def one_group(configure, monkeypatch):
    """All that is due shares a commit, however long a run takes."""
    configure(GROUP_MS=5_000)
    monkeypatch.setattr(batch, "is_slow", lambda kind: False)


@pytest.mark.django_db
def test_a_group_moves_all_its_cursors_by_one_statement_and_needs_no_savepoint(handlers):
    projects("totals", "test.Happened")(lambda message: None)
    subscribe()
    for number in range(20):
        append_event(f"s{number % 2}", "test.Happened", number)

    with CaptureQueriesContext(connection) as sent:
        assert drain(PERSPECTIVES).messages == 20

    statements = [query["sql"] for query in sent]
    assert len([sql for sql in statements if "move_cursors" in sql]) == 1
    assert not [sql for sql in statements if "SAVEPOINT queues_run" in sql]
    assert [cursor_of(stream).version for stream in ("s0", "s1")] == [10, 10]


@pytest.mark.django_db
def test_an_event_that_comes_after_a_later_one_in_its_group_is_not_applied(project, sql):
    state = project()
    for number in range(2):
        append_event("a", "test.Happened", number)
    sql("UPDATE wh_perspective_events SET position = -position")

    report = drain(PERSPECTIVES)

    assert report.messages == 2
    assert versions(state) == [2]
    assert cursor_of("a").version == 2


@pytest.mark.django_db
def test_a_run_that_fails_leaves_the_cursor_at_the_last_one_that_succeeded(project, all_due):
    state = project(after_death="continue")
    state["raises"][2] = ValueError("not yet")
    for number in range(3):
        append_event("a", "test.Happened", number)
    drain(PERSPECTIVES)

    assert (versions(state), cursor_of("a").version) == ([1], 1)
    state["raises"].clear()
    all_due()
    drain(PERSPECTIVES)
    assert (versions(state), cursor_of("a").version) == ([1, 2, 3], 3)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("applied_before", [0, 1])
def test_what_somebody_else_applies_meanwhile_is_undone_here_and_the_rest_is_applied_once(handlers, applied_before):
    moved = []

    def move():
        cursors = PerspectiveCursor.objects.filter(stream_id=stream_uuid("a"), perspective_name="totals")
        if not cursors.update(version=applied_before + 1):
            cursors.create(stream_id=stream_uuid("a"), perspective_name="totals", version=1)
        moved.append(applied_before + 1)

    @projects("totals", "test.Happened")
    def apply(message):
        send("test.Effect", {"version": message.meta.version})
        if message.meta.version > applied_before and not moved:
            at_once(move)

    subscribe()
    for number in range(applied_before):
        append_event("a", "test.Happened", number)
    drain(PERSPECTIVES)
    for number in range(3):
        append_event("a", "test.Happened", number)
    drain(PERSPECTIVES)

    own = [version for version in range(1, applied_before + 4) if version not in moved]
    assert len(moved) == 1
    assert effects() == own
    assert cursor_of("a").version == applied_before + 3
    assert not PerspectiveEvent.objects.exists()
