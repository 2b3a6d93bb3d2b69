"""What is around one dead letter: its stream, letters like it, its place in a list, its timeline page by page."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection
from django.urls import reverse
from django.utils import timezone

from deadletters import counting
from deadletters.models import DeadLetter, DeadLetterDeath, FailureGroup, GroupFingerprint, RecoveryStatus
from deadletters.queries import parts
from queues.models import DeliveryLogEntry, InboxMessage, PerspectiveCursor, StoredEvent, Stream
from tests.db.rows import write_row
from tests.factories import NOON, a_letter, a_run
from tests.web.conftest import HTMX

pytestmark = pytest.mark.django_db


def address(letter):
    return reverse("deadletters:letter", args=[letter.pk])


def context(page, letter, **parameters):
    response = page.get(address(letter), parameters)
    assert response.status_code == 200
    return response.context


def content(page, letter, **parameters):
    return page.get(address(letter), parameters).content.decode()


def at(position, stream, **fields):
    """Make a letter at a place of a stream."""
    letter = a_letter(stream_id=stream, **fields)
    DeadLetter.objects.filter(pk=letter.pk).update(source_row={"position": position})
    return letter


# --- the stream


def test_the_stream_shows_what_stands_before_and_behind_by_position(page):
    stream = uuid4()
    for position in (10, 20, 30, 40):
        at(position, stream, message_type=f"shop.M{position}")
    letter = at(45, stream)
    at(60, stream, message_type="shop.M60", status=RecoveryStatus.HELD)
    for position in (50, 55, 70):
        write_row("wh_inbox", stream_id=stream, position=position)
    at(47, uuid4())

    found = context(page, letter)["stream"].value
    assert [(one.place, one.state) for one in found.before] == [(20, "dead"), (30, "dead"), (40, "dead")]
    assert [(one.place, one.state) for one in found.after] == [(50, "waiting"), (55, "waiting"), (60, "dead")]
    assert found.waiting == 3
    assert found.applied_later == 0


def test_later_messages_that_were_handled_are_a_warning(page):
    stream = uuid4()
    letter = at(5, stream)
    at(6, stream, status=RecoveryStatus.RECOVERED)
    at(4, stream, status=RecoveryStatus.RECOVERED)

    assert "A later message of this stream was applied already." in content(page, letter)
    assert "applied already" not in content(page, at(7, stream))


def test_who_holds_the_stream_is_said_and_linked(page):
    stream = uuid4()
    holder, other = at(1, stream), at(2, stream)
    Stream.objects.create(queue="wh_inbox", stream_id=stream, due_at=NOON, held_by=holder.pk)

    assert "The stream waits behind this letter." in content(page, holder)
    shown = content(page, other).partition('id="stream"')[2]
    assert f'href="{address(holder)}"' in shown
    assert "another dead letter" in shown


def test_an_event_of_a_perspective_stands_among_the_events_that_were_applied(page):
    stream = uuid4()
    events = [
        StoredEvent.objects.create(
            event_id=uuid4(), stream_id=stream, event_type=f"shop.E{version}", event_data={}, version=version
        )
        for version in range(1, 6)
    ]
    letter = a_letter(source_table="wh_perspective_events", perspective_name="totals", stream_id=stream)
    DeadLetter.objects.update(source_row={"event_id": str(events[2].pk), "position": 3})
    PerspectiveCursor.objects.create(stream_id=stream, perspective_name="totals", version=4)
    write_row("wh_perspective_events", stream_id=stream, perspective_name="totals", event_id=events[4].pk, position=5)

    found = context(page, letter)["stream"].value
    assert found.place == 3
    assert [(one.place, one.state) for one in found.before] == [(1, "applied"), (2, "applied")]
    assert [(one.place, one.state) for one in found.after] == [(4, "applied"), (5, "waiting")]
    assert (found.applied_later, found.waiting) == (1, 1)


@pytest.mark.parametrize("position", ["x", None, {"a": 1}, 10**30])
def test_a_place_that_is_none_is_said_and_breaks_nothing(page, position):
    assert "Its place in the stream is not recorded." in content(page, at(position, uuid4()))


def test_a_letter_without_a_stream_has_no_such_section(page):
    assert 'id="stream"' not in content(page, a_letter())


def test_the_stream_of_a_foreign_event_id_breaks_nothing(page):
    letter = a_letter(source_table="wh_perspective_events", perspective_name="totals", stream_id=uuid4())
    DeadLetter.objects.update(source_row={"event_id": "no id", "position": 3})

    assert context(page, letter)["stream"].value.place is None


# --- letters like it


def test_the_newest_of_the_same_fault_and_of_the_same_subject_are_shown(page):
    same = [a_letter(error_fingerprint="a" * 16, error_fingerprint_version=2) for _ in range(8)]
    about = [a_letter(subjects=[("order", "42")]) for _ in range(7)]
    letter = a_letter(error_fingerprint="a" * 16, error_fingerprint_version=2, subjects=[("order", "42")])
    a_letter(error_fingerprint="a" * 16, error_fingerprint_version=1)
    counting.fold()

    found = context(page, letter)["similar"].value
    assert [one.pk for one in found.of_fault] == [one.pk for one in reversed(same[3:])]
    assert [one.pk for one in found.about_subject] == [one.pk for one in reversed(about[2:])]
    assert "Same fault: 8 others" in content(page, letter)


def test_a_letter_of_a_fault_of_its_own_and_without_a_subject_is_like_none(page):
    a_letter(error="OSError: disk")
    letter = a_letter(error="KeyError: map")

    found = context(page, letter)["similar"].value
    assert (found.of_fault, found.about_subject) == ([], [])


# --- its place in a list


def test_previous_and_next_walk_the_list_from_which_it_was_opened(page):
    letters = [a_letter(message_type=f"shop.{'A' if n % 2 else 'B'}") for n in range(6)]
    wanted = [letter for letter in reversed(letters) if letter.message_type == "shop.A"]

    listed = page.get("/letters/", {"type": "shop.A"}).content.decode()
    link = f"{address(wanted[0])}?in=type%3Dshop.A"
    assert f'href="{link}"' in listed
    walked = [wanted[0].pk]
    while step := (response := page.get(link)).context["steps"].older:
        link = response.content.decode().partition('rel="next" href="')[2].partition('"')[0].replace("&amp;", "&")
        walked.append(step)
    assert walked == [letter.pk for letter in wanted]
    assert response.context["steps"].newer == wanted[1].pk


def test_in_a_group_of_several_fingerprints_the_nearest_of_all_of_them_are_next(page):
    group = FailureGroup.objects.create(group_id=uuid4(), title="Torn")
    made = {}
    for place in range(7):
        value = f"{place % 3:016x}"
        GroupFingerprint.objects.get_or_create(fingerprint=value, version=2, defaults={"group": group})
        fingerprint = {"error_fingerprint": value, "error_fingerprint_version": 2}
        made[place] = a_letter(dead_lettered_at=NOON + timedelta(minutes=place), **fingerprint)

    for place in range(1, 6):
        steps = context(page, made[place], **{"in": f"group={group.pk}"})["steps"]
        assert (steps.older, steps.newer) == (made[place - 1].pk, made[place + 1].pk)


def test_letters_of_one_moment_are_each_met_once(page):
    letters = {a_letter(dead_lettered_at=NOON).pk for _ in range(5)}

    first = page.get("/letters/").context["page"].rows[0].letter
    walked, steps = [first.pk], context(page, first, **{"in": ""})["steps"]
    assert steps.newer is None
    while steps.older:
        walked.append(steps.older)
        steps = page.get(reverse("deadletters:letter", args=[steps.older]), {"in": ""}).context["steps"]
    assert set(walked) == letters
    assert len(walked) == 5


@pytest.mark.parametrize("given", ["q=KeyError", "cause=terminal", "payload=wanted"])
def test_what_no_index_finds_is_looked_for_near_the_letter_only(page, monkeypatch, given):
    monkeypatch.setattr("deadletters.queries.letters.NEAR", 2)
    monkeypatch.setattr("deadletters.queries.payloads.SEARCHED", 2)
    wanted = {"error": "KeyError: map", "cause": "terminal", "payload": '{"a": "wanted"}'}
    first, letter = a_letter(**wanted), a_letter()
    for _ in range(2):
        a_letter()
    far = a_letter(**wanted)

    steps = context(page, letter, **{"in": given})["steps"]
    assert (steps.older, steps.newer) == (first.pk, None)
    assert context(page, far, **{"in": given})["steps"].older is None


@pytest.mark.parametrize("given", [{}, {"in": "nonsense=1"}, {"in": "since=soon"}, {"in": "\x00"}, {"in": "a" * 9_000}])
def test_without_a_list_there_is_no_previous_and_no_next(page, given):
    a_letter()
    letter = a_letter()

    shown = page.get(address(letter), given).content.decode()
    assert 'rel="next"' not in shown
    assert 'rel="prev"' not in shown


@pytest.mark.parametrize("name", ["recover", "decide", "add_note", "triage_letter"])
def test_what_is_done_without_script_leads_back_into_the_list(page, name):
    letter = a_letter()
    form = page.get(address(letter), {"in": "status=open"}).content.decode()
    action = form.partition(f'action="{reverse(f"deadletters:{name}", args=[letter.pk])}')[2].partition('"')[0]

    assert action == "?in=status%3Dopen"
    data = {"decision": "hold", "status": "0", "text": "x", "seen": page.get(address(letter)).context["form_seen"]}
    response = page.post(reverse(f"deadletters:{name}", args=[letter.pk]) + action, data)
    assert response.headers["Location"] == address(letter) + action


def test_a_group_of_many_fingerprints_is_walked_in_one_statement(page, django_assert_max_num_queries):
    letters = [a_letter(error=f"E: {n}") for n in range(3)]
    counting.fold()
    group = page.get(address(letters[0])).context["group"]

    with django_assert_max_num_queries(13):
        page.get(address(letters[0]), {"in": f"group={group.pk}"})


# --- its timeline, page by page


def test_every_run_is_found_by_going_to_older_ones_and_none_twice(page):
    letter, now = a_letter(dead_lettered_at=timezone.now()), timezone.now()
    DeliveryLogEntry.objects.bulk_create(
        DeliveryLogEntry(
            source="wh_inbox",
            message_id=letter.source_id,
            attempt=n,
            outcome="failure",
            started_at=now - timedelta(seconds=500 - n),
            duration_ms=5,
            logged_at=now - timedelta(seconds=500 - n) + timedelta(milliseconds=200),
        )
        for n in range(1, 101)
    )

    titles, given = [], {}
    while True:
        told = page.get(address(letter), given).context["timeline"]
        titles += [event.title for event in told.events]
        if told.older_than is None:
            break
        assert len(told.events) >= parts.EVENTS
        given = {"before": told.older_than.isoformat()}
    runs = [title for title in titles if title.startswith("Failed")]
    assert runs == [f"Failed after 5 ms · attempt {n}" for n in range(100, 0, -1)]
    assert sum(title.startswith("Dead-lettered") for title in titles) == 1


def test_events_of_one_moment_are_not_parted(page):
    letter, now = a_letter(dead_lettered_at=NOON), timezone.now()
    DeliveryLogEntry.objects.bulk_create(
        DeliveryLogEntry(source="wh_inbox", message_id=letter.source_id, attempt=n, outcome="failure", logged_at=now)
        for n in range(1, 32)
    )

    told = context(page, letter)["timeline"]
    older = context(page, letter, before=told.older_than.isoformat())["timeline"]
    assert len(told.events) == 31
    assert [event.kind for event in older.events] == ["death"]


def test_older_events_come_as_a_fragment_and_as_a_page(page):
    letter = a_letter()
    given = {"before": (letter.dead_lettered_at + timedelta(days=1)).isoformat()}

    fragment = page.get(address(letter), given, headers=HTMX).content.decode()
    assert fragment.lstrip().startswith('<section id="timeline"')
    assert "Newest" in fragment
    assert "</html>" in page.get(address(letter), given).content.decode()
    assert page.get(address(letter), {"before": ""}).status_code == 200
    for odd in ("soon", "2026-01-01", "99999-01-01"):
        assert page.get(address(letter), {"before": odd}).status_code == 400


def test_a_recovery_tells_its_verdict_and_leads_to_its_run(page):
    letter = a_letter(deaths=2)
    item = a_run([letter]).items.get()
    DeadLetterDeath.objects.filter(dead_letter=letter, number=1).update(
        recovery_sent_at=NOON, recovery_actor="olga", verdict="failed_again", verdict_at=NOON, recovery_item_id=item.pk
    )

    response = page.get(address(letter))
    (sent,) = [event for event in response.context["timeline"].events if event.kind == "sent"]
    assert (sent.title, sent.by, sent.run) == ("Recovery sent, failed again", "olga", item.run_id)
    assert "in a run</a>" in response.content.decode()


# --- when something takes too long


@pytest.mark.parametrize(
    ("table", "said"),
    [("delivery_log", "Took too long."), ("wh_streams", "Took too long."), ("dead_letter_subjects", "Took too long.")],
)
def test_a_part_that_takes_too_long_leaves_the_rest_of_the_page(page, settings, table, said):
    letter = at(1, uuid4(), error="ValueError: the reason", subjects=[("order", "42")])
    Stream.objects.create(queue="wh_inbox", stream_id=letter.stream_id, due_at=NOON)
    settings.DEADLETTERS = {"REGION_SECONDS": 0.2}
    with connection.cursor() as cursor:  # reading a row of the table sleeps from now on
        cursor.execute(f"ALTER TABLE {table} RENAME TO slow_{table}")
        cursor.execute(f"CREATE VIEW {table} AS SELECT s.* FROM slow_{table} s, pg_sleep(1)")

    shown = content(page, letter)
    assert said in shown
    assert "ValueError: the reason" in shown
    assert "</html>" in shown
    assert not InboxMessage.objects.exists()
