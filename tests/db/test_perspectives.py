"""Perspectives: events applied in order, once, together with their cursor."""

from datetime import timedelta

import pytest
from django.db import connection

from deadletters.models import DeadLetter
from queues import append_event, projects
from queues.models import PerspectiveCursor, PerspectiveEvent
from queues.perspectives import subscribe
from queues.testing import drain
from queues.words.messages import stream_uuid
from queues.words.outcomes import OutcomeKind
from tests.db.projecting import PERSPECTIVES, UNREPRESENTABLE, cursor_of, effects, versions

pytestmark = pytest.mark.django_db


def test_a_projection_gets_the_event_exactly_with_its_stream_and_version(project):
    state = project()
    event = append_event("order-1", "test.Happened", UNREPRESENTABLE, headers={"trace": "t"})

    report = drain(PERSPECTIVES)

    assert report.counts == {OutcomeKind.SUCCESS: 1}
    (message,) = state["applied"]
    assert (message.id, message.type, message.payload) == (event.event_id, "test.Happened", UNREPRESENTABLE)
    assert message.headers == {"trace": "t"}
    assert (message.meta.stream, message.meta.stream_id) == ("order-1", stream_uuid("order-1"))
    assert (message.meta.version, message.meta.attempts, message.meta.source) == (1, 1, PERSPECTIVES)
    assert not PerspectiveEvent.objects.exists()


def test_the_cursor_says_what_was_applied_last(project):
    project()
    append_event("a", "test.Happened", 1)
    last = append_event("a", "test.Happened", 2)
    drain(PERSPECTIVES)

    cursor = cursor_of("a")
    assert (cursor.last_event_id, cursor.version) == (last.event_id, 2)


def test_a_failed_apply_leaves_neither_its_writes_nor_its_cursor(project, all_due):
    state = project()
    state["raises"][1] = ValueError("not yet")
    append_event("a", "test.Happened", 1)
    drain(PERSPECTIVES)

    assert effects() == []
    assert not PerspectiveCursor.objects.exists()
    assert PerspectiveEvent.objects.get().attempts == 1

    state["raises"].clear()
    all_due()
    drain(PERSPECTIVES)
    assert effects() == [1]
    assert cursor_of("a").version == 1


def test_an_event_that_the_cursor_has_reached_is_done_and_not_applied_again(project, sql):
    state = project()
    events = [append_event("a", "test.Happened", n).event_id for n in range(2)]
    drain(PERSPECTIVES)
    for event_id in events:
        sql(
            "INSERT INTO wh_perspective_events (event_work_id, stream_id, perspective_name, event_id)"
            " VALUES (gen_random_uuid(), %s, 'totals', %s)",
            stream_uuid("a"),
            event_id,
        )

    report = drain(PERSPECTIVES)

    assert report.counts == {OutcomeKind.SUCCESS: 2}
    assert versions(state) == [1, 2]
    assert effects() == [1, 2]
    assert not PerspectiveEvent.objects.exists()


def test_each_perspective_applies_each_stream_in_the_order_of_its_versions(project):
    states = [project("totals"), project("search")]
    for n in range(3):
        for stream in "ab":
            append_event(stream, "test.Happened", n)

    drain(PERSPECTIVES)

    for state in states:
        for stream in "ab":
            assert [m.meta.version for m in state["applied"] if m.meta.stream == stream] == [1, 2, 3]


def test_a_failing_event_keeps_its_stream_waiting_in_its_perspective_and_nothing_else(project, all_due):
    totals, search = project("totals"), project("search")
    totals["raises"][1] = ValueError("broken")
    for n in range(3):
        append_event("a", "test.Happened", n)

    drain(PERSPECTIVES)
    assert (versions(totals), versions(search)) == ([], [1, 2, 3])

    totals["raises"].clear()
    all_due()
    drain(PERSPECTIVES)
    assert versions(totals) == [1, 2, 3]


def test_no_perspective_starves_behind_the_backlog_of_another(project, settings):
    settings.QUEUES = {**settings.QUEUES, "CLAIM_BATCH": 2, "CLAIM_PER_STREAM": 2}
    order = []
    for name in ("big", "small"):
        projects(name, f"test.{name}")(lambda message: order.append(message.type))
    subscribe()
    for n in range(20):
        append_event(f"s{n}", "test.big", n)
    append_event("s", "test.small", 1)

    drain(PERSPECTIVES)

    assert len(order) == 21
    assert order.index("test.small") <= 2


def test_the_default_cap_of_a_perspective_is_ten_runs(project, all_due):
    runs = []

    @projects("totals", "test.Happened")
    def fail(message):
        runs.append(message.meta.attempts)
        raise ValueError

    subscribe()
    append_event("a", "test.Happened", 1)
    for _ in range(12):
        drain(PERSPECTIVES)
        all_due()

    assert runs == list(range(1, 11))
    assert DeadLetter.objects.get().attempts_when_dlq == 10


def test_the_longest_name_of_a_perspective_is_drained(project):
    name = "\N{SNOWMAN}" * 99 + ":"
    state = project(name)
    append_event("a", "test.Happened", 1)
    drain(PERSPECTIVES)

    assert versions(state) == [1]


def test_a_slow_perspective_leaves_the_others_streams_their_leases(project, sql):
    """Each perspective has a queue of its own: a stream that one of them holds is free for the other."""
    totals, search = project("totals"), project("search")
    append_event("a", "test.Happened", 1)
    with connection.cursor() as cursor:
        cursor.execute("SELECT admit_arrivals('wh_perspective_events:totals', 10)")
        cursor.execute(
            "SELECT message_id FROM claim_wh_perspective_events("
            "'wh_perspective_events:totals', gen_random_uuid(), gen_random_uuid(), 10, 10, %s)",
            [timedelta(hours=1)],
        )
        assert len(cursor.fetchall()) == 1
    drain(PERSPECTIVES)

    assert (versions(totals), versions(search)) == ([], [1])
