"""The outbox: published through a transport, with the inbox's guarantees."""

import json
import uuid
from datetime import timedelta

import pytest
from django.db import transaction

from deadletters.models import DeadLetter, RecoveryStatus
from deadletters.store.recovery import Sent, recover
from queues import InvalidMessage, handles, publish
from queues.conf import conf
from queues.models import DeliveryLogEntry, InboxMessage, OutboxMessage
from queues.testing import drain
from queues.transports.inbox import InboxTransport
from queues.transports.routes import transport_to
from queues.words.errors import InvalidSetting
from queues.words.outcomes import Cause, OutcomeKind

OUTBOX = "wh_outbox"
UNREPRESENTABLE = {"text": "\x00 \ud800", "number": 10**400}


@pytest.fixture(autouse=True)
def routes(settings):
    """Route two destinations to the inbox; return what changes the routes."""

    def set_routes(given):
        settings.QUEUES = {**settings.QUEUES, "ROUTES": given}

    set_routes({"orders": "inbox", "billing.*": "inbox"})
    return set_routes


@pytest.fixture
def broken_transport(monkeypatch):
    """Let publishing fail until the returned switch says that it works."""
    state = {"works": False, "tried": []}
    works = InboxTransport.publish

    def publish_or_fail(self, message):
        state["tried"].append(message.message_id)
        if not state["works"]:
            raise ConnectionError("the other side is away")
        works(self, message)

    monkeypatch.setattr(InboxTransport, "publish", publish_or_fail)
    return state


def outbox_due(sql):
    sql("UPDATE wh_outbox SET scheduled_for = now() - interval '1 second'")
    sql("UPDATE wh_streams SET due_at = now() - interval '1 second'")


@pytest.mark.django_db
def test_a_published_message_arrives_in_the_inbox_and_leaves_the_outbox():
    receipt = publish(
        "test.Paid", {"a": 1}, destination="billing.eu", headers={"trace": "t1"}, stream="order-1", max_attempts=3
    )

    report = drain(OUTBOX)

    assert report.counts == {OutcomeKind.SUCCESS: 1}
    assert not OutboxMessage.objects.exists()
    arrived = InboxMessage.objects.get()
    assert (arrived.message_id, arrived.message_type, arrived.max_attempts) == (receipt.message_id, "test.Paid", None)
    assert json.loads(arrived.metadata) == {
        "stream": "order-1",
        "headers": {
            "trace": "t1",
            "ce-id": str(receipt.message_id),
            "ce-type": "test.Paid",
            "ce-source": conf().service,
        },
    }


@pytest.mark.django_db
def test_a_handler_gets_what_was_published_exactly(handlers):
    got = []
    handles("test.Paid")(lambda message: got.append(message))
    publish("test.Paid", UNREPRESENTABLE, destination="orders", stream="s")
    drain(OUTBOX)
    drain()

    (message,) = got
    assert message.payload == UNREPRESENTABLE
    assert message.meta.stream == "s"


@pytest.mark.django_db
def test_headers_that_a_message_brings_are_not_overwritten():
    publish("test.Paid", 1, destination="orders", headers={"ce-source": "elsewhere"})
    drain(OUTBOX)

    assert json.loads(InboxMessage.objects.get().metadata)["headers"]["ce-source"] == "elsewhere"


@pytest.mark.django_db
def test_an_id_that_waits_is_stored_once():
    message_id = uuid.uuid4()

    receipts = [publish("test.Paid", 1, destination="orders", message_id=message_id) for _ in range(2)]

    assert [(receipt.message_id, receipt.is_new) for receipt in receipts] == [(message_id, True), (message_id, False)]
    assert OutboxMessage.objects.count() == 1


@pytest.mark.django_db
def test_an_id_that_was_handled_is_not_received_again(handlers):
    got = []
    handles("test.Paid")(lambda message: got.append(message.id))
    message_id = uuid.uuid4()
    for _ in range(2):
        publish("test.Paid", 1, destination="orders", message_id=message_id)
        drain(OUTBOX)
        drain()

    assert got == [message_id]
    assert not OutboxMessage.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_rollback_publishes_nothing():
    def fails():
        publish("test.Paid", 1, destination="orders")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        transaction.atomic(fails)()

    assert not OutboxMessage.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_commit_wakes_the_outbox_and_its_drain_wakes_the_inbox(monkeypatch):
    woken = []
    monkeypatch.setattr("queues.wakeups.send", lambda wakeup: woken.extend(wakeup.args))
    publish("test.Paid", 1, destination="orders")
    drain(OUTBOX)

    assert woken == [OUTBOX, "wh_inbox"]


@pytest.mark.django_db
@pytest.mark.parametrize("destination", ["", "x" * 501, None, 7, "a\x00b"])
def test_a_destination_that_cannot_be_stored_is_refused(destination):
    with pytest.raises(InvalidMessage, match="destination"):
        publish("test.Paid", 1, destination=destination)


@pytest.mark.django_db
def test_a_message_is_not_published_before_it_is_due():
    publish("test.Paid", 1, destination="orders", delay=timedelta(hours=1))
    drain(OUTBOX)

    assert OutboxMessage.objects.count() == 1
    assert not InboxMessage.objects.exists()


@pytest.mark.django_db
def test_a_destination_without_a_route_fails_waits_and_dies_by_its_budget(sql):
    message_id = publish("test.Paid", 1, destination="nowhere", max_attempts=2).message_id
    drain(OUTBOX)

    row = OutboxMessage.objects.get()
    assert row.attempts == 1
    assert row.scheduled_for > row.created_at + timedelta(seconds=2)
    assert 'no transport publishes to the destination "nowhere"' in row.error

    outbox_due(sql)
    drain(OUTBOX)
    letter = DeadLetter.objects.get()
    assert (letter.source_table, letter.source_id, letter.destination) == (OUTBOX, message_id, "nowhere")
    assert (letter.cause, letter.attempts_when_dlq) == (Cause.BUDGET_SPENT, 2)
    assert not InboxMessage.objects.exists()


@pytest.mark.django_db
def test_the_default_cap_of_the_outbox_is_ten_runs(broken_transport, sql):
    publish("test.Paid", 1, destination="orders")
    for _ in range(12):
        drain(OUTBOX)
        outbox_due(sql)

    assert len(broken_transport["tried"]) == 10
    assert DeadLetter.objects.get().attempts_when_dlq == 10


@pytest.mark.django_db
def test_a_dead_letter_of_the_outbox_is_recovered_when_it_is_published(broken_transport, handlers):
    got = []
    handles("test.Paid")(lambda message: got.append(message.payload))
    publish("test.Paid", UNREPRESENTABLE, destination="orders", stream="s", max_attempts=1)
    drain(OUTBOX)
    letter = DeadLetter.objects.get()
    assert (letter.destination, letter.message_type) == ("orders", "test.Paid")

    broken_transport["works"] = True
    assert recover(letter.dead_letter_id, "ann") is Sent.SENT
    letter.refresh_from_db()
    assert letter.recovery_status == RecoveryStatus.RECOVERING
    drain(OUTBOX)
    drain()

    letter.refresh_from_db()
    assert letter.recovery_status == RecoveryStatus.RECOVERED
    assert got == [UNREPRESENTABLE]
    logged = DeliveryLogEntry.objects.filter(source=OUTBOX).order_by("id")
    assert list(logged.values_list("life", "outcome")) == [(1, "failure"), (2, "success")]


@pytest.mark.django_db
def test_a_stream_is_published_in_order_and_a_failing_head_keeps_it_waiting(broken_transport, sql):
    ids = [publish("test.Paid", n, destination="orders", stream="s").message_id for n in range(3)]
    other = publish("test.Paid", 9, destination="orders", stream="other").message_id
    drain(OUTBOX)

    assert set(broken_transport["tried"]) == {ids[0], other}
    broken_transport["works"] = True
    outbox_due(sql)
    drain(OUTBOX)

    arrived = InboxMessage.objects.exclude(message_id=other).order_by("position")
    assert [message.message_id for message in arrived] == ids


@pytest.mark.django_db
def test_a_failing_message_keeps_nothing_of_its_own_and_its_neighbours_arrive(monkeypatch):
    works = InboxTransport.publish

    def store_and_fail(self, message):
        works(self, message)
        if message.message_type == "test.Bad":
            raise ValueError

    monkeypatch.setattr(InboxTransport, "publish", store_and_fail)
    for kind in ("Good", "Bad", "Good"):
        publish(f"test.{kind}", 1, destination="orders")
    drain(OUTBOX)

    assert set(InboxMessage.objects.values_list("message_type", flat=True)) == {"test.Good"}
    assert OutboxMessage.objects.get().message_type == "test.Bad"


@pytest.mark.django_db
def test_a_row_that_a_sql_writer_inserts_is_published(sql):
    sql(
        "INSERT INTO wh_outbox (message_id, message_type, event_data, destination, stream_id)"
        " VALUES (gen_random_uuid(), 'test.Paid', '{\"a\": 1}', 'orders', gen_random_uuid()),"
        "        (gen_random_uuid(), 'test.Lost', '1', NULL, NULL)"
    )
    drain(OUTBOX)

    assert json.loads(InboxMessage.objects.get().event_data) == {"a": 1}
    assert "has no destination" in OutboxMessage.objects.get().error


def test_a_destination_itself_wins_over_patterns_and_the_longest_pattern_over_others(routes):
    routes({name: {"transport": "kombu", "queue": name} for name in ("*", "billing.*", "billing.eu")})

    found = [transport_to(name).queue for name in ("orders", "billing.us", "billing.eu")]
    assert found == ["*", "billing.*", "billing.eu"]


@pytest.mark.parametrize(
    "given",
    [
        {"orders": "pigeon"},
        {"": "inbox"},
        {7: "inbox"},
        ["orders"],
        {"orders": []},
        {"orders": {"url": "redis://"}},
        {"orders": {"transport": "inbox", "url": "redis://"}},
        {"orders": {"transport": "kombu", "url": "http://ann:hunter2@host/"}},
        {"orders": {"transport": "kombu", "url": 7}},
        {"orders": {"transport": "kombu", "queue": ""}},
        {"orders": {"transport": "kombu", "exchange": "x"}},
        {"orders": {"transport": "pigeon", "url": "amqp://ann:hunter2@host/"}},
    ],
)
def test_routes_that_cannot_be_used_stop_the_start(routes, given):
    routes(given)

    with pytest.raises(InvalidSetting, match="ROUTES") as refused:
        conf()
    assert "hunter2" not in str(refused.value)


@pytest.mark.django_db
def test_scope_kind_and_flags_of_a_row_cross_to_the_inbox(sql):
    sql(
        "INSERT INTO wh_outbox (message_id, message_type, event_data, destination, scope, is_event, flags)"
        " VALUES (gen_random_uuid(), 'test.Paid', '1', 'orders', '{\"tenant\": 7}', true, 5)"
    )
    drain(OUTBOX)

    row = InboxMessage.objects.get()
    assert (json.loads(row.scope), row.is_event, row.flags) == ({"tenant": 7}, True, 5)


@pytest.mark.django_db
def test_a_cap_of_delays_is_stored_with_the_message():
    publish("test.Paid", 1, destination="orders", max_delays=7)

    assert OutboxMessage.objects.get().max_delays == 7
