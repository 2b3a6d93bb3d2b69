"""Which events a perspective is given: what is subscribed, known to this process and readable."""

import uuid

import pytest
from django.core.management import call_command

from deadletters.models import DeadLetter
from queues import append_event, handles, projects
from queues.models import PerspectiveEvent, PerspectiveSubscription, ServiceInstance
from queues.testing import drain
from queues.words.outcomes import Cause, OutcomeKind
from tests.db.projecting import PERSPECTIVES, effects, versions

pytestmark = pytest.mark.django_db


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
