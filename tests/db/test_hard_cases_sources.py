"""The same poison on the way of the other two sources: published or applied, dead, shown, exported, recovered."""

import html
import json
import math
import re

import pytest

from deadletters.models import DeadLetter, DeadLetterDeath
from queues import Subject, append_event, attribute, detail, projects, publish
from queues.models import DeliveryLogEntry, OutboxMessage, PerspectiveEvent
from queues.perspectives import subscribe
from queues.testing import drain
from queues.words.failures import DEFAULT
from queues.words.messages import stream_uuid
from queues.words.sources import OUTBOX, PERSPECTIVES
from tests.db.roundtrip import (
    DESTINATION,
    OTHERS,
    PERSPECTIVE,
    Mortal,
    browser,
    downloaded,
    found_by,
    looked_at,
    mortal_transport,
    press_recover,
    recovers,
    run_until_dead,
)
from tests.db.test_hard_cases_errors import MAX_FAILURE_BYTES, a_huge_error, long_texts, random_text, stored_bytes
from tests.db.test_hard_cases_payload import IDS

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("handlers")]

RUNS = 2
NUL = '{"a\\u0000b":"c\\u0000d","half":"\\ud800"}'
DIGITS = ("1970670598291982291", "-9223372036854775808", "9007199254740993", "9007199254740995")


@pytest.fixture(params=OTHERS, ids=[other.source for other in OTHERS])
def other(request, settings):
    """Each source beside the inbox, with a budget of two runs."""
    settings.QUEUES = {**settings.QUEUES, "MAX_ATTEMPTS": RUNS, "ROUTES": {DESTINATION: "inbox"}}
    return request.param


@pytest.fixture
def mortal(other, monkeypatch):
    """Return what makes the source's messages fail with an error."""
    return lambda error=lambda: ValueError("never"): other.mortal(monkeypatch, error)


def dead(other, runs=RUNS):
    """Drain the source until its message is dead; check what the letter says of where it came from."""
    letter = run_until_dead(runs, other.source)
    assert letter.source_table == other.source
    place = (DESTINATION, None) if other.source == OUTBOX else (None, PERSPECTIVE)
    assert (letter.destination, letter.perspective_name) == place
    assert (DESTINATION if other.source == OUTBOX else PERSPECTIVE) in looked_at(letter)["page"]
    assert not OutboxMessage.objects.exists()
    assert not PerspectiveEvent.objects.exists()
    return letter


def sent_bytes(handler, letter):
    """Return the different bytes that a transport was given; a projection is given none but the payload's."""
    return set(handler.sent) if letter.source_table == OUTBOX else {downloaded(letter)}


# --- P1: NUL in a value and in a key


@pytest.mark.parametrize("by_sql", [False, True], ids=["python", "sql"])
def test_p1_a_nul_is_delivered_to_the_byte_each_time_and_its_letter_recovered(other, mortal, by_sql):
    handler = mortal()
    if by_sql:
        other.insert("{}", raw=NUL.encode())
    else:
        other.write(NUL)

    letter = dead(other)
    assert (letter.cause, letter.attempts_when_dlq) == ("budget_spent", RUNS)
    assert bytes(letter.envelope_raw) == downloaded(letter) == NUL.encode()
    shown = looked_at(letter)
    for place in () if by_sql else ("page", "export", "jsonl"):
        assert "not the exact bytes" in shown[place], place
    assert recovers(letter, handler)
    assert handler.got == [json.loads(NUL)] * (RUNS + 1)
    assert sent_bytes(handler, letter) == {NUL.encode()}


@pytest.mark.parametrize("way", ["write", "insert"])
def test_p1_a_backslash_and_u0000_is_legal_text_and_untouched(other, mortal, way):
    text = r'{"note": "a\\u0000b"}'
    handler = mortal()
    getattr(other, way)(text)

    letter = dead(other)
    assert letter.envelope_raw is None
    assert "not the exact bytes" not in looked_at(letter)["page"]
    assert recovers(letter, handler)
    assert handler.got == [{"note": "a\\u0000b"}] * (RUNS + 1)
    assert sent_bytes(handler, letter) == {text.encode()}


# --- P2: NaN and Infinity


def test_p2_numbers_that_json_has_not_are_text_in_the_detail_and_the_rest_of_it_is_whole(other, mortal):
    numbers = {"ratio": math.nan, "max": math.inf, "min": -math.inf, "fine": 1.5}
    handler = mortal(lambda: detail(ValueError("odd numbers"), numbers))
    other.write("{}")

    letter = dead(other)
    assert letter.attempts_when_dlq == RUNS
    assert letter.failure_detail["detail"] == {
        "ratio": "nan (no JSON number)",
        "max": "inf (no JSON number)",
        "min": "-inf (no JSON number)",
        "fine": 1.5,
    }
    assert "-inf (no JSON number)" in looked_at(letter)["export"]
    assert recovers(letter, handler)


@pytest.mark.parametrize("raw", [b'{"score": NaN}', b"\xff\xfe", b""])
def test_p2_bytes_that_are_no_json_are_never_delivered_die_at_once_and_those_behind_go_on(other, mortal, raw):
    handler = mortal()
    handler.works = True
    other.insert('{"stub": true}', raw=raw, stream="one")
    other.insert('{"behind": 1}', stream="one")
    other.insert('{"beside": 1}')

    drain(other.source)
    letter = DeadLetter.objects.get()
    assert (letter.cause, letter.attempts_when_dlq) == ("unreadable", 0)
    assert "The payload cannot be read" in looked_at(letter)["page"]
    assert downloaded(letter) == raw
    press_recover(letter)
    drain(other.source)
    letter.refresh_from_db()
    assert (letter.cause, letter.deaths, letter.recovery_status) == ("unreadable", 2, 0)
    assert downloaded(letter) == raw
    assert sorted(map(str, handler.got)) == ["{'behind': 1}", "{'beside': 1}"]
    assert other.source != OUTBOX or raw not in handler.sent


# --- P3: 64-bit ids


@pytest.mark.parametrize("way", ["write", "insert"])
def test_p3_every_place_shows_every_digit_and_they_are_delivered_again(other, mortal, way):
    handler = mortal()
    getattr(other, way)(IDS)

    letter = dead(other)
    shown = looked_at(letter)
    for digits in DIGITS:
        assert all(digits in shown[place] for place in ("page", "export", "jsonl")), digits
        assert digits in downloaded(letter).decode()
    assert recovers(letter, handler)
    assert handler.got == [json.loads(IDS)] * (RUNS + 1)
    (delivered,) = sent_bytes(handler, letter)
    assert all(digits in delivered.decode() for digits in DIGITS)


# --- P4: very deep nesting


@pytest.mark.parametrize("levels", [101, 1_500, 10_000])
def test_p4_a_payload_that_is_too_deep_is_dead_at_once_and_its_neighbours_are_delivered(other, mortal, levels):
    handler = mortal()
    handler.works = True
    deep = "[" * levels + "]" * levels
    other.insert('{"before": 1}', stream="one")
    deep_id = other.insert(deep, stream="one")
    other.insert('{"after": 1}', stream="one")
    admin_shows(other, deep_id)

    drain(other.source)
    letter = DeadLetter.objects.get()
    assert letter.cause == "unreadable"
    assert "nests deeper than 100 levels" in letter.error_text
    assert handler.got == [{"before": 1}, {"after": 1}]
    assert other.source != OUTBOX or len(handler.sent) == 2
    assert downloaded(letter).decode() == deep
    assert len(looked_at(letter)["page"]) < 200_000


def admin_shows(other, row_id):
    """Open the row that waits, and the event behind it, in the admin."""
    waits = PerspectiveEvent.objects.filter(event_id=row_id).values_list("pk", flat=True).first()
    pages = (
        [f"outboxmessage/{row_id}"]
        if other.source == OUTBOX
        else [f"storedevent/{row_id}", f"perspectiveevent/{waits}"]
    )
    for page in pages:
        for address in (f"/admin/queues/{page.partition('/')[0]}/", f"/admin/queues/{page}/change/"):
            assert browser(admin=True).get(address).status_code == 200, address


@pytest.mark.parametrize("levels", [100, 500, 10_000])
def test_p4_metadata_that_is_too_deep_is_dead_at_once_whatever_the_interpreter_can_read(other, mortal, sql, levels):
    mortal()
    other.insert("{}")
    table = "wh_outbox" if other.source == OUTBOX else "wh_event_store"
    sql(f"UPDATE {table} SET metadata = %s::jsonb", '{"deep":' + "[" * levels + "]" * levels + "}")

    letter = run_until_dead(source=other.source)
    assert (letter.cause, letter.attempts_when_dlq) == ("unreadable", 0)
    assert "the metadata nests deeper than 100 levels" in letter.error_text
    looked_at(letter)


def test_p4_a_detail_of_2000_levels_is_cut_and_says_so(other, mortal):
    deep: dict = {}
    for _ in range(2_000):
        deep = {"in": deep}
    handler = mortal(lambda: detail(ValueError("deep"), {"deep": deep, "flat": 1}))
    other.write("{}")

    letter = dead(other)
    assert letter.failure_detail["detail"]["flat"] == 1
    assert "… (cut)" in looked_at(letter)["page"]
    assert recovers(letter, handler)


# --- E1: NUL in a message and in subjects


def test_e1_an_error_with_a_nul_is_readable_everywhere_and_has_one_fingerprint(other, mortal):
    def error():
        exc = attribute(ValueError("bad header \x00\x01\x1b[31mred\x1b[0m"), Subject("or\x00der", "4\x002"))
        return detail(exc, {"k\x00": "v\x00"})

    handler = mortal(error)
    other.write('{"order_id":"42"}')

    letter = dead(other)
    assert letter.attempts_when_dlq == RUNS
    assert letter.error_line == r"ValueError: bad header \x00\x01\x1b[31mred\x1b[0m"
    assert letter.failure_detail["detail"] == {r"k\x00": r"v\x00"}
    log = DeliveryLogEntry.objects.filter(source=other.source).order_by("id")
    assert list(log.values_list("attempt", "outcome")) == [(1, "failure"), (2, "failure")]
    assert all(entry.failure_message.startswith(r"ValueError: bad header \x00") for entry in log)
    shown = looked_at(letter)
    assert not [name for name, content in shown.items() if re.search(r"[\x00\x01\x1b]", content)]
    assert all(r"bad header \x00\x01\x1b[31mred" in shown[name] for name in ("list", "page", "admin log", "csv"))
    assert found_by([letter], subject=r"or\x00der:4\x002")
    press_recover(letter)
    run_until_dead(RUNS, other.source)
    first, second = DeadLetterDeath.objects.order_by("number")
    assert (first.error_fingerprint, first.verdict) == (second.error_fingerprint, "failed_again")
    assert recovers(letter, handler)


# --- E2: too big to record


def test_e2_a_failure_too_big_to_record_is_cut_in_each_part_and_moves(other, mortal):
    handler = mortal(a_huge_error)
    other.write('{"order_id":"42"}')

    letter = dead(other)
    assert (letter.cause, letter.attempts_when_dlq) == ("budget_spent", RUNS)
    assert "(cut, 6,000,0" in letter.error_text
    assert "frames)" in letter.error_text
    assert letter.subjects.count() == DEFAULT.subjects
    assert "(cut, 6,000,000 characters)" in letter.failure_detail["detail"]["blob"]
    size = stored_bytes(
        "SELECT octet_length(error_text) + octet_length(failure_detail::text) + octet_length(source_row::text)"
        "  FROM wh_dead_letters"
    )
    assert size < 2 * MAX_FAILURE_BYTES
    assert max(map(len, looked_at(letter).values())) < 1_000_000
    assert recovers(letter, handler)


# --- E4: long text in indexed columns


@long_texts
def test_e4_a_long_random_error_detail_and_subject_are_kept_as_far_as_their_bounds(other, mortal, text):
    def error():
        return detail(attribute(ValueError(text), Subject("thing", text), Subject(text, "thing")), {text: text})

    handler = mortal(error)
    other.write(json.dumps({text: text}))

    letter = dead(other)
    assert (text[: DEFAULT.message - 100] if len(text) > DEFAULT.message else text) in letter.error_text
    said = f"… (cut, {len(text):,} characters)"
    first, second = letter.subjects.order_by("position")
    assert (first.id, second.type) == (text[: DEFAULT.subject] + said,) * 2
    assert recovers(letter, handler)
    assert handler.got == [{text: text}] * (RUNS + 1)
    assert stream_uuid("order-1") == letter.stream_id or other.source == OUTBOX


@pytest.mark.parametrize("text", [random_text(500, 4), "🦊" * 500], ids=["characters", "emoji"])
def test_e4_the_longest_destination_goes_the_whole_way(settings, monkeypatch, text):
    settings.QUEUES = {**settings.QUEUES, "MAX_ATTEMPTS": 1, "ROUTES": {text: "inbox"}}
    handler = mortal_transport(monkeypatch)
    publish(text, {}, destination=text, stream=text)

    letter = run_until_dead(source=OUTBOX)
    assert (letter.destination, letter.message_type) == (text, text)
    assert text in looked_at(letter)["page"]
    assert recovers(letter, handler)


@pytest.mark.parametrize("name", [random_text(100, 5), "🦊" * 100], ids=["characters", "emoji"])
def test_e4_the_longest_perspective_and_event_type_go_the_whole_way(settings, name):
    settings.QUEUES = {**settings.QUEUES, "MAX_ATTEMPTS": 1}
    handler = Mortal()
    projects(name, name * 5)(handler)
    subscribe()
    append_event(name * 5, name * 5, {})

    letter = run_until_dead(source=PERSPECTIVES)
    assert (letter.perspective_name, letter.message_type) == (name, name * 5)
    assert html.escape(name) in looked_at(letter)["page"]
    assert recovers(letter, handler)
