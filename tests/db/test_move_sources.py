"""The move and the recovery of each source: what is kept, what comes back, what a foreign mover may leave out."""

import json
import threading
import uuid
from contextlib import closing

import pytest
from django.db import IntegrityError, connection, transaction

from deadletters.models import DeadLetter, DeadLetterDeath, DeadLetterSubject
from deadletters.store.letters import Store
from deadletters.store.recovery import Sent, recover
from queues.words.dead_letters import Death
from queues.words.failures import Failure
from queues.words.outcomes import Cause, FailureReason
from tests.db.conftest import INSTANCE, move_by_hand

pytestmark = pytest.mark.django_db

SOURCES = ("wh_inbox", "wh_outbox", "wh_perspective_events")
KEY = {"wh_inbox": "message_id", "wh_outbox": "message_id", "wh_perspective_events": "event_work_id"}
BODY = {"event_data": {"a": 1}, "metadata": {"headers": {"tenant": "7"}}}
OWN = {
    "wh_inbox": {"handler_name": "shop.handlers.place", "source_commit_sequence": 77},
    "wh_outbox": {"destination": "bank", "envelope_type": "Envelope", "is_event": True},
    "wh_perspective_events": {"perspective_name": "totals", "event_id": uuid.UUID(int=5)},
}


def write_row(source, **columns):
    """Write a row as another language's service would, and return its id."""
    values = {KEY[source]: uuid.uuid4(), "stream_id": uuid.UUID(int=9), "attempts": 7, **OWN[source], **columns}
    if source != "wh_perspective_events":
        values = {"message_type": "by.Hand", **{name: json.dumps(body) for name, body in BODY.items()}, **values}
    names = ", ".join(f'"{name}"' for name in values)
    with connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO {source} ({names}) VALUES ({', '.join(['%s'] * len(values))})", [*values.values()])
    return values[KEY[source]]


def store_event(event_id=OWN["wh_perspective_events"]["event_id"]):
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO wh_event_store (event_id, stream_id, event_type, event_data, metadata, version, envelope_raw)"
            " VALUES (%s, %s, 'shop.OrderPlaced', %s, %s, 3, %s)",
            [event_id, uuid.UUID(int=9), *map(json.dumps, BODY.values()), b'{"a": 1}'],
        )


def row_of(source):
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {source}")
        names = [column.name for column in cursor.description]
        (row,) = cursor.fetchall()
        return dict(zip(names, row, strict=True))


@pytest.mark.parametrize("source", SOURCES)
def test_the_seven_arguments_move_a_row_of_each_source(source, sql):
    source_id = write_row(source)

    letter_id = move_by_hand(source_id, source=source, error="boom")

    letter = DeadLetter.objects.get()
    assert letter.dead_letter_id == letter_id
    assert (letter.source_table, letter.source_id, letter.stream_id) == (source, source_id, uuid.UUID(int=9))
    assert (letter.failure_reason, letter.error_text, letter.attempts_when_dlq) == (2, "boom", 7)
    assert (letter.generation, letter.dead_lettered_by) == ("build-1", INSTANCE)
    assert (letter.recovery_status, letter.recovery_attempts, letter.next_recovery_at) == (0, 0, None)
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
    reset |= {"life": 2, "dead_letter_id": letter_id, "suspect": False}
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


def die_again(letter_id, *, generation="build-1", error="boom"):
    (source_id,) = DeadLetter.objects.filter(pk=letter_id).values_list("source_id", flat=True)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT move_to_dead_letters(gen_random_uuid(), 'wh_inbox', %s, 2, %s, NULL, %s)",
            [source_id, error, generation],
        )


def scheduled_recovery(letter_id):
    with connection.cursor() as cursor:
        cursor.execute("SELECT recover_dead_letter(%s, 'schedule', p_scheduled => true)", [letter_id])


def test_the_budget_of_automatic_recoveries_counts_those_of_the_schedule_exactly():
    letter_id = move_by_hand(write_row("wh_inbox"))
    for spent in (1, 2, 3):
        scheduled_recovery(letter_id)
        die_again(letter_id)
        assert DeadLetter.objects.get().recovery_attempts == spent

    recover(letter_id, "ann")
    die_again(letter_id)
    assert DeadLetter.objects.get().recovery_attempts == 3, "a person's recovery does not count"


def test_the_first_death_on_a_new_build_starts_the_budget_anew_and_only_once():
    letter_id = move_by_hand(write_row("wh_inbox"))
    scheduled_recovery(letter_id)
    die_again(letter_id, generation="build-2")
    assert DeadLetter.objects.get().recovery_attempts == 0

    scheduled_recovery(letter_id)
    die_again(letter_id, generation="build-1")
    assert DeadLetter.objects.get().recovery_attempts == 1, "a rollback is not new"


@pytest.mark.parametrize(
    ("second", "verdict"),
    [
        ({"error": "Boom: order 18"}, "failed_again"),
        ({"error": "Other: order 18"}, "failed_differently"),
        ({"error": "Boom: order 17", "cause": "terminal"}, "failed_differently"),
    ],
)
def test_a_second_death_is_the_same_fault_only_if_fingerprint_and_cause_agree(second, verdict):
    letter_id = move_by_hand(write_row("wh_inbox"), error="Boom: order 17")
    recover(letter_id, "ann")

    move_by_hand(DeadLetter.objects.get().source_id, **second)

    assert DeadLetterDeath.objects.get(number=1).verdict == verdict


def test_a_message_that_could_not_be_run_again_failed_differently():
    letter_id = move_by_hand(write_row("wh_inbox"), error="no handler", cause="no_handler")
    recover(letter_id, "ann")

    move_by_hand(DeadLetter.objects.get().source_id, error="no handler", cause="no_handler")

    assert DeadLetterDeath.objects.get(number=1).verdict == "failed_differently"


def test_versions_of_fingerprints_are_compared_at_one_version():
    letter_id = move_by_hand(write_row("wh_inbox"), error="Boom: order 17")
    recover(letter_id, "ann")
    source_id = DeadLetter.objects.get().source_id

    store_death(source_id, Failure(message="Boom: order 18"))

    assert DeadLetter.objects.get().error_fingerprint_version == 2
    assert DeadLetterDeath.objects.get(number=1).verdict == "failed_again"


def store_death(source_id, failure, **changes):
    token = uuid.uuid4()
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE wh_inbox SET lease_token = %s, lease_expiry = now() + interval '1 min', instance_id = %s"
            " WHERE message_id = %s",
            [token, INSTANCE, source_id],
        )
    death = {
        "source": "wh_inbox",
        "source_id": source_id,
        "cause": Cause.BUDGET_SPENT,
        "reason": FailureReason.UNKNOWN,
        "failure": failure,
        "last_reported": None,
        "attempts": 1,
        "instance_id": INSTANCE,
        "generation": "build-1",
        "lease_token": token,
        **changes,
    }
    return Store().move([Death(**death)])


def test_the_store_moves_and_returns_the_letter_and_nothing_for_a_row_that_is_gone():
    source_id = write_row("wh_inbox")

    assert store_death(source_id, Failure(message="x")) == {source_id: DeadLetter.objects.get().pk}
    assert store_death(source_id, Failure(message="x")) == {}


@pytest.mark.parametrize("missing", ["source", "generation"])
def test_the_store_refuses_a_death_without_a_source_or_a_build(missing):
    with pytest.raises(ValueError, match="names its source and its generation"):
        store_death(write_row("wh_inbox"), Failure(message="x"), **{missing: ""})
    assert not DeadLetter.objects.exists()


def test_a_move_that_fails_half_way_leaves_the_row_and_no_letter(sql):
    """The row goes and the letter comes in one transaction: a fault between them undoes both."""
    source_id = write_row("wh_inbox")
    sql("ALTER TABLE dead_letter_deaths ADD CONSTRAINT refuse CHECK (error_text <> 'boom')")

    with pytest.raises(IntegrityError), transaction.atomic():
        move_by_hand(source_id, error="boom")

    assert row_of("wh_inbox")["message_id"] == source_id
    assert not DeadLetter.objects.exists()


def test_a_letter_id_that_another_message_has_is_not_used_again():
    first, second = write_row("wh_inbox"), write_row("wh_inbox")
    letter_id = move_by_hand(first)

    other_id = move_by_hand_to(letter_id, second)

    assert other_id not in (None, letter_id)
    assert set(DeadLetter.objects.values_list("dead_letter_id", "source_id", "deaths")) == {
        (letter_id, first, 1),
        (other_id, second, 1),
    }


def move_by_hand_to(letter_id, source_id):
    with connection.cursor() as cursor:
        cursor.execute("SELECT move_to_dead_letters(%s, 'wh_inbox', %s, 2, 'boom', NULL, 'b')", [letter_id, source_id])
        return cursor.fetchone()[0]


@pytest.mark.django_db(transaction=True)
def test_two_movers_with_one_new_letter_id_lose_no_message(sql):
    letter_id, messages = uuid.uuid4(), [write_row("wh_inbox"), write_row("wh_inbox")]
    locked, leave = threading.Event(), threading.Event()

    def first():
        with closing(connection), transaction.atomic():
            move_by_hand_to(letter_id, messages[0])
            locked.set()
            assert leave.wait(20)

    thread = threading.Thread(target=first)
    thread.start()
    assert locked.wait(20)
    second = threading.Thread(target=refused_move, args=(letter_id, messages[1]))
    second.start()
    while not sql("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"):
        pass
    leave.set()
    thread.join(20)
    second.join(20)

    assert list(DeadLetter.objects.values_list("source_id", flat=True)) == [messages[0]]
    assert row_of("wh_inbox")["message_id"] == messages[1]


def refused_move(letter_id, source_id):
    with closing(connection), pytest.raises(IntegrityError, match="written meanwhile"), transaction.atomic():
        move_by_hand_to(letter_id, source_id)


def test_a_row_of_a_superseded_letter_overwrites_no_letter(sql):
    old, survivor = (move_by_hand(write_row("wh_inbox")) for _ in range(2))
    sql("UPDATE wh_dead_letters SET superseded_by = %s WHERE dead_letter_id = %s", survivor, old)
    source_id = write_row("wh_inbox", dead_letter_id=old)

    letter_id = move_by_hand(source_id)

    assert letter_id not in (old, survivor)
    assert DeadLetter.objects.get(pk=letter_id).source_id == source_id
    assert DeadLetter.objects.filter(deaths=1).count() == 3


def test_a_row_whose_letter_is_gone_makes_a_letter_under_that_id():
    gone = uuid.uuid4()

    assert move_by_hand(write_row("wh_inbox", dead_letter_id=gone)) == gone


def test_a_death_that_recorded_no_subject_leaves_the_letter_with_those_it_had(sql):
    structure = json.dumps({"subjects": [{"type": "order", "id": "42"}]})
    letter_id = move_by_hand(write_row("wh_inbox", failure_detail=structure))
    recover(letter_id, "ann")
    move_by_hand(DeadLetter.objects.get().source_id, cause="no_handler")
    assert [subject.id for subject in DeadLetterSubject.objects.all()] == ["42"]

    recover(letter_id, "ann")
    sql("UPDATE wh_inbox SET failure_detail = %s", structure.replace("42", "43"))
    move_by_hand(DeadLetter.objects.get().source_id)
    assert [subject.id for subject in DeadLetterSubject.objects.all()] == ["43"]


def test_at_most_a_thousand_subjects_are_kept_of_a_movers_own(sql):
    structure = {"subjects": [{"type": "order", "id": str(n)} for n in range(1_200)]}
    move_by_hand(write_row("wh_inbox", failure_detail=json.dumps(structure)))

    assert DeadLetterSubject.objects.count() == 1_000


def test_a_second_death_is_not_due_by_the_first_ones_date(sql):
    letter_id = move_by_hand(write_row("wh_inbox"))
    sql("UPDATE wh_dead_letters SET next_recovery_at = now()")
    recover(letter_id, "ann")
    sql("UPDATE wh_dead_letters SET next_recovery_at = now()")

    move_by_hand(DeadLetter.objects.get().source_id)

    assert DeadLetter.objects.get().next_recovery_at is None


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
