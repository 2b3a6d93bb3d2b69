"""What a frozen run would do, counted from its letters, and what speaks against it."""

from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.utils import timezone
from structlog.testing import capture_logs

from deadletters.models import Disposition, ItemState, RecoveryStatus, RunState
from deadletters.queries import previews
from deadletters.recovery.preview import preview
from queues.models import (
    Destination,
    PerspectiveCursor,
    SeenMessage,
    ServiceInstance,
    SourcePause,
    Stream,
)
from tests.db.rows import store_event
from tests.factories import a_letter, a_run

pytestmark = pytest.mark.django_db

STREAM = UUID(int=9)
EVENT = UUID(int=5)


def risk_of(run, key):
    return next((risk for risk in preview(run.pk).risks if risk.key == key), None)


def a_worker(*types, perspectives=()):
    ServiceInstance.objects.create(
        instance_id=uuid4(),
        service_name="shop",
        host_name="host-a",
        process_id=7,
        metadata={"types": list(types), "perspectives": list(perspectives)},
    )


def log(letter, outcome="success", source=None):
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO delivery_log (source, message_id, attempt, outcome) VALUES (%s, %s, 1, %s)",
            [source or letter.source_table, letter.source_id, outcome],
        )


def an_event(perspective="totals", **fields):
    return a_letter(
        source_table="wh_perspective_events",
        message_type="shop.OrderPlaced",
        perspective_name=perspective,
        stream_id=STREAM,
        source_row={"event_id": str(EVENT)},
        **fields,
    )


def test_letters_are_counted_by_source_type_target_age_and_stream():
    now = timezone.now()
    letters = [
        a_letter(message_type="a.A", stream_id=STREAM, dead_lettered_at=now - timedelta(minutes=5)),
        a_letter(message_type="a.A", stream_id=STREAM, dead_lettered_at=now - timedelta(hours=5)),
        a_letter(source_table="wh_outbox", destination="bank", dead_lettered_at=now - timedelta(days=90)),
        an_event(dead_lettered_at=now - timedelta(days=3)),
    ]
    run = a_run([*letters, a_letter(message_type="not.Sent")], states=[ItemState.WAITING] * 4 + [ItemState.SKIPPED])

    found = preview(run.pk)

    assert {share.name: share.n for share in found.sources.shares} == {
        "wh_inbox": 2,
        "wh_outbox": 1,
        "wh_perspective_events": 1,
    }
    assert (found.types.shares[0].name, found.types.shares[0].n) == ("a.A", 2)
    assert {share.name: share.n for share in found.targets.shares} == {"bank": 1, "totals": 1}
    assert {age.name: age.n for age in found.ages.ages} == {
        "1 hour": 1,
        "1 day": 1,
        "7 days": 1,
        "30 days": 0,
        "longer": 1,
    }
    assert (found.ages.oldest, found.ages.newest) == (letters[2].dead_lettered_at, letters[0].dead_lettered_at)
    assert (found.streams.streams, found.streams.without) == (1, 1)
    assert (found.streams.biggest, found.streams.biggest_n) == (STREAM, 3)
    assert found.looked_at is None


def test_a_breakdown_tells_the_first_names_and_how_many_others_there_are():
    run = a_run([a_letter(message_type=f"type.Number{n}") for n in range(10)])

    types = preview(run.pk).types

    assert (len(types.shares), types.others, types.other_names) == (8, 2, 2)


def test_the_samples_are_of_as_many_types_and_targets_as_there_are():
    many = [a_letter(message_type="a.A") for _ in range(6)]
    run = a_run([*many, a_letter(message_type="b.B"), a_letter(source_table="wh_outbox", destination="bank")])

    sampled = preview(run.pk).samples

    assert len(sampled) == 5
    assert [letter.message_type for letter in sampled[:3]] == ["a.A", "b.B", "shop.PlaceOrder"]
    assert sampled[0].pk == many[0].pk


def test_what_changed_since_the_freeze_and_what_a_person_holds_is_told_apart():
    held = a_letter(status=RecoveryStatus.HELD, operator_disposition=Disposition.HOLD_INDEFINITELY)
    changed, gone, fine = a_letter(), a_letter(), a_letter()
    run = a_run([held, changed, gone, fine])
    type(changed).objects.filter(pk=changed.pk).update(row_version=7)
    gone.delete()

    found = preview(run.pk).unsendable

    assert (found.changed, found.held) == (2, 1)


@pytest.mark.parametrize("source", ["wh_inbox", "wh_outbox"])
def test_a_message_that_was_handled_before_is_told(source):
    done, failed, other = (a_letter(source_table=source) for _ in range(3))
    log(done)
    log(failed, "failure")
    log(other, source="wh_perspective_events")

    assert risk_of(a_run([done, failed, other]), "handled_before").n == 1


def test_a_message_that_was_published_or_received_before_is_told():
    published = a_letter(source_table="wh_outbox", source_row={"published_at": "2026-01-01T00:00:00+00:00"})
    pending = a_letter(source_table="wh_outbox", source_row={"published_at": None})
    received, unknown = a_letter(source_table="broker"), a_letter(source_table="broker")
    SeenMessage.objects.create(message_id=received.source_id)

    assert risk_of(a_run([published, pending, received, unknown]), "handled_before").n == 2


@pytest.mark.parametrize(("version", "n"), [(3, None), (4, 1)])
def test_an_event_that_its_perspective_has_gone_past_is_told(version, n):
    store_event(EVENT)
    PerspectiveCursor.objects.create(stream_id=STREAM, perspective_name="totals", version=version)
    run = a_run([an_event(), an_event("others")])

    risk = risk_of(run, "overtaken")

    assert (risk.n if risk else None) == n


def test_a_message_whose_later_ones_were_recovered_is_told():
    letters = [a_letter(stream_id=STREAM, source_row={"position": place}) for place in (1, 2, 4)]
    a_letter(stream_id=STREAM, source_row={"position": 3}, status=RecoveryStatus.RECOVERED)

    assert risk_of(a_run(letters), "overtaken").n == 2


def test_a_fault_that_is_happening_now_is_told_with_its_fingerprint():
    known = {"error_fingerprint": "a" * 16, "error_fingerprint_version": 2}
    run = a_run([a_letter(**known), a_letter(**known), a_letter(error_fingerprint="b" * 16)])
    assert risk_of(run, "failing_now") is None

    a_letter(**known, dead_lettered_at=timezone.now() - timedelta(minutes=1))

    risk = risk_of(run, "failing_now")
    assert (risk.n, list(risk.names)) == (2, ["a" * 16])


def test_no_worker_alive_is_told_and_then_what_the_living_do_not_handle():
    run = a_run([a_letter(message_type="a.A"), a_letter(message_type="b.B"), an_event(), an_event("other")])
    assert risk_of(run, "no_worker").n == 4

    a_worker("a.A", perspectives=["totals"])

    assert risk_of(run, "no_worker") is None
    risk = risk_of(run, "unhandled")
    assert (risk.n, set(risk.names)) == (2, {"b.B", "other"})


def test_what_is_paused_or_down_is_told():
    run = a_run(
        [
            a_letter(message_type="a.A"),
            a_letter(source_table="broker", message_type="a.A"),
            a_letter(message_type="b.B"),
            a_letter(source_table="wh_outbox", destination="bank"),
            a_letter(source_table="wh_outbox", destination="post"),
            an_event(),
        ]
    )
    now = timezone.now()
    SourcePause.objects.create(source="wh_inbox", kind="type", value="a.A", paused_by="lea")
    SourcePause.objects.create(source="wh_perspective_events", kind="source", paused_by="lea")
    SourcePause.objects.create(source="wh_outbox", kind="destination", value="post", paused_by="lea", until=now)
    Destination.objects.create(name="bank", state="open", opened_at=now, retry_at=now)
    Destination.objects.create(name="post")

    paused, down = risk_of(run, "paused"), risk_of(run, "down")

    assert (paused.n, set(paused.names)) == (3, {"a.A", "totals"})
    assert (down.n, list(down.names)) == (1, ["bank"])


def test_a_stream_that_waits_behind_a_letter_outside_the_run_is_told():
    holder, behind, alone = a_letter(stream_id=STREAM), a_letter(stream_id=STREAM), an_event()
    for queue, letter in (("wh_inbox", holder), ("wh_perspective_events:totals", alone)):
        Stream.objects.create(queue=queue, stream_id=STREAM, due_at=timezone.now(), held_by=letter.pk)

    assert risk_of(a_run([behind, alone]), "behind_another").n == 1
    assert risk_of(a_run([holder, behind, alone]), "behind_another") is None


def test_more_letters_than_are_looked_at_are_said_so(monkeypatch):
    monkeypatch.setattr(previews, "MAX_ITEMS", 2)
    run = a_run([a_letter() for _ in range(3)])

    found = preview(run.pk)

    assert found.looked_at == 2
    assert sum(share.n for share in found.types.shares) == 2


def test_a_part_that_takes_too_long_is_missing_and_the_rest_is_there(monkeypatch):
    run = a_run([a_letter()])
    monkeypatch.setattr(previews, "PART_SECONDS", 0.05)
    monkeypatch.setattr(previews, "streams", lambda run_id: previews.rows("SELECT pg_sleep(60)", run_id))

    found = preview(run.pk)

    assert found.streams is None
    assert found.is_incomplete
    assert found.types.shares[0].n == 1
    with connection.cursor() as cursor:
        cursor.execute("SHOW statement_timeout")
        assert cursor.fetchone() == ("0",)


def test_a_part_that_the_database_refuses_is_missing_too_and_the_log_says_why(monkeypatch):
    run = a_run([a_letter()])
    monkeypatch.setattr(previews, "ages", lambda run_id, now: previews.rows("SELECT 'x'::uuid", run_id))

    with capture_logs() as logged:
        found = preview(run.pk)

    assert found.ages is None
    assert found.types.shares[0].n == 1
    assert [(line["event"], line["sqlstate"]) for line in logged] == [("region_not_read", "22P02")]


def test_a_run_without_letters_has_an_empty_preview():
    found = preview(a_run(state=RunState.READY).pk)

    assert (found.types.shares, found.streams.streams, found.ages.oldest, found.samples) == ([], 0, None, [])
    assert [risk.key for risk in found.risks] == ["no_worker"]


def test_the_letters_are_read_by_their_indexes():
    run = a_run([a_letter() for _ in range(3)])
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(
            "EXPLAIN " + previews.ITEMS + "SELECT 1 FROM items JOIN wh_dead_letters USING (dead_letter_id)",
            previews.parameters(run.pk),
        )
        plan = "\n".join(line for (line,) in cursor.fetchall())

    assert "recovery_items_by_state" in plan
    assert "wh_dead_letters_pkey" in plan
