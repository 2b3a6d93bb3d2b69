"""Circuits of destinations: one that is away costs no attempts, and its messages wait."""

from datetime import timedelta

import pytest

from deadletters.models import DeadLetter
from queues import circuits, publish
from queues.models import DeliveryLogEntry, Destination, InboxMessage, OutboxMessage
from queues.store.circuits import Note, note
from queues.testing import drain
from queues.transports.inbox import InboxTransport
from queues.words.errors import NotReady
from queues.words.outcomes import FailureReason
from tests.db.conftest import at_once

OUTBOX = "wh_outbox"


@pytest.fixture(autouse=True)
def routes(settings):
    """Route two destinations to a transport that tests break, and forget what other tests noted."""
    settings.QUEUES = {**settings.QUEUES, "ROUTES": {"bank": "inbox", "shop": "inbox"}}
    circuits._notes.clear()
    circuits._away_until.clear()
    yield
    circuits._notes.clear()
    circuits._away_until.clear()


@pytest.fixture
def away(monkeypatch):
    """Return what is away, by destination; `tried` lists what was really tried."""
    works = InboxTransport.publish
    state = {"tried": []}

    def publish_if_there(self, message):
        state["tried"].append(message.destination)
        if message.destination in state:
            raise state[message.destination]
        works(self, message)

    monkeypatch.setattr(InboxTransport, "publish", publish_if_there)
    return state


def outbox_due(sql):
    sql("UPDATE wh_outbox SET scheduled_for = now() - interval '1 second'")


def circuit_is_due(sql):
    """Let the time of the open circuits be over, in the database and in this process."""
    sql("UPDATE destination_circuits SET retry_at = now() - interval '1 second' WHERE state <> 'closed'")
    circuits._away_until.clear()


def noted(failures, *, name="bank", wait=timedelta(0), error="away"):
    return note(
        [Note(destination=name, failures=failures, wait=wait, error=error)],
        failures_to_open=3,
        base=timedelta(seconds=5),
        factor=2,
        cap=timedelta(seconds=300),
    )


def retry_in(sql):
    ((row,),) = [sql("SELECT extract(epoch FROM retry_at - changed_at)::float8 AS wait FROM destination_circuits")]
    return row["wait"]


@pytest.mark.django_db
def test_a_destination_that_is_not_ready_costs_no_attempt_however_often(away, sql):
    away["bank"] = NotReady("connection refused")
    publish("test.Paid", 1, destination="bank", max_attempts=1)
    for _ in range(12):
        drain(OUTBOX)
        outbox_due(sql)
        circuit_is_due(sql)

    row = OutboxMessage.objects.get()
    assert row.attempts - row.delays - row.releases == 0
    assert row.error is None
    assert not DeadLetter.objects.exists()
    assert set(DeliveryLogEntry.objects.values_list("outcome", flat=True)) == {"released"}


@pytest.mark.django_db
def test_its_messages_wait_in_order_and_arrive_when_it_is_back(away, sql):
    away["bank"] = NotReady("connection refused")
    ids = [publish("test.Paid", n, destination="bank", stream="s").message_id for n in range(3)]
    drain(OUTBOX)
    assert OutboxMessage.objects.filter(attempts__gt=0).count() == 1, "the head alone was tried"

    del away["bank"]
    sql("UPDATE wh_outbox SET scheduled_for = now() - interval '1 second'")
    sql("UPDATE wh_streams SET due_at = now() - interval '1 second'")
    circuit_is_due(sql)
    drain(OUTBOX)

    assert list(InboxMessage.objects.order_by("position").values_list("message_id", flat=True)) == ids
    assert not Destination.objects.exclude(state="closed").exists()


@pytest.mark.django_db
def test_failures_in_a_row_open_the_circuit_and_the_rest_of_the_batch_is_not_tried(away):
    away["bank"] = NotReady("connection refused")
    for n in range(10):
        publish("test.Paid", n, destination="bank")
        publish("test.Paid", n, destination="shop")
    drain(OUTBOX)

    assert away["tried"].count("bank") == 3
    circuit = Destination.objects.get()
    assert (circuit.name, circuit.state, circuit.failures) == ("bank", "open", 3)
    assert "connection refused" in circuit.last_error
    assert OutboxMessage.objects.filter(destination="bank").count() == 10
    assert InboxMessage.objects.count() == 10, "the other destination's messages arrived"


@pytest.mark.django_db
def test_while_a_circuit_is_open_nothing_is_tried_and_then_one_message(away, sql):
    away["bank"] = NotReady("connection refused")
    noted(3)
    for n in range(10):
        publish("test.Paid", n, destination="bank")
    drain(OUTBOX)
    assert away["tried"] == []

    circuit_is_due(sql)
    drain(OUTBOX)
    assert away["tried"] == ["bank"]
    assert Destination.objects.get().state == "open"
    assert retry_in(sql) == 10

    del away["bank"]
    circuit_is_due(sql)
    outbox_due(sql)
    drain(OUTBOX)
    assert InboxMessage.objects.count() == 10, "the trial let the others through, in the same drain"
    assert not OutboxMessage.objects.exists()


@pytest.mark.django_db
def test_a_destination_that_works_is_not_written_about(away):
    publish("test.Paid", 1, destination="shop")
    drain(OUTBOX)

    assert not Destination.objects.exists()


@pytest.mark.django_db
def test_an_answer_that_is_a_failure_charges_the_message_and_closes_the_circuit(away, sql):
    noted(3)
    away["bank"] = ValueError("no such account")
    publish("test.Paid", 1, destination="bank")
    circuit_is_due(sql)
    drain(OUTBOX)

    assert OutboxMessage.objects.get().releases == 0
    assert "no such account" in OutboxMessage.objects.get().error
    assert Destination.objects.get().state == "closed"


@pytest.mark.django_db
def test_a_message_older_than_the_patience_fails_by_its_budget(away, settings, sql):
    settings.QUEUES = {**settings.QUEUES, "TRANSPORT_PATIENCE_SECONDS": 3600}
    away["bank"] = NotReady("connection refused")
    publish("test.Old", 1, destination="bank", max_attempts=1)
    sql("UPDATE wh_outbox SET created_at = now() - interval '61 minutes'")
    publish("test.Young", 1, destination="bank", max_attempts=1)
    drain(OUTBOX)

    letter = DeadLetter.objects.get()
    assert (letter.message_type, letter.failure_reason) == ("test.Old", FailureReason.TRANSPORT_NOT_READY)
    assert letter.cause == "budget_spent"
    assert "not published within 3,600 seconds" in letter.error_text
    assert OutboxMessage.objects.get().message_type == "test.Young"


@pytest.mark.django_db
def test_an_old_message_has_the_same_patience_with_a_destination_that_went_away_just_now(away, settings, sql):
    settings.QUEUES = {**settings.QUEUES, "TRANSPORT_PATIENCE_SECONDS": 3600}
    away["bank"] = NotReady("connection refused")
    publish("test.Old", 1, destination="bank", max_attempts=1)
    sql("UPDATE wh_outbox SET created_at = now() - interval '9 days'")
    noted(3)
    circuit_is_due(sql)
    drain(OUTBOX)
    assert OutboxMessage.objects.get().releases == 1

    sql("UPDATE destination_circuits SET opened_at = now() - interval '61 minutes'")
    circuit_is_due(sql)
    outbox_due(sql)
    drain(OUTBOX)
    assert DeadLetter.objects.get().failure_reason == FailureReason.TRANSPORT_NOT_READY


@pytest.mark.django_db
def test_waits_double_up_to_the_cap_and_a_success_starts_anew(sql):
    assert noted(2) == []
    assert [change.state for change in noted(1)] == ["open"]
    waits = [retry_in(sql)]
    for _ in range(8):
        circuit_is_due(sql)
        assert noted(1) == []
        waits.append(retry_in(sql))
    assert waits == [5, 10, 20, 40, 80, 160, 300, 300, 300]

    assert [change.state for change in noted(0)] == ["closed"]
    circuit = Destination.objects.get()
    assert (circuit.failures, circuit.retry_at, circuit.opened_at) == (0, None, None)
    noted(3)
    assert retry_in(sql) == 5


@pytest.mark.django_db
def test_what_the_other_side_asks_for_wins_up_to_a_day(sql):
    noted(3, wait=timedelta(seconds=42))
    assert retry_in(sql) == 42

    circuit_is_due(sql)
    noted(1, wait=timedelta(days=400))
    assert retry_in(sql) == 86_400


@pytest.mark.django_db
def test_failures_noted_while_a_circuit_is_open_say_nothing_new(sql):
    noted(3)
    before = Destination.objects.values().get()

    assert noted(3) == []
    assert Destination.objects.values().get() == before


@pytest.mark.django_db
def test_a_trial_that_fails_opens_the_circuit_for_longer(sql):
    noted(3)
    sql("UPDATE destination_circuits SET state = 'half_open'")

    assert [change.state for change in noted(1)] == ["open"]
    assert retry_in(sql) == 10


@pytest.mark.django_db
def test_some_failures_and_then_a_success_leave_it_closed():
    noted(2)
    assert noted(0) == []
    assert noted(2) == []

    assert Destination.objects.get().state == "closed"


@pytest.mark.django_db
def test_secrets_in_an_error_are_masked(away):
    away["bank"] = NotReady("cannot reach amqp://app:hunter2@broker/")
    for n in range(3):
        publish("test.Paid", n, destination="bank")
    drain(OUTBOX)

    assert "hunter2" not in Destination.objects.get().last_error


@pytest.mark.django_db(transaction=True)
def test_two_drainers_that_note_many_circuits_at_once_neither_wait_for_ever_nor_count_wrong():
    names = [f"bank-{n}" for n in range(20)]

    def note_all(order):
        notes = [Note(destination=name, failures=1, wait=timedelta(0), error="away") for name in order]
        for _ in range(10):
            note(notes, failures_to_open=1000, base=timedelta(seconds=5), factor=2, cap=timedelta(seconds=300))

    at_once(lambda: note_all(names), lambda: note_all(names[::-1]))

    assert set(Destination.objects.values_list("name", "failures")) == {(name, 20) for name in names}


@pytest.mark.django_db(transaction=True)
def test_the_note_survives_the_rollback_of_the_group_that_published(away, monkeypatch, configure):
    configure(GROUP_MS=5_000)  # all in one group, however busy the machine is
    away["bank"] = NotReady("connection refused")
    for n in range(3):
        publish("test.Paid", n, destination="bank")

    def fails(*_, **__):
        raise RuntimeError

    monkeypatch.setattr("queues.drainer.recording.append_log", fails)
    with pytest.raises(RuntimeError):
        drain(OUTBOX)
    circuits.write()

    assert Destination.objects.get().state == "open"
