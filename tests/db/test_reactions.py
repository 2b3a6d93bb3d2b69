"""Reactions to deaths: who is told, of what, and that it happens with the move."""

import json
import uuid

import pytest
from django.db import transaction

from deadletters.models import DeadLetter
from queues import DeadLetter as Dead
from queues import Delay, Subject, Terminal, append_event, attributed, handles, on_dead_letter, projects, publish, send
from queues.drainer import drain
from queues.models import DeadLetterSubscription, InboxMessage
from queues.perspectives import subscribe as subscribe_perspectives
from queues.reactions import subscribe
from queues.receiving import store
from queues.words.arrivals import Arrival
from tests.db.conftest import move_by_hand

TYPE = "test.Pay"


@pytest.fixture
def dead(handlers):
    """React to deaths of TYPE by keeping what comes; return the list."""
    seen = []
    on_dead_letter(TYPE)(seen.append)
    subscribe()
    return seen


def dies_with(exc_of):
    """Register a handler of TYPE whose first run is its last, raising what the message makes."""

    @handles(TYPE, max_attempts=1)
    def fail(message):
        raise exc_of(message)


@pytest.mark.django_db
def test_a_death_is_told_with_its_failure_its_subjects_and_detail_and_the_message(dead):
    @handles(TYPE, max_attempts=1)
    def fail(message):
        with attributed(Subject("batch", "b1"), stage="merge", lines={"first": 3}):
            raise ValueError("no such branch")

    sent = send(TYPE, {"cents": 1200}, headers={"tenant": "7"}, stream="order-1")
    drain("wh_inbox", seconds=None)

    (letter,) = dead
    assert isinstance(letter, Dead)
    assert (letter.id, letter.message_id) == (DeadLetter.objects.get().pk, sent.message_id)
    assert (letter.source, letter.type, letter.attempts, letter.deaths) == ("wh_inbox", TYPE, 1, 1)
    assert (letter.cause, letter.reason, letter.generation) == ("budget_spent", 5, DeadLetter.objects.get().generation)
    assert letter.failure.message == "ValueError: no such branch"
    assert letter.failure.trace.startswith("Traceback")
    assert letter.failure.subjects == (Subject("batch", "b1"),)
    assert letter.failure.detail == {"stage": "merge", "lines": {"first": 3}}
    assert (letter.payload, letter.headers) == ({"cents": 1200}, {"tenant": "7"})
    assert not InboxMessage.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize(("error", "failure"), [(None, None), ("", "")])
def test_no_recorded_failure_is_none_and_an_empty_one_is_not(dead, error, failure):
    move_by_hand(send(TYPE, {}).message_id, error=error)
    drain("wh_inbox", seconds=None)

    told = dead[0].failure
    assert (told if told is None else told.message) == failure


@pytest.mark.django_db
def test_whoever_moves_it_the_reaction_is_stored_in_the_move_s_transaction(dead):
    message_id = send(TYPE, {}).message_id

    with transaction.atomic():
        move_by_hand(message_id)
        assert InboxMessage.objects.get().message_type == "dead_letter:" + TYPE
        transaction.set_rollback(True)
    assert InboxMessage.objects.get().message_type == TYPE

    move_by_hand(message_id)
    assert InboxMessage.objects.get().message_type == "dead_letter:" + TYPE


@pytest.mark.django_db
def test_each_death_is_told_once_and_the_next_one_again(dead, sql):
    letter_id = move_by_hand(send(TYPE, {}).message_id)
    assert sql("SELECT announce_deaths(ARRAY[%s::uuid]) AS n", letter_id) == [{"n": 0}]
    sql("SELECT recover_dead_letter(%s, 'me')", letter_id)
    move_by_hand(DeadLetter.objects.get().source_id)
    drain("wh_inbox", seconds=None)

    assert [(letter.id, letter.deaths) for letter in dead] == [(letter_id, 1), (letter_id, 2)]


@pytest.mark.django_db
def test_an_event_that_died_in_a_perspective_and_an_outbox_message_are_told_too(dead, handlers, configure):
    configure(ROUTES={}, MAX_ATTEMPTS=1)
    projects("totals", TYPE)(lambda message: 1 / 0)
    subscribe_perspectives()
    append_event("order-1", TYPE, {"n": 1})
    publish(TYPE, {"n": 2}, destination="nowhere")
    drain("wh_perspective_events", seconds=None)
    drain("wh_outbox", seconds=None)
    drain("wh_inbox", seconds=None)

    told = {letter.source: (letter.perspective, letter.payload) for letter in dead}
    assert told == {"wh_perspective_events": ("totals", {"n": 1}), "wh_outbox": (None, {"n": 2})}


@pytest.mark.django_db
def test_what_a_broker_brought_and_no_inbox_can_take_is_told(dead):
    at_broker = Arrival(
        body=b"not json",
        headers={},
        message_type=TYPE,
        message_id=str(uuid.uuid4()),
        delivery_id=None,
        content_type="text/plain",
        tag=1,
    )
    store([at_broker], "shop.orders")
    drain("wh_inbox", seconds=None)

    assert [(letter.source, letter.cause) for letter in dead] == [("broker", "unreadable")]


@pytest.mark.django_db
def test_a_type_that_nobody_reacts_to_is_not_told(dead):
    move_by_hand(send("test.Other", {}).message_id)

    assert not InboxMessage.objects.exists()


@pytest.mark.django_db
def test_a_reaction_that_dies_is_a_dead_letter_and_makes_no_chain(handlers):
    @on_dead_letter(TYPE, max_attempts=1)
    def fail(letter):
        raise ValueError("and again")

    subscribe()
    move_by_hand(send(TYPE, {}).message_id)
    drain("wh_inbox", seconds=None)

    types = sorted(DeadLetter.objects.values_list("message_type", flat=True))
    assert types == ["dead_letter:" + TYPE, TYPE]
    assert not InboxMessage.objects.exists()


@pytest.mark.django_db
def test_who_registers_for_dead_reactions_is_told_of_them(handlers):
    seen = []
    on_dead_letter(TYPE, max_attempts=1)(lambda letter: 1 / 0)
    on_dead_letter("dead_letter:" + TYPE)(seen.append)
    subscribe()
    move_by_hand(send(TYPE, {}).message_id)
    drain("wh_inbox", seconds=None)

    assert [letter.type for letter in seen] == ["dead_letter:" + TYPE]
    assert seen[0].failure.message.startswith("ZeroDivisionError")


@pytest.mark.django_db
def test_delays_terminals_and_attribution_work_as_in_any_handler(handlers, time_passes, sql):
    runs = []

    @on_dead_letter(TYPE, max_attempts=3)
    def react(letter):
        runs.append((letter.meta.attempts, letter.meta.delays))
        if len(runs) == 1:
            raise Delay(60)
        with attributed(Subject("order", "42")):
            raise Terminal("there is no such order")

    subscribe()
    move_by_hand(send(TYPE, {}).message_id)
    drain("wh_inbox", seconds=None)
    time_passes()
    drain("wh_inbox", seconds=None)

    assert runs == [(1, 0), (2, 1)]
    letter = DeadLetter.objects.get(message_type="dead_letter:" + TYPE)
    assert (letter.cause, letter.failure_detail) == ("terminal", {"subjects": [{"type": "order", "id": "42"}]})


DEEP = "[" * 3000 + "]" * 3000
FOREIGN = {
    "a text": '"boom"',
    "a list": "[1]",
    "odd subjects": '{"subjects": 5, "detail": [1]}',
    "half subjects": '{"subjects": [{"type": "a"}, 3, {"type": "order", "id": 42}], "detail": {"a": null}}',
    "too deep": f'{{"detail": {{"a": {DEEP}}}}}',
    "a huge number": f'{{"detail": {{"a": 1{"0" * 30_000}}}}}',
    "too large": json.dumps({"detail": {"a": "x" * 600_000}}),
    "a text of its own": '{"text": 7, "subjects": []}',
}


@pytest.mark.django_db
@pytest.mark.parametrize("detail", FOREIGN.values(), ids=FOREIGN.keys())
def test_what_a_foreign_writer_recorded_never_keeps_the_reaction_from_running(dead, detail):
    move_by_hand(send(TYPE, {}).message_id, error="boom\nat line 3", failure_detail=detail)
    drain("wh_inbox", seconds=None)

    assert dead[0].failure.message == "boom"
    assert DeadLetter.objects.count() == 1


@pytest.mark.django_db
def test_what_is_well_formed_in_a_foreign_failure_is_told_exactly_and_what_is_left_out_is_said(dead):
    for name in ("half subjects", "too deep"):
        move_by_hand(send(TYPE, {}).message_id, failure_detail=FOREIGN[name])
        drain("wh_inbox", seconds=None)

    assert dead[0].failure.subjects == (Subject("order", "42"),)
    assert dead[0].failure.detail == {"a": None}
    assert "left out" in dead[1].failure.detail["… detail"]


@pytest.mark.django_db
def test_a_payload_that_could_not_be_read_runs_the_reaction_and_raises_only_when_it_is_asked_for(dead, sql):
    dies_with(lambda message: AssertionError("never runs"))
    send(TYPE, {})
    sql('UPDATE wh_inbox SET envelope_raw = \'\\x00ff\', metadata = \'{"headers": {"a": "b"}}\'')
    drain("wh_inbox", seconds=None)

    (letter,) = dead
    assert (letter.cause, letter.headers) == ("unreadable", {"a": "b"})
    with pytest.raises(Exception, match="UTF-8"):
        _ = letter.payload


@pytest.mark.django_db
def test_a_purged_letter_is_told_and_its_payload_is_gone(dead):
    letter_id = move_by_hand(send(TYPE, {}).message_id)
    DeadLetter.objects.get(pk=letter_id).delete()
    drain("wh_inbox", seconds=None)

    with pytest.raises(Exception, match="not there any more"):
        _ = dead[0].payload


@pytest.mark.django_db
def test_a_message_of_that_type_which_tells_of_no_letter_dies_as_unreadable(dead):
    for payload in (None, {}, {"dead_letter_id": "x"}, {"dead_letter_id": str(uuid.uuid4())}):
        send("dead_letter:" + TYPE, payload)
    drain("wh_inbox", seconds=None)

    assert dead == []
    assert set(DeadLetter.objects.values_list("cause", flat=True)) == {"unreadable"}


@pytest.mark.django_db
def test_subscriptions_are_added_when_a_drain_starts_and_never_removed(handlers):
    on_dead_letter("test.New")(print)
    DeadLetterSubscription.objects.create(message_type="test.Old")

    drain("wh_inbox", seconds=None)

    assert {"test.New", "test.Old"} <= set(DeadLetterSubscription.objects.values_list("message_type", flat=True))


@pytest.mark.django_db(transaction=True)
def test_the_inbox_is_woken_when_a_death_may_have_been_told(dead, monkeypatch):
    dies_with(lambda message: ValueError("boom"))
    send(TYPE, {})
    woken = []
    monkeypatch.setattr("queues.wakeups._send_folded", woken.append)
    drain("wh_inbox", seconds=None)

    assert [wakeup.args for wakeup in woken] == [("wh_inbox",)]
