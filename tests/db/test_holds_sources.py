"""Streams that wait behind a dead message, in the inbox and in perspectives: what runs, and what ends the wait."""

import pytest

from deadletters.models import DeadLetter, Disposition, RecoveryStatus
from deadletters.store.recovery import Sent, dispose, recover
from queues import Delay, Terminal
from queues.models import DeliveryLogEntry, Stream
from queues.store import claims
from queues.words.sources import INBOX, PERSPECTIVES, Queue
from tests.db.conftest import move_by_hand
from tests.db.sources import PERSPECTIVE, working

pytestmark = pytest.mark.django_db


@pytest.fixture(
    params=[Queue(source=INBOX), Queue(source=PERSPECTIVES, perspective=PERSPECTIVE)], ids=lambda q: q.source
)
def work(request, handlers, monkeypatch):
    """A source whose streams wait behind their dead; the payload `dies` cannot be done until `cured`."""
    work = working(request.param, monkeypatch, after_death="hold")
    work.cured = False

    def dies(run):
        if run.payload == "dies" and not work.cured:
            raise Terminal("broken")

    work.does = dies
    return work


@pytest.fixture
def letter(work):
    """Return the letter behind which 1 and 2 of its stream wait; 8 and 9 of another stream have run."""
    for payload in (0, "dies", 1, 2):
        work.put(payload, stream="s")
    for payload in (8, 9):
        work.put(payload, stream="other")
    work.drain()
    return DeadLetter.objects.get()


def test_those_behind_a_dead_message_wait_uncounted_and_unclaimed_and_other_streams_run(work, letter):
    assert sorted(work.ran, key=str) == [0, 8, 9, "dies"]
    assert [(row["attempts"], row["releases"], row["lease_token"]) for row in work.rows()] == [(0, 0, None)] * 2
    assert Stream.objects.get().held_by == letter.pk
    work.put("newcomer", stream="s")
    claims.admit(work.queue, 100)
    assert Stream.objects.get().due_at.year == 9000, "a newcomer does not wake the stream"
    assert work.claim()[0] == []
    assert DeliveryLogEntry.objects.count() == 1


def test_of_a_held_stream_only_the_dead_message_itself_is_claimed(work, letter):
    assert recover(letter.pk, "ann") is Sent.SENT

    rows, held = work.claim()
    assert [(row.message_id, row.dead_letter_id) for row in rows] == [(letter.source_id, letter.pk)]
    held.release()
    assert [row.message_id for row in work.claim()[0]] == [letter.source_id]


def test_its_success_lets_the_stream_go_on_in_order(work, letter):
    work.cured = True
    recover(letter.pk, "ann")
    work.drain()

    assert [payload for payload in work.ran if payload not in (8, 9)] == [0, "dies", "dies", 1, 2]
    letter.refresh_from_db()
    assert letter.recovery_status == RecoveryStatus.RECOVERED
    assert work.rows() == []


def test_its_second_death_keeps_the_hold_and_so_does_a_delay_or_a_failure_of_it(work, letter):
    recover(letter.pk, "ann")
    work.drain()
    letter.refresh_from_db()
    assert (letter.deaths, Stream.objects.get().held_by) == (2, letter.pk)

    outcomes = iter([Delay(60), ValueError("again")])

    def not_yet(run):
        raise next(outcomes)

    work.does = not_yet
    recover(letter.pk, "ann")
    work.drain_for(2)

    assert Stream.objects.get().held_by == letter.pk
    assert work.ran[-3:] == ["dies"] * 3
    assert len(work.rows()) == 3


def test_a_stream_goes_on_when_its_dead_message_is_given_up(work, letter):
    dispose(letter.pk, Disposition.MARK_PERMANENTLY_FAILED)
    work.drain()

    assert work.ran[-2:] == [1, 2]


def test_a_stream_goes_on_when_it_is_let_go_and_the_letter_stays(work, letter, sql):
    sql("SELECT let_stream_go(queue, stream_id) FROM wh_streams")
    work.drain()

    assert work.ran[-2:] == [1, 2]
    letter.refresh_from_db()
    assert letter.recovery_status == RecoveryStatus.PENDING


def test_a_mover_in_sql_that_says_nothing_of_it_holds_streams_of_perspectives_and_no_others(work):
    first = work.put("first", stream="s")
    work.put("behind", stream="s")
    move_by_hand(first, source=work.source)
    work.drain()

    assert work.ran == ([] if work.source == PERSPECTIVES else ["behind"])


def test_the_second_dead_message_of_a_stream_that_was_let_go_holds_it_anew(work, letter, sql):
    sql("SELECT let_stream_go(queue, stream_id) FROM wh_streams")

    def next_one_dies(run):
        if run.payload == 1:
            raise Terminal("broken")

    work.does = next_one_dies
    work.drain()

    second = DeadLetter.objects.exclude(pk=letter.pk).get()
    assert Stream.objects.get().held_by == second.pk
    assert work.ran[-1] == 1
