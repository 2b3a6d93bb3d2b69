"""Appending events: versions without a gap, expectations, and who is fed."""

import json
import uuid

import pytest
from django.db import transaction

from queues import Appended, InvalidMessage, VersionConflict, append_event
from queues.models import PerspectiveEvent, PerspectiveSubscription, StoredEvent
from queues.words.messages import stream_uuid
from tests.db.conftest import at_once

UNREPRESENTABLE = {"text": "\x00 \ud800", "number": 10**400}


def versions(stream):
    found = StoredEvent.objects.filter(stream_id=stream_uuid(stream)).order_by("version")
    return [event.version for event in found]


@pytest.mark.django_db
def test_events_of_a_stream_are_numbered_from_one_each_stream_for_itself():
    first, second, other = (append_event(stream, "test.Happened", 1) for stream in ("a", "a", "b"))

    assert (first.version, second.version, other.version) == (1, 2, 1)
    stored = StoredEvent.objects.get(event_id=second.event_id)
    assert (stored.stream_id, stored.event_type) == (stream_uuid("a"), "test.Happened")
    assert json.loads(stored.metadata) == {"stream": "a"}


@pytest.mark.django_db
def test_an_event_keeps_its_exact_bytes_where_the_database_cannot_hold_them():
    append_event("a", "test.Happened", UNREPRESENTABLE)

    assert json.loads(bytes(StoredEvent.objects.get().envelope_raw)) == UNREPRESENTABLE


@pytest.mark.django_db
def test_an_expected_version_that_holds_appends():
    append_event("a", "test.Happened", 1, expected_version=0)

    assert append_event("a", "test.Happened", 2, expected_version=1).version == 2


@pytest.mark.django_db
@pytest.mark.parametrize("expected", [0, 1, 3])
def test_another_version_than_the_expected_one_appends_nothing_and_says_both(expected):
    for _ in range(2):
        append_event("a", "test.Happened", 1)

    with pytest.raises(
        VersionConflict, match=f"stream a was expected at version {expected} and is at version 2"
    ) as exc:
        append_event("a", "test.Happened", 2, expected_version=expected)

    assert (exc.value.expected, exc.value.present) == (expected, 2)
    assert versions("a") == [1, 2]


@pytest.mark.django_db
@pytest.mark.parametrize("expected", [-1, True, "1", 2**31, 1.0])
def test_an_expected_version_that_cannot_be_is_refused(expected):
    with pytest.raises(InvalidMessage, match="expected version"):
        append_event("a", "test.Happened", 1, expected_version=expected)


@pytest.mark.django_db
@pytest.mark.parametrize(("stream", "event_type"), [(None, "t"), ("", "t"), ("a", ""), ("a", "x" * 501)])
def test_an_event_without_a_stream_or_a_type_is_refused(stream, event_type):
    with pytest.raises(InvalidMessage):
        append_event(stream, event_type, 1)


@pytest.mark.django_db
def test_an_event_id_is_appended_once_and_says_its_version_again():
    event_id = uuid.uuid4()
    append_event("a", "test.Happened", 1, event_id=event_id, expected_version=0)
    append_event("a", "test.Happened", 2)

    again = append_event("a", "test.Happened", 1, event_id=event_id, expected_version=0)

    assert again == Appended(event_id=event_id, version=1)
    assert versions("a") == [1, 2]


@pytest.mark.django_db
def test_an_event_id_of_another_stream_is_refused():
    event_id = append_event("a", "test.Happened", 1).event_id

    with pytest.raises(InvalidMessage, match="in another stream"):
        append_event("b", "test.Happened", 1, event_id=event_id)


@pytest.mark.django_db(transaction=True)
def test_two_who_expect_the_same_version_are_one_winner_and_one_conflict():
    def append(name):
        try:
            return append_event("a", "test.Happened", name, expected_version=0).version
        except VersionConflict as exc:
            return str(exc)

    for _ in range(5):
        StoredEvent.objects.all().delete()
        answers = at_once(lambda: append("one"), lambda: append("two"))

        assert sorted(map(str, answers)) == ["1", "the stream a was expected at version 0 and is at version 1"]
        assert versions("a") == [1]


@pytest.mark.django_db(transaction=True)
def test_concurrent_appends_without_an_expectation_get_consecutive_versions():
    def append_some():
        return [append_event("a", "test.Happened", n).version for n in range(20)]

    got = at_once(append_some, append_some, append_some)

    assert sorted(version for some in got for version in some) == list(range(1, 61))
    assert versions("a") == list(range(1, 61))


@pytest.mark.django_db(transaction=True)
def test_a_version_that_was_rolled_back_leaves_no_gap():
    def fails():
        append_event("a", "test.Happened", 1)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        transaction.atomic(fails)()
    append_event("a", "test.Happened", 1)

    assert versions("a") == [1]


@pytest.mark.django_db
def test_each_subscribed_perspective_is_fed_and_no_other():
    for perspective, event_type in (("totals", "test.Happened"), ("search", "test.Happened"), ("mail", "test.Other")):
        PerspectiveSubscription.objects.create(perspective_name=perspective, event_type=event_type)

    event = append_event("a", "test.Happened", 1)

    fed = PerspectiveEvent.objects.filter(event_id=event.event_id).values_list("perspective_name", "stream_id")
    assert sorted(fed) == [("search", stream_uuid("a")), ("totals", stream_uuid("a"))]


@pytest.mark.django_db(transaction=True)
def test_a_commit_of_events_wakes_the_perspectives_once(monkeypatch):
    woken = []
    monkeypatch.setattr("queues.wakeups.send", lambda wakeup: woken.extend(wakeup.args))
    with transaction.atomic():
        append_event("a", "test.Happened", 1)
        append_event("b", "test.Happened", 1)

    assert woken == ["wh_perspective_events"]
