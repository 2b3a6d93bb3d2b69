"""Sending in a transaction, waking on commit, and the helpers for tests of handlers."""

import pytest
from django.db import connection, transaction

from queues import InvalidMessage, NewMessage, handles, send, send_many, testing, wakeups
from queues.models import InboxMessage
from queues.words.outcomes import OutcomeKind


@pytest.fixture
def woken(monkeypatch):
    sent = []
    monkeypatch.setattr("celery.app.base.Celery.send_task", lambda self, name, **options: sent.append((name, options)))
    return sent


@pytest.mark.django_db(transaction=True)
def test_a_transaction_wakes_once_when_it_commits_however_much_it_sent(woken):
    with transaction.atomic():
        send("test.A", 1)
        send_many([NewMessage(type="test.A", payload=n) for n in range(3)])
        assert woken == []

    assert [name for name, _ in woken] == ["queues.drain"]
    assert woken[0][1]["queue"] == "inbox"


@pytest.mark.django_db(transaction=True)
def test_a_rollback_stores_nothing_and_wakes_nobody(woken):
    def fails():
        send("test.A", 1)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        transaction.atomic(fails)()

    assert woken == []
    assert not InboxMessage.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_broker_out_of_reach_loses_the_wakeup_and_nothing_else(monkeypatch):
    from kombu.exceptions import OperationalError

    tried = []

    def refuse(self, name, **options):
        tried.append(name)
        raise OperationalError("connection refused")

    monkeypatch.setattr("celery.app.base.Celery.send_task", refuse)
    monkeypatch.setattr(wakeups, "_silent_until", 0.0)
    send("test.A", 1)
    send("test.A", 2)

    assert InboxMessage.objects.count() == 2
    assert len(tried) == 1, "a broker that is away is left alone for a tick"


@pytest.mark.django_db
def test_a_wakeup_of_a_rolled_back_savepoint_does_not_count_as_sent(woken):
    def fails():
        wakeups.wake("wh_inbox")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        transaction.atomic(fails)()
    wakeups.wake("wh_inbox")

    assert len([entry for entry in connection.run_on_commit if entry[1].args[0].args == ("wh_inbox",)]) == 1


@pytest.mark.django_db
def test_one_bad_message_of_many_stores_none(woken):
    with pytest.raises(InvalidMessage):
        send_many([NewMessage(type="test.A", payload=1), NewMessage(type="", payload=1)])

    assert not InboxMessage.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize(
    "payload", [{"a": "b\x00c"}, {"\x00": 1}, "\ud800", {"n": 1970670598291982291}, [1.5, None, True, "é"]]
)
def test_a_handler_gets_back_what_was_sent(handlers, payload):
    got = []
    handles("test.Exact")(lambda message: got.append(message.payload))
    send("test.Exact", payload)
    testing.drain()

    assert got == [payload]


def test_a_handler_runs_on_a_payload_without_a_database(handlers):
    handles("test.Echo")(lambda message: (message.payload, message.meta.attempts, dict(message.headers)))

    assert testing.run("test.Echo", {"a": (1, 2)}, attempts=3, headers={"h": "v"}) == ({"a": [1, 2]}, 3, {"h": "v"})


def test_what_a_handler_raises_is_raised_to_its_test(handlers):
    def broken(message):
        raise KeyError("order_id")

    handles("test.Broken")(broken)
    with pytest.raises(KeyError):
        testing.run("test.Broken", {})
    with pytest.raises(testing.NoHandler, match=r"test\.Nobody"):
        testing.run("test.Nobody", {})


@pytest.mark.django_db
def test_draining_in_a_test_says_what_came_of_the_messages(handlers):
    handles("test.Fine")(lambda message: None)
    send("test.Fine", {})

    assert testing.drain().counts == {OutcomeKind.SUCCESS: 1}
