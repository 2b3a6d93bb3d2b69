"""Pauses through the operators' door: what is claimed, what is refused, and what a resume wakes."""

from datetime import timedelta
from uuid import UUID

import pytest
from django.core.exceptions import PermissionDenied
from django.db import IntegrityError, transaction
from django.utils import timezone

from deadletters import triage
from deadletters.models import OperatorAction
from deadletters.words.errors import AlreadyPaused, BadChange, NoSuchDestination, NoSuchPause
from queues import handles, send, wakeups
from queues.models import Destination, PerspectiveSubscription, SourcePause, Stream
from queues.testing import drain
from tests.db.conftest import at_once
from tests.factories import a_user

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def woken(monkeypatch):
    """Note the sources whose drainers would be woken."""
    sources = []
    monkeypatch.setattr(wakeups, "wake", sources.append)
    return sources


def last_action():
    return OperatorAction.objects.latest("id")


@pytest.mark.parametrize("stream", [None, "s"])
@pytest.mark.parametrize(("kind", "value"), [("source", ""), ("type", "t.T")])
def test_what_is_paused_is_not_claimed_until_it_is_resumed(olga, handlers, woken, stream, kind, value):
    ran = []
    handles("t.T")(lambda message: ran.append(message.payload))
    send("t.T", 1, stream=stream)

    pause = triage.pause(source="wh_inbox", kind=kind, value=value, user=olga, reason="the bank is down")
    drain()
    assert ran == []
    assert (last_action().action, last_action().after["value"], last_action().reason) == (
        "pause",
        value,
        "the bank is down",
    )

    woken.clear()
    triage.resume(pause_id=pause.pk, user=olga, reason="it is back")
    assert woken == ["wh_inbox"]
    drain()
    assert ran == [1]
    assert (last_action().action, last_action().reason) == ("resume", "it is back")


def test_a_pause_that_is_over_holds_nothing_and_is_replaced(olga, handlers):
    ran = []
    handles("t.T")(lambda message: ran.append(message.payload))
    send("t.T", 1)
    past = timezone.now() - timedelta(seconds=1)
    SourcePause.objects.create(source="wh_inbox", kind="source", paused_by="lea", until=past)

    drain()
    assert ran == [1]
    triage.pause(source="wh_inbox", kind="source", user=olga)
    assert SourcePause.objects.get().paused_by == "olga"


def test_a_resume_wakes_the_streams_that_were_put_off_and_no_others(olga):
    soon, later = timezone.now() + timedelta(seconds=20), timezone.now() + timedelta(hours=1)
    PerspectiveSubscription.objects.create(perspective_name="totals", event_type="x")
    queue = "wh_perspective_events:totals"
    for number, (name, due) in enumerate([(queue, soon), (queue, later), ("wh_inbox", soon)]):
        Stream.objects.create(queue=name, stream_id=UUID(int=number), due_at=due)
    Stream.objects.create(queue=queue, stream_id=UUID(int=9), due_at=soon, held_by=UUID(int=1))

    pause = triage.pause(source="wh_perspective_events", kind="source", user=olga)
    triage.resume(pause_id=pause.pk, user=olga)
    due = Stream.objects.filter(due_at__lte=timezone.now() + timedelta(seconds=5))
    assert list(due.values_list("stream_id", flat=True)) == [UUID(int=0)]


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("source", {"source": "broker", "kind": "source"}),
        ("kind", {"source": "wh_inbox", "kind": "destination", "value": "x"}),
        ("kind", {"source": "wh_outbox", "kind": "type", "value": "x"}),
        ("value", {"source": "wh_inbox", "kind": "source", "value": "x"}),
        ("value", {"source": "wh_inbox", "kind": "type", "value": " "}),
        ("value", {"source": "wh_inbox", "kind": "type", "value": "x" * 501}),
        ("value", {"source": "wh_inbox", "kind": "type", "value": "a\x00b"}),
        ("until", {"source": "wh_inbox", "kind": "source", "until": timezone.now() - timedelta(days=1)}),
    ],
)
def test_what_cannot_be_paused_is_refused_by_its_field(olga, field, wrong):
    with pytest.raises(BadChange) as refused:
        triage.pause(user=olga, **wrong)

    assert refused.value.field == field
    assert not SourcePause.objects.exists()
    assert not OperatorAction.objects.exists()


@pytest.mark.parametrize(("source", "kind"), [("wh_inbox", "destination"), ("wh_outbox", "type"), ("broker", "type")])
def test_the_database_refuses_a_pause_that_no_claim_honours(source, kind):
    with pytest.raises(IntegrityError), transaction.atomic():
        SourcePause.objects.create(source=source, kind=kind, value="x", paused_by="sql")


def test_the_second_of_two_is_told_who_was_first(olga):
    triage.pause(source="wh_inbox", kind="source", user=olga)

    with pytest.raises(AlreadyPaused) as refused:
        triage.pause(source="wh_inbox", kind="source", user=olga)
    assert refused.value.pause.paused_by == "olga"
    assert OperatorAction.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_two_who_pause_and_resume_at_once_do_each_once(olga):
    def pause():
        try:
            return triage.pause(source="wh_inbox", kind="source", user=olga).pk
        except AlreadyPaused:
            return None

    def resume():
        try:
            return triage.resume(pause_id=made, user=olga).pk
        except NoSuchPause:
            return "gone"

    made = next(pk for pk in at_once(pause, pause) if pk)
    assert SourcePause.objects.count() == 1
    assert at_once(resume, resume).count("gone") == 1
    assert OperatorAction.objects.count() == 2


def test_a_destination_that_is_down_is_tried_now(olga, woken):
    later = timezone.now() + timedelta(minutes=5)
    row = Destination.objects.create(name="bank", state="open", failures=3, opened_at=later, retry_at=later)
    Stream.objects.create(queue="wh_outbox", stream_id=UUID(int=1), due_at=later)

    assert triage.try_destination(name="bank", user=olga)
    row.refresh_from_db()
    assert row.retry_at < later
    assert Stream.objects.get().due_at < later
    assert woken == ["wh_outbox"]
    assert last_action().action == "try_destination"

    Destination.objects.update(state="closed")
    assert not triage.try_destination(name="bank", user=olga)
    with pytest.raises(NoSuchDestination):
        triage.try_destination(name="elsewhere", user=olga)
    assert OperatorAction.objects.count() == 1


def test_a_held_stream_goes_on_only_past_the_letter_that_was_seen(olga, woken):
    Stream.objects.create(
        queue="wh_inbox", stream_id=UUID(int=1), due_at=timezone.now() + timedelta(days=1), held_by=UUID(int=5)
    )
    held = {"queue": "wh_inbox", "stream_id": UUID(int=1), "user": olga}

    assert not triage.let_stream_go(**held, held_by=UUID(int=6))
    assert Stream.objects.get().held_by == UUID(int=5)
    assert triage.let_stream_go(**held, held_by=UUID(int=5), reason="give it up")
    stream = Stream.objects.get()
    assert (stream.held_by, stream.due_at <= timezone.now()) == (None, True)
    assert (last_action().action, last_action().dead_letter_id) == ("let_stream_go", UUID(int=5))
    assert not triage.let_stream_go(**held, held_by=UUID(int=5))
    assert OperatorAction.objects.count() == 1
    assert woken == ["wh_inbox"]


def test_nobody_pauses_or_resumes_without_the_right(db):
    vic = a_user("vic", "Viewers")
    pause = SourcePause.objects.create(source="wh_inbox", kind="source", paused_by="lea")
    Destination.objects.create(name="bank")
    acts = [
        lambda: triage.pause(source="wh_outbox", kind="source", user=vic),
        lambda: triage.change_pause(pause_id=pause.pk, user=vic, reason="x", until=None),
        lambda: triage.resume(pause_id=pause.pk, user=vic),
        lambda: triage.try_destination(name="bank", user=vic),
        lambda: triage.let_stream_go(queue="wh_inbox", stream_id=UUID(int=1), held_by=UUID(int=1), user=vic),
    ]

    for act in acts:
        with pytest.raises(PermissionDenied):
            act()
    assert SourcePause.objects.count() == 1
