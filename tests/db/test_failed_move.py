"""A move that fails never loses its message: it stays, waits, is reported, and is cut down until it fits."""

import pytest
from django.db import DatabaseError

from deadletters.models import DeadLetter
from deadletters.store.letters import Store
from queues import Subject, Terminal, attributed, handles, send
from queues.testing import drain

pytestmark = pytest.mark.django_db


@pytest.fixture
def dying(handlers):
    runs = []

    @handles("test.Dies")
    def dies(message):
        runs.append(message.meta.attempts)
        with attributed(Subject("order", "42")):
            raise Terminal("x" * 500 + " the reason")

    return runs


@pytest.mark.parametrize("error", [DatabaseError("disk full"), RuntimeError("a bug in the store")])
def test_a_message_whose_move_fails_stays_with_its_failure_and_is_moved_later(
    dying, monkeypatch, inbox_row, time_passes, error
):
    def fail(self, deaths):
        raise error

    message_id = send("test.Dies", {}).message_id
    with monkeypatch.context() as broken:
        broken.setattr(Store, "move", fail)
        drain()
    row = inbox_row(message_id)
    time_passes()
    drain()

    assert (row["attempts"], row["lease_token"]) == (1, None)
    assert "the reason" in row["error"]
    assert inbox_row(message_id) is None
    assert DeadLetter.objects.get().source_id == message_id
    assert "the reason" in DeadLetter.objects.get().error_text


def test_a_failure_that_does_not_fit_is_cut_down_and_the_message_moves(dying, sql):
    sql("ALTER TABLE wh_dead_letters ADD CONSTRAINT test_short CHECK (length(error_text) < 600)")
    sql("ALTER TABLE wh_dead_letters ADD CONSTRAINT test_plain CHECK (failure_detail IS NULL)")
    send("test.Dies", {})
    drain()

    letter = DeadLetter.objects.get()
    assert letter.error_text.endswith("the reason")
    assert letter.failure_detail is None


def test_a_failure_that_cannot_be_recorded_at_all_says_so_and_the_message_moves(dying, sql):
    sql("ALTER TABLE wh_dead_letters ADD CONSTRAINT test_short CHECK (length(error_text) < 50)")
    send("test.Dies", {})
    drain()

    assert DeadLetter.objects.get().error_text == "The failure could not be recorded."


def test_neighbours_of_a_failed_move_are_committed_once(dying, handlers, monkeypatch, sql):
    sql("CREATE TABLE test_done (n int)")
    handles("test.Fine")(lambda message: sql("INSERT INTO test_done VALUES (%s)", message.payload))

    def fail(self, deaths):
        raise DatabaseError("disk full")

    monkeypatch.setattr(Store, "move", fail)
    for n in range(3):
        send("test.Fine", n)
    send("test.Dies", {})
    send("test.Fine", 3)
    drain()

    assert [row["n"] for row in sql("SELECT n FROM test_done ORDER BY n")] == [0, 1, 2, 3]
