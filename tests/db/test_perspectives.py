"""Perspectives: events applied in order, once, together with their cursor."""

import json
import uuid
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.db import connection

from deadletters.models import DeadLetter, RecoveryStatus
from deadletters.store.recovery import Sent, recover
from queues import Terminal, append_event, handles, projects, send
from queues.models import InboxMessage, PerspectiveCursor, PerspectiveEvent, PerspectiveSubscription, ServiceInstance
from queues.perspectives import subscribe
from queues.testing import drain
from queues.words.messages import stream_uuid
from queues.words.outcomes import Cause, OutcomeKind

pytestmark = pytest.mark.django_db
PERSPECTIVES = "wh_perspective_events"
UNREPRESENTABLE = {"text": "\x00 \ud800", "number": 10**400}


@pytest.fixture
def project(handlers):
    """Register a projection that notes what it applies, and raises what it is told to; subscribe it."""

    def register(name="totals", *event_types, **options):
        state = {"applied": [], "raises": {}}

        @projects(name, *(event_types or ("test.Happened",)), **options)
        def apply(message):
            send("test.Effect", {"perspective": name, "version": message.meta.version})
            if message.meta.version in state["raises"]:
                raise state["raises"][message.meta.version]
            state["applied"].append(message)

        subscribe()
        return state

    return register


@pytest.fixture
def all_due(sql):
    """Make every event due, as if its back-off were over."""

    def due():
        sql("UPDATE wh_perspective_events SET scheduled_for = now() - interval '1 second'")
        sql("UPDATE wh_streams SET due_at = now() - interval '1 second'")

    return due


def versions(state):
    return [message.meta.version for message in state["applied"]]


def effects():
    return [json.loads(message.event_data)["version"] for message in InboxMessage.objects.order_by("position")]


def cursor_of(stream, perspective="totals"):
    return PerspectiveCursor.objects.get(stream_id=stream_uuid(stream), perspective_name=perspective)


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


def test_a_dead_event_is_recovered_when_it_is_applied(project):
    state = project(max_attempts=1)
    state["raises"][1] = ValueError("broken")
    event = append_event("a", "test.Happened", UNREPRESENTABLE)
    drain(PERSPECTIVES)

    letter = DeadLetter.objects.get()
    assert (letter.source_table, letter.perspective_name, letter.message_type) == (
        PERSPECTIVES, "totals", "test.Happened",
    )  # fmt: skip
    assert letter.cause == Cause.BUDGET_SPENT
    assert json.loads(letter.envelope)["event_id"] == str(event.event_id)

    state["raises"].clear()
    assert recover(letter.dead_letter_id, "ann") is Sent.SENT
    letter.refresh_from_db()
    assert letter.recovery_status == RecoveryStatus.RECOVERING
    drain(PERSPECTIVES)

    letter.refresh_from_db()
    assert letter.recovery_status == RecoveryStatus.RECOVERED
    assert [(m.payload, m.meta.life, m.meta.attempts) for m in state["applied"]] == [(UNREPRESENTABLE, 2, 1)]
    assert cursor_of("a").version == 1


def test_a_dead_event_that_later_ones_have_passed_is_not_called_recovered(project):
    state = project(after_death="continue")
    state["raises"][1] = Terminal("broken")
    for n in range(3):
        append_event("a", "test.Happened", n)
    drain(PERSPECTIVES)
    letter = DeadLetter.objects.get()
    state["raises"].clear()
    recover(letter.dead_letter_id, "ann")
    drain(PERSPECTIVES)

    letter.refresh_from_db()
    assert (letter.recovery_status, letter.deaths) == (RecoveryStatus.PENDING, 2)
    assert "totals is at version 3 of the stream; version 1 cannot be applied any more" in letter.error_text
    assert versions(state) == [2, 3]


def append_and_pass(state, *, dead, count=4):
    """Append events of which some die, and let the perspective pass them; then let nothing die any more."""
    for version in dead:
        state["raises"][version] = Terminal("broken")
    for n in range(count):
        append_event("a", "test.Happened", n)
    drain(PERSPECTIVES)
    state["raises"].clear()


def recover_version(version):
    letters = DeadLetter.objects.all()
    (letter,) = [letter for letter in letters if json.loads(letter.envelope)["event_data"] == version - 1]
    assert recover(letter.dead_letter_id, "ann") == "sent"
    drain(PERSPECTIVES)
    letter.refresh_from_db()
    return letter.recovery_status


def test_a_commutative_projection_applies_an_event_late_and_its_cursor_stays(project):
    state = project(after_death="continue", commutative=True)
    append_and_pass(state, dead=[2])

    assert recover_version(2) == RecoveryStatus.RECOVERED

    assert versions(state) == [1, 3, 4, 2]
    assert PerspectiveCursor.objects.get().version == 4


def test_a_rewind_empties_the_projection_and_applies_all_but_the_dead_in_order(project):
    rewound = []
    state = project(after_death="continue", rewind=rewound.append)
    append_and_pass(state, dead=[1, 3])
    stream = PerspectiveCursor.objects.get().stream_id

    assert recover_version(3) == RecoveryStatus.RECOVERED
    assert (rewound, versions(state)) == ([stream], [2, 4, 2, 3, 4])

    assert recover_version(1) == RecoveryStatus.RECOVERED
    assert (rewound, versions(state)[-4:]) == ([stream, stream], [1, 2, 3, 4])
    assert PerspectiveCursor.objects.get().version == 4


def test_a_rewind_that_fails_leaves_the_projection_as_it_was(project):
    def refuse(stream_id):
        send("test.Effect", "emptied")
        raise Terminal("not empty")

    state = project(after_death="continue", rewind=refuse)
    append_and_pass(state, dead=[1])
    effects = InboxMessage.objects.count()

    assert recover_version(1) == RecoveryStatus.PENDING

    assert versions(state) == [2, 3, 4]
    assert InboxMessage.objects.count() == effects


def test_a_perspective_waits_behind_its_dead_event_unless_told_otherwise(project):
    state = project()
    append_and_pass(state, dead=[2])
    assert versions(state) == [1]

    assert recover_version(2) == RecoveryStatus.RECOVERED

    assert versions(state) == [1, 2, 3, 4]


def test_a_row_whose_event_is_missing_is_dead_as_unreadable_and_says_so(project, sql):
    project()
    event_id = uuid.uuid4()
    sql(
        "INSERT INTO wh_perspective_events (event_work_id, stream_id, perspective_name, event_id)"
        " VALUES (gen_random_uuid(), gen_random_uuid(), 'totals', %s)",
        event_id,
    )
    append_event("a", "test.Happened", 1)
    drain(PERSPECTIVES)

    letter = DeadLetter.objects.get()
    assert letter.cause == Cause.UNREADABLE
    assert letter.error_text == f"The event {event_id} is not in the event store."
    assert effects() == [1]


def test_an_event_that_cannot_be_read_is_dead_and_those_behind_it_are_applied_where_they_may(project, sql):
    state = project(after_death="continue")
    broken = append_event("a", "test.Happened", 1).event_id
    append_event("a", "test.Happened", 2)
    sql("UPDATE wh_event_store SET envelope_raw = %s WHERE event_id = %s", b"\xff{", broken)
    drain(PERSPECTIVES)

    assert DeadLetter.objects.get().cause == Cause.UNREADABLE
    assert versions(state) == [2]


def test_events_that_a_sql_writer_inserts_are_applied(project, sql):
    state = project()
    sql(
        "INSERT INTO wh_event_store (event_id, stream_id, event_type, event_data, version)"
        " SELECT gen_random_uuid(), '00000000-0000-0000-0000-00000000000a', 'test.Happened', to_jsonb(n), n"
        "   FROM generate_series(1, 3) AS n"
    )
    drain(PERSPECTIVES)

    assert [message.payload for message in state["applied"]] == [1, 2, 3]
    assert versions(state) == [1, 2, 3]


def test_a_perspective_that_this_process_does_not_know_waits(project):
    PerspectiveSubscription.objects.create(perspective_name="elsewhere", event_type="test.Happened")
    append_event("a", "test.Happened", 1)

    assert drain(PERSPECTIVES).messages == 0
    assert PerspectiveEvent.objects.get().attempts == 0


def test_a_type_that_only_a_newer_process_applies_waits_for_it(project, sql):
    PerspectiveSubscription.objects.create(perspective_name="totals", event_type="test.New")
    ServiceInstance.objects.create(
        instance_id=uuid.uuid4(),
        service_name="s",
        host_name="h",
        process_id=1,
        metadata={"types": [], "perspectives": {"totals": ["test.Happened", "test.New"]}},
    )
    state = project()
    append_event("a", "test.New", 1)

    assert drain(PERSPECTIVES).counts == {OutcomeKind.RELEASED: 1}
    assert PerspectiveEvent.objects.get().attempts == 0

    ServiceInstance.objects.update(last_heartbeat_at="2020-01-01T00:00:00Z")
    sql("UPDATE wh_perspective_events SET scheduled_for = now() - interval '1 second'")
    sql("UPDATE wh_streams SET due_at = now() - interval '1 second'")
    drain(PERSPECTIVES)
    letter = DeadLetter.objects.get()
    assert letter.cause == Cause.NO_HANDLER
    assert letter.error_text == "No live worker applies events of type test.New to the perspective totals."
    assert versions(state) == []


def test_the_longest_name_of_a_perspective_is_drained(project):
    name = "\N{SNOWMAN}" * 99 + ":"
    state = project(name)
    append_event("a", "test.Happened", 1)
    drain(PERSPECTIVES)

    assert versions(state) == [1]


def subscriptions():
    return set(PerspectiveSubscription.objects.values_list("perspective_name", "event_type"))


def test_subscriptions_are_added_when_a_drain_starts_and_never_removed(handlers):
    PerspectiveSubscription.objects.create(perspective_name="old", event_type="test.Old")
    projects("totals", "test.A", "test.B")(lambda message: None)
    drain(PERSPECTIVES)
    drain(PERSPECTIVES)

    assert {("old", "test.Old"), ("totals", "test.A"), ("totals", "test.B")} <= subscriptions()
    assert PerspectiveSubscription.objects.filter(perspective_name="totals").count() == 2


def test_subscriptions_are_added_after_migrations(handlers):
    projects("search", "test.A")(lambda message: None)
    call_command("migrate", verbosity=0)

    assert ("search", "test.A") in subscriptions()


def test_the_inbox_handler_of_a_type_is_not_its_projection(project):
    state = project()
    handled = []
    handles("test.Happened")(lambda message: handled.append(message.payload))
    append_event("a", "test.Happened", 1)
    drain()
    drain(PERSPECTIVES)

    assert (handled, versions(state)) == ([], [1])


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
