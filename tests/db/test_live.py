"""What an operator does to live messages: stopped, run now, moved by hand; also while they run."""

import threading
from uuid import UUID, uuid4

import pytest
from django.core.exceptions import PermissionDenied
from django.db import connection

from deadletters import triage
from deadletters.models import DeadLetter, OperatorAction
from deadletters.words.errors import BadChange, NoSuchMessage
from queues import Delay, handles, send, wakeups
from queues.store.live import Started, Stopped
from queues.testing import drain
from queues.words.sources import STOPPED_UNTIL
from tests.db.conftest import at_once
from tests.db.rows import KEY, SOURCES, write_row
from tests.factories import a_user

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def woken(monkeypatch):
    """Note the sources whose drainers would be woken."""
    sources = []
    monkeypatch.setattr(wakeups, "send", lambda wakeup: sources.extend(wakeup.args))
    return sources


@pytest.fixture
def ran(handlers):
    """Note the payloads that the handler of the type t.T got."""
    payloads = []
    handles("t.T")(lambda message: payloads.append(message.payload))
    return payloads


@pytest.fixture
def one(sql):
    """Return a row of a source by its id."""

    def row(source, message_id):
        return next(iter(sql(f"SELECT * FROM {source} WHERE {KEY[source]} = %s", message_id)), None)

    return row


def put(*arguments, **named):
    """Send a message and return its id."""
    return send(*arguments, **named).message_id


def last_action():
    return OperatorAction.objects.latest("id")


def test_a_stopped_message_waits_until_it_is_run_by_hand(olga, ran, inbox_row):
    message_id = put("t.T", 1)

    assert triage.stop(source="wh_inbox", message_id=message_id, user=olga, reason="wait") is Stopped.STOPPED
    drain()
    assert ran == []
    assert inbox_row(message_id)["scheduled_for"] == STOPPED_UNTIL
    assert (last_action().action, last_action().message_id, last_action().reason) == ("stop", message_id, "wait")

    assert triage.run_now(source="wh_inbox", message_id=message_id, user=olga) is Started.DUE
    drain()
    assert ran == [1]
    assert last_action().action == "run_now"


def test_a_second_click_changes_and_audits_nothing(olga, ran):
    message_id = put("t.T", 1)

    assert triage.run_now(source="wh_inbox", message_id=message_id, user=olga) is Started.WAITING
    triage.stop(source="wh_inbox", message_id=message_id, user=olga)
    before = OperatorAction.objects.count()
    assert triage.stop(source="wh_inbox", message_id=message_id, user=olga) is Stopped.ALREADY
    assert OperatorAction.objects.count() == before


def test_a_stopped_message_holds_its_stream_and_run_now_lets_it_on(olga, ran):
    first, _second = put("t.T", 1, stream="s"), put("t.T", 2, stream="s")
    send("t.T", 3, stream="other")

    triage.stop(source="wh_inbox", message_id=first, user=olga)
    drain()
    assert ran == [3]
    triage.run_now(source="wh_inbox", message_id=first, user=olga)
    drain()
    assert ran == [3, 1, 2]


def test_stopping_one_in_the_middle_of_a_stream_lets_those_before_it_run(olga, ran):
    send("t.T", 1, stream="s")
    second = put("t.T", 2, stream="s")
    send("t.T", 3, stream="s")

    triage.stop(source="wh_inbox", message_id=second, user=olga)
    drain()
    assert ran == [1]


def test_a_delayed_message_runs_now(olga, handlers):
    ran = []

    @handles("t.T")
    def later(message):
        ran.append(message.meta.delays)
        if not message.meta.delays:
            raise Delay(3600)

    message_id = put("t.T", 1)
    drain()
    drain()
    assert ran == [0]

    assert triage.run_now(source="wh_inbox", message_id=message_id, user=olga) is Started.DUE
    drain()
    assert ran == [0, 1]


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("stream", [None, UUID(int=9)])
def test_every_source_is_stopped_run_and_moved(olga, one, source, stream):
    if stream is None and source == "wh_perspective_events":
        stream = UUID(int=10)
    message_id = write_row(source, stream_id=stream, error="ValueError: seen before", failure_reason=4)

    triage.stop(source=source, message_id=message_id, user=olga)
    assert one(source, message_id)["scheduled_for"] == STOPPED_UNTIL
    assert triage.run_now(source=source, message_id=message_id, user=olga) is Started.DUE
    assert one(source, message_id)["attempts"] == 7

    moved = triage.dead_letter(source=source, message_id=message_id, user=olga, reason="the wrong tenant")
    letter = DeadLetter.objects.get(pk=moved.dead_letter_id)
    assert one(source, message_id) is None
    assert (letter.cause, letter.failure_reason, letter.attempts_when_dlq) == ("operator", 4, 7)
    assert letter.error_text == "the wrong tenant\nlast error: ValueError: seen before"
    assert (last_action().action, last_action().message_id, last_action().dead_letter_id) == (
        "dead_letter",
        message_id,
        letter.pk,
    )


def test_what_is_gone_is_said_so_and_not_audited(olga):
    for act in (triage.stop, triage.run_now, triage.dead_letter):
        with pytest.raises(NoSuchMessage):
            act(source="wh_inbox", message_id=uuid4(), user=olga, reason="x")

    assert not OperatorAction.objects.exists()


def test_a_letter_made_by_hand_says_why(olga, inbox_row):
    message_id = put("t.T", 1)

    with pytest.raises(BadChange):
        triage.dead_letter(source="wh_inbox", message_id=message_id, user=olga, reason=" \n ")
    assert inbox_row(message_id)


def test_nobody_acts_without_the_right(db, inbox_row):
    vic, message_id = a_user("vic", "Viewers"), put("t.T", 1)
    actions = (triage.stop, triage.run_now, triage.dead_letter)

    for act in actions:
        with pytest.raises(PermissionDenied):
            act(source="wh_inbox", message_id=message_id, user=vic, reason="x")
    assert inbox_row(message_id)["scheduled_for"] != STOPPED_UNTIL


def test_a_stream_goes_on_when_its_stopped_first_message_is_dead_lettered(olga, ran):
    first = put("t.T", 1, stream="s")
    put("t.T", 2, stream="s")
    triage.stop(source="wh_inbox", message_id=first, user=olga)
    drain()
    assert ran == []

    triage.dead_letter(source="wh_inbox", message_id=first, user=olga, reason="wrong")
    drain()
    assert ran == [2]


def test_a_stream_waits_behind_a_letter_made_by_hand_where_its_handler_says_so(olga, handlers, sql):
    ran = []
    handles("t.Strict", after_death="hold")(lambda message: ran.append(message.payload))
    first = put("t.Strict", 1, stream="s")
    put("t.Strict", 2, stream="s")

    moved = triage.dead_letter(source="wh_inbox", message_id=first, user=olga, reason="wrong")
    drain()
    assert ran == []
    (held,) = sql("SELECT * FROM wh_streams WHERE held_by IS NOT NULL")
    assert held["held_by"] == moved.dead_letter_id
    gone = {"queue": held["queue"], "stream_id": held["stream_id"], "held_by": held["held_by"]}
    assert triage.let_stream_go(**gone, user=olga)
    drain()
    assert ran == [2]


@pytest.mark.parametrize("stream", [None, "s"])
def test_a_claim_that_lapsed_is_left_to_the_next_one_to_charge(olga, ran, sql, inbox_row, stream):
    message_id = put("t.T", 1, stream=stream)
    sql("SELECT admit_arrivals('wh_inbox', 10)")
    where = "wh_streams" if stream else "wh_inbox"
    lapsed = "lease_expiry = now() - interval '1 second', instance_id = gen_random_uuid()"
    sql(f"UPDATE {where} SET lease_token = gen_random_uuid(), {lapsed}")

    assert triage.stop(source="wh_inbox", message_id=message_id, user=olga) is Stopped.STOPPED
    (left,) = sql(f"SELECT lease_token IS NOT NULL AS is_there FROM {where}")
    assert left["is_there"]
    triage.run_now(source="wh_inbox", message_id=message_id, user=olga)
    drain()
    assert ran == [1]


class Gate:
    """A handler that says that it runs, and waits."""

    def __init__(self, handlers, **options):
        self.started, self.go, self.ran = threading.Event(), threading.Event(), []
        handles("t.Slow", **options)(self.handle)

    def handle(self, message):
        self.ran.append(message.meta.attempts)
        self.started.set()
        assert self.go.wait(20)
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO demo_effects_of_live_tests VALUES (%s)", [message.payload])

    def meanwhile(self, act):
        """Drain, and act once the handler runs; return what the act returned."""

        def acted():
            assert self.started.wait(20)
            try:
                return act()
            finally:
                self.go.set()

        return at_once(drain, acted)[1]


@pytest.fixture
def effects(sql):
    sql("CREATE TABLE demo_effects_of_live_tests (n int)")
    yield lambda: [row["n"] for row in sql("SELECT n FROM demo_effects_of_live_tests ORDER BY n")]
    sql("DROP TABLE demo_effects_of_live_tests")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("stream", [None, "s"])
@pytest.mark.parametrize("cap", [1, 5], ids=["alone", "in a group"])
def test_a_running_message_is_stopped_its_work_undone_and_nothing_charged(
    olga, handlers, effects, inbox_row, stream, cap
):
    gate = Gate(handlers, max_attempts=cap)
    message_id = put("t.Slow", 1, stream=stream)

    assert gate.meanwhile(lambda: triage.stop(source="wh_inbox", message_id=message_id, user=olga)) is Stopped.REVOKED
    row = inbox_row(message_id)
    assert (gate.ran, effects()) == ([1], [])
    assert row["attempts"] - row["delays"] - row["releases"] == 0
    assert (row["scheduled_for"], row["lease_token"], row["started_at"]) == (STOPPED_UNTIL, None, None)

    triage.run_now(source="wh_inbox", message_id=message_id, user=olga)
    drain()
    assert effects() == [1]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("cap", [1, 5], ids=["alone", "in a group"])
def test_stopping_a_follower_of_a_running_head_keeps_it_from_running(olga, handlers, effects, inbox_row, cap):
    gate = Gate(handlers, max_attempts=cap)
    head, follower = put("t.Slow", 1, stream="s"), put("t.Slow", 2, stream="s")

    assert gate.meanwhile(lambda: triage.stop(source="wh_inbox", message_id=follower, user=olga)) is Stopped.REVOKED
    row = inbox_row(head)
    assert row is None or row["attempts"] - row["releases"] == 0
    drain()
    assert (effects(), inbox_row(head)) == ([1], None)
    assert inbox_row(follower)["scheduled_for"] == STOPPED_UNTIL


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("stream", [None, "s"])
def test_a_running_message_is_not_run_now(olga, handlers, effects, stream):
    gate = Gate(handlers)
    message_id = put("t.Slow", 1, stream=stream)

    started = gate.meanwhile(lambda: triage.run_now(source="wh_inbox", message_id=message_id, user=olga))
    assert started is Started.IN_FLIGHT
    assert effects() == [1]
    assert not OperatorAction.objects.exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("stream", [None, "s"])
@pytest.mark.parametrize("cap", [1, 5], ids=["alone", "in a group"])
def test_a_running_message_is_dead_lettered_and_its_work_undone(olga, handlers, effects, inbox_row, stream, cap):
    gate = Gate(handlers, max_attempts=cap)
    message_id = put("t.Slow", 1, stream=stream)

    moved = gate.meanwhile(
        lambda: triage.dead_letter(source="wh_inbox", message_id=message_id, user=olga, reason="wrong")
    )
    assert DeadLetter.objects.get(pk=moved.dead_letter_id).cause == "operator"
    assert (effects(), inbox_row(message_id)) == ([], None)


@pytest.mark.django_db(transaction=True)
def test_two_people_who_move_one_message_make_one_letter(olga):
    message_id = put("t.T", 1)

    def move():
        try:
            return triage.dead_letter(source="wh_inbox", message_id=message_id, user=olga, reason="wrong")
        except NoSuchMessage:
            return None

    moved = at_once(move, move)
    assert sorted(outcome is None for outcome in moved) == [False, True]
    assert DeadLetter.objects.get().deaths == 1
    assert OperatorAction.objects.count() == 1
