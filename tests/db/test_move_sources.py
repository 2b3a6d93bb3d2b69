"""The move and the recovery of each source: what is kept, what comes back, what a foreign mover may leave out."""

import json
import uuid

import pytest
from django.db import IntegrityError, transaction

from deadletters.models import DeadLetter, DeadLetterSubject
from deadletters.store.recovery import Sent, recover
from tests.db.conftest import INSTANCE, move_by_hand
from tests.db.rows import BODY, KEY, SOURCES, row_of, store_event, write_row

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("source", SOURCES)
def test_the_seven_arguments_move_a_row_of_each_source(source, sql):
    source_id = write_row(source)

    letter_id = move_by_hand(source_id, source=source, error="boom")

    letter = DeadLetter.objects.get()
    assert letter.dead_letter_id == letter_id
    assert (letter.source_table, letter.source_id, letter.stream_id) == (source, source_id, uuid.UUID(int=9))
    assert (letter.failure_reason, letter.error_text, letter.attempts_when_dlq) == (2, "boom", 7)
    assert (letter.generation, letter.dead_lettered_by) == ("build-1", INSTANCE)
    assert (letter.recovery_status, letter.recovery_attempts) == (0, 0)
    assert letter.next_recovery_at > letter.dead_lettered_at, "a spent budget is recovered by the schedule"
    assert sql(f"SELECT count(*) AS n FROM {source}") == [{"n": 0}]


def test_each_source_keeps_what_is_its_own():
    store_event()
    for source in SOURCES:
        move_by_hand(write_row(source), source=source)

    inbox, outbox, perspective = (DeadLetter.objects.get(source_table=source) for source in SOURCES)
    assert (inbox.message_type, inbox.destination, inbox.perspective_name) == ("by.Hand", None, None)
    assert (outbox.message_type, outbox.destination, outbox.perspective_name) == ("by.Hand", "bank", None)
    assert (perspective.destination, perspective.perspective_name) == (None, "totals")
    assert [json.loads(letter.envelope) for letter in (inbox, outbox)] == [BODY, BODY]
    own = {"event_id": str(uuid.UUID(int=5)), "perspective_name": "totals"}
    assert json.loads(perspective.envelope) == {**own, **BODY}
    assert (perspective.message_type, bytes(perspective.envelope_raw)) == ("shop.OrderPlaced", b'{"a": 1}')


def test_a_perspective_whose_event_is_gone_dies_with_the_type_of_the_source():
    move_by_hand(write_row("wh_perspective_events"), source="wh_perspective_events")

    letter = DeadLetter.objects.get()
    assert letter.message_type == "perspective_event"
    assert json.loads(letter.envelope)["event_id"] == str(uuid.UUID(int=5))


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(
    ("stored", "given", "kept"),
    [
        (
            "System.Boom: down\n   at A.B()",
            "attempts=12 > max=10",
            "attempts=12 > max=10\nlast error: System.Boom: down\n   at A.B()",
        ),
        ("System.Boom: down", None, "System.Boom: down"),
        ("", "gave up", "gave up"),
        (None, "gave up", "gave up"),
        ("same", "same", "same"),
        (None, None, None),
    ],
)
def test_a_stored_error_is_kept_behind_the_movers_text(source, stored, given, kept):
    move_by_hand(write_row(source, error=stored), source=source, error=given)

    assert DeadLetter.objects.get().error_text == kept


@pytest.mark.parametrize("source", SOURCES)
def test_subjects_that_a_row_has_stored_cross_with_the_seven_arguments(source):
    structure = {"subjects": [{"type": "order", "id": "42"}, {"type": "order", "id": "42"}], "detail": {"n": 1}}
    move_by_hand(write_row(source, failure_detail=json.dumps(structure)), source=source)

    assert [(s.type, s.id) for s in DeadLetterSubject.objects.all()] == [("order", "42")]
    assert DeadLetter.objects.get().failure_detail == structure


def test_a_malformed_structure_is_kept_and_is_about_nothing():
    move_by_hand(write_row("wh_inbox", failure_detail='{"subjects": [1, {"type": "a"}, "x"]}'))
    move_by_hand(write_row("wh_inbox", failure_detail='{"subjects": 5}'))

    assert DeadLetter.objects.count() == 2
    assert not DeadLetterSubject.objects.exists()


@pytest.mark.parametrize("source", SOURCES)
def test_what_is_recovered_is_the_whole_row(source):
    """Every column comes back, but for what a new life resets."""
    write_row(
        source,
        partition_number=9,
        priority=100,
        position=424242,
        max_attempts=4,
        max_delays=-1,
        status=3,
        delays=1,
        releases=1,
        error="last",
        failure_detail='{"detail": {"a": 1}}',
        failure_reason=8,
        only_generation="g2",
    )
    before = row_of(source)
    letter_id = move_by_hand(before[KEY[source]], source=source)

    assert recover(letter_id, "ann") is Sent.SENT

    after = row_of(source)
    reset = {"attempts": 0, "delays": 0, "releases": 0, "error": None, "failure_detail": None, "failure_reason": 99}
    reset |= {"life": 2, "dead_letter_id": letter_id, "suspect": False, "only_generation": None}
    assert {name: after[name] for name in reset} == reset
    kept = set(before) - {*reset, "scheduled_for"}
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}


@pytest.mark.parametrize("source", SOURCES[:2])
def test_an_all_zero_stream_comes_back_as_none_and_a_real_one_stays(source):
    zero = move_by_hand(write_row(source, stream_id=uuid.UUID(int=0)), source=source)
    recover(zero, "ann")
    assert row_of(source)["stream_id"] is None


def test_a_perspective_row_that_waits_already_is_a_conflict_on_either_key(sql):
    source = "wh_perspective_events"
    letter_id = move_by_hand(write_row(source), source=source)
    write_row(source)  # another id, the same stream, perspective and event

    assert recover(letter_id, "ann") is Sent.CONFLICT
    assert DeadLetter.objects.get().recovery_status == 0


def test_a_letter_that_a_broker_gave_up_on_is_recovered_into_the_inbox(sql):
    sql(
        "INSERT INTO wh_dead_letters (dead_letter_id, source_table, source_id, message_type, destination, envelope,"
        " failure_reason, attempts_when_dlq, generation) VALUES (gen_random_uuid(), 'broker', gen_random_uuid(),"
        " 'shop.Wire', 'orders/all', '{\"event_data\": [1], \"metadata\": {}}', 17, 10, 'g')"
    )

    assert recover(DeadLetter.objects.get().pk, "ann") is Sent.SENT
    assert (row_of("wh_inbox")["message_type"], row_of("wh_inbox")["life"]) == ("shop.Wire", 2)


def test_a_move_that_fails_half_way_leaves_the_row_and_no_letter(sql):
    """The row goes and the letter comes in one transaction: a fault between them undoes both."""
    source_id = write_row("wh_inbox")
    sql("ALTER TABLE dead_letter_deaths ADD CONSTRAINT refuse CHECK (error_text <> 'boom')")

    with pytest.raises(IntegrityError), transaction.atomic():
        move_by_hand(source_id, error="boom")

    assert row_of("wh_inbox")["message_id"] == source_id
    assert not DeadLetter.objects.exists()


def test_at_most_a_thousand_subjects_are_kept_of_a_movers_own(sql):
    structure = {"subjects": [{"type": "order", "id": str(n)} for n in range(1_200)]}
    move_by_hand(write_row("wh_inbox", failure_detail=json.dumps(structure)))

    assert DeadLetterSubject.objects.count() == 1_000


def test_a_mover_moves_what_its_own_instance_holds(sql):
    mine, others = write_row("wh_inbox", stream_id=None), write_row("wh_inbox", stream_id=None)
    lease = "lease_token = gen_random_uuid(), lease_expiry = now() + interval '1 min', instance_id = %s"
    sql(f"UPDATE wh_inbox SET {lease} WHERE message_id = %s", INSTANCE, mine)
    sql(f"UPDATE wh_inbox SET {lease} WHERE message_id = %s", uuid.uuid4(), others)

    assert move_by_hand(mine) is not None
    assert move_by_hand(others) is None


def test_a_mover_moves_a_row_of_a_stream_that_its_own_instance_holds(sql):
    source_id = write_row("wh_inbox")
    sql("SELECT admit_arrivals('wh_inbox', 10)")
    lease = "lease_token = gen_random_uuid(), lease_expiry = now() + interval '1 min', instance_id = %s"
    sql(f"UPDATE wh_streams SET {lease}", uuid.uuid4())
    assert move_by_hand(source_id) is None

    sql(f"UPDATE wh_streams SET {lease}", INSTANCE)
    assert move_by_hand(source_id) is not None


@pytest.mark.parametrize("time", ["infinity", "-infinity", "0001-01-01 BC", "9999-12-31"])
@pytest.mark.parametrize("column", ["dead_lettered_at", "next_recovery_at", "quiet_until"])
def test_a_time_that_no_reader_knows_is_refused(time, column, sql):
    move_by_hand(write_row("wh_inbox"))

    with pytest.raises(IntegrityError, match="in_calendar"), transaction.atomic():
        sql(f"UPDATE wh_dead_letters SET {column} = %s", time)
    with pytest.raises(IntegrityError, match="in_calendar"), transaction.atomic():
        write_row("wh_inbox", received_at=time)
