"""Errors whose text poisons others' systems: recorded within bounds, shown as characters, recovered."""

import json
import random
import re
import string
import sys

import pytest
from django.db import DataError, connection, transaction
from django.urls import reverse

from deadletters import counting, triage
from deadletters.models import DeadLetter, DeadLetterDeath, FailureGroup
from deadletters.words.errors import BadNote
from deadletters.words.fingerprints import fingerprint
from queues import InvalidMessage, Subject, Terminal, attribute, detail, send
from queues.models import DeliveryLogEntry, InboxMessage
from queues.testing import drain
from queues.words.failures import DEFAULT
from tests.db import roundtrip
from tests.db.roundtrip import browser, found_by, insert, looked_at, mortal, recovers, run_until_dead
from tests.factories import a_letter, a_user
from tests.web.conftest import HTMX

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("handlers")]

MAX_FAILURE_BYTES = 4 * (DEFAULT.message + DEFAULT.trace + DEFAULT.detail + 2 * DEFAULT.subjects * DEFAULT.subject)
"""What a failure may fill at most: four bytes for each character that is kept."""

HOSTILE = (
    "<img src=x onerror=\"document.title='owned'\">",
    "</textarea></pre><script>document.title='owned'</script>",
    '"><svg onload="document.title=\'owned\'">',
    "javascript:alert(1)",
    '<b hx-get="/accounts/logout/" hx-trigger="load">x</b>',
    "\x1b]8;;http://x\x07link",
)
LIVE = re.compile(r"<(img src=x|svg onload|b hx|script>document)|href=.?javascript:|</textarea></pre>")
FILES = ("export", "jsonl", "csv")


def stored_bytes(statement):
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchone()[0]


# --- E1: NUL in a message, a traceback and subjects


def test_e1_a_message_with_a_nul_and_terminal_codes_dies_readable_with_one_fingerprint():
    text = "bad header \x00\x01\x1b[31mred\x1b[0m"
    handler = mortal(lambda: ValueError(text), max_attempts=2)
    send(roundtrip.TYPE, {"order_id": "42"})

    letter = run_until_dead(2)
    assert letter.attempts_when_dlq == 2
    assert letter.error_line == r"ValueError: bad header \x00\x01\x1b[31mred\x1b[0m"
    log = list(DeliveryLogEntry.objects.order_by("id").values_list("attempt", "outcome", "failure_message"))
    assert [(attempt, outcome) for attempt, outcome, _ in log] == [(1, "failure"), (2, "failure")]
    assert all(message.startswith(r"ValueError: bad header \x00") for *_, message in log)
    shown = looked_at(letter)
    assert not [name for name, content in shown.items() if re.search(r"[\x00\x01\x1b]", content)]
    assert all(r"bad header \x00\x01\x1b[31mred" in shown[name] for name in ("list", "page", "admin log", "csv"))
    assert r"bad header \\x00\\x01\\x1b[31mred" in shown["export"]
    browser().post(reverse("deadletters:recover", args=[letter.pk]))
    run_until_dead(2)
    first, second = DeadLetterDeath.objects.order_by("number")
    assert (first.error_fingerprint, first.verdict) == (second.error_fingerprint, "failed_again")
    assert len({fingerprint(message, cause="", reason=99).value for *_, message in log}) == 1
    assert recovers(letter, handler)


def test_e1_a_nul_and_half_a_character_in_subjects_and_detail_are_made_visible():
    def error():
        exc = attribute(KeyError("x\x00"), Subject("or\x00der", "4\x002"), Subject("half", "\ud800"))
        return detail(exc, {"k\x00": "v\x00", "half": "\udfff"})

    handler = mortal(error, max_attempts=2)
    send(roundtrip.TYPE, {})

    letter = run_until_dead(2)
    assert [(s.type, s.id) for s in letter.subjects.order_by("position")] == [
        (r"or\x00der", r"4\x002"), ("half", r"\ud800"),
    ]  # fmt: skip
    assert letter.failure_detail["detail"] == {r"k\x00": r"v\x00", "half": r"\udfff"}
    assert letter.error_line == r"KeyError: 'x\x00'"
    looked_at(letter)
    assert found_by([letter], subject=r"or\x00der:4\x002")
    assert recovers(letter, handler)


# --- E2: too big to record


def a_huge_error():
    """Return 6 MB of message, 20,000 frames, 300 causes, 50,000 subjects and 12 MB of detail in one exception."""

    def deep(n):
        if n == 0:
            raise ValueError("huge " + random.Random(2).randbytes(3_000_000).hex())
        deep(n - 1)

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(25_000)
    try:
        deep(20_000)
    except ValueError as exc:
        huge = exc
    finally:
        sys.setrecursionlimit(limit)
    node = huge
    for n in range(300):
        node.__cause__ = KeyError(f"cause {n} " + "y" * 10_000)
        node = node.__cause__
    attribute(huge, *(Subject("order", f"{n:06}" + "x" * 594) for n in range(50_000)))
    return detail(huge, {"blob": "z" * 6_000_000, "list": list(range(500_000)), "deep": {"k" * 9_000: "v" * 9_000}})


def test_e2_a_failure_too_big_to_record_is_cut_in_each_part_says_so_and_moves():
    handler = mortal(a_huge_error, max_attempts=2)
    send(roundtrip.TYPE, {"order_id": "42"})

    letter = run_until_dead(2)
    assert (letter.attempts_when_dlq, letter.cause) == (2, "budget_spent")
    assert not InboxMessage.objects.exists()
    error = letter.error_text
    assert "(cut, 6,000,0" in error
    assert "frames)" in error
    assert "… (cut, 301 exceptions" in error
    assert len(error) <= DEFAULT.message + DEFAULT.trace + 200
    assert letter.subjects.count() == DEFAULT.subjects
    kept = letter.failure_detail["detail"]
    assert kept["… subjects"] == "cut, 50,000 in all"
    assert "(cut, 6,000,000 characters)" in kept["blob"]
    assert recovers(letter, handler)


def test_e2_the_row_of_a_huge_failure_has_a_bounded_size_in_every_table():
    mortal(a_huge_error, max_attempts=2)
    send(roundtrip.TYPE, {})
    drain()
    assert stored_bytes("SELECT octet_length(error) + pg_column_size(failure_detail) FROM wh_inbox") < MAX_FAILURE_BYTES

    letter = run_until_dead()
    sizes = {
        "letter": "SELECT octet_length(error_text) + pg_column_size(failure_detail::text) FROM wh_dead_letters",
        "death": "SELECT octet_length(error_text) + octet_length(failure_detail::text) FROM dead_letter_deaths",
        "log": "SELECT max(octet_length(failure_message) + octet_length(failure_detail::text)) FROM delivery_log",
        "subjects": "SELECT sum(octet_length(type) + octet_length(id)) FROM dead_letter_subjects",
        "source row": "SELECT octet_length(source_row::text) FROM wh_dead_letters",
    }
    for name, statement in sizes.items():
        assert stored_bytes(statement) < MAX_FAILURE_BYTES, name
    for name, content in looked_at(letter).items():
        assert len(content) < 1_000_000, name


def test_e2_the_move_of_a_huge_failure_is_one_transaction(monkeypatch):
    from queues.drainer import recording

    def fail(*_):
        raise RuntimeError("after the move, before the commit")

    mortal(a_huge_error, max_attempts=1)
    send(roundtrip.TYPE, {})
    with monkeypatch.context() as broken:
        broken.setattr(recording, "_log", fail)
        with pytest.raises(RuntimeError, match="after the move"), transaction.atomic():
            drain()
    assert not DeadLetter.objects.exists()
    assert not DeadLetterDeath.objects.exists()
    assert InboxMessage.objects.count() == 1


# --- E3: an upstream's HTML error page


@pytest.mark.parametrize("text", HOSTILE)
def test_e3_hostile_text_is_characters_on_its_whole_way(text):
    def error():
        exc = Terminal(f"upstream said:\n{text}")
        return detail(attribute(exc, Subject(text, text)), {text: text, "list": [text]})

    handler = mortal(error)
    send(roundtrip.TYPE, {text: text, "list": [text]}, headers={"X-From": text, text: text}, stream=text)
    letter = run_until_dead()
    triage.add_note(dead_letter_id=letter.pk, text=text, user=a_user(text[:100], "Operators"))
    counting.fold()

    places = looked_at(letter)
    places |= {
        "groups": page_of("/groups/"),
        "group": page_of(f"/groups/{FailureGroup.objects.get().pk}/"),
        "subjects": page_of("/subjects/"),
        "search": page_of("/letters/", q=text[:200], subject=f"{text}:{text}"),
        "bad filter": page_of("/letters/", status=text, expect=400),
    }
    for name, content in places.items():
        assert name in FILES or not LIVE.search(content), (name, LIVE.search(content))
        assert name not in FILES or not re.search(r"[\x07\x1b]", content), name
    assert recovers(letter, handler)
    assert handler.got == [{text: text, "list": [text]}] * 2


@pytest.mark.parametrize("text", HOSTILE)
def test_e3_a_hostile_message_type_dies_without_a_handler_as_characters(text):
    send(text, {})

    letter = run_until_dead()
    assert letter.cause == "no_handler"
    for name, content in looked_at(letter).items():
        assert name in FILES or not LIVE.search(content), name
    assert found_by([letter], type=text)


@pytest.mark.parametrize("name", ["export_letter", "payload", "jsonl", "csv"])
def test_e3_what_is_downloaded_is_never_a_page(name):
    mortal(lambda: Terminal(HOSTILE[1]))
    send(roundtrip.TYPE, {HOSTILE[1]: HOSTILE[1]})
    letter = run_until_dead()

    address = (
        f"/letters/export.{name}" if name in ("jsonl", "csv") else reverse(f"deadletters:{name}", args=[letter.pk])
    )
    ask, given = (browser().post, {"reason": HOSTILE[1]}) if name == "payload" else (browser().get, {})
    answer = ask(address, given, headers={"User-Agent": HOSTILE[1], **HTMX})
    assert not answer["Content-Type"].startswith(("text/html", "application/xhtml", "image/svg"))
    assert answer["Content-Disposition"].startswith("attachment")
    assert answer["X-Content-Type-Options"] == "nosniff"


def page_of(address, expect=200, **filters):
    answer = browser("Viewers").get(address, filters)
    assert answer.status_code == expect
    return answer.content.decode()


# --- E4: long text in indexed columns

PRINTABLE = string.ascii_letters + string.digits + "äöü€日本語_-./:;"


def random_text(length, seed):
    return "".join(random.Random(seed).choices(PRINTABLE, k=length))


LONG = {"2,800": random_text(2_800, 1), "9,000": random_text(9_000, 2), "3,000 emoji": "🦊🐝🦉" * 1_000}
long_texts = pytest.mark.parametrize("text", LONG.values(), ids=LONG.keys())


@long_texts
def test_e4_a_long_random_error_detail_and_subject_are_kept_as_far_as_their_bounds(text):
    def error():
        return detail(attribute(ValueError(text), Subject("thing", text), Subject(text, "thing")), {text: text})

    handler = mortal(error, max_attempts=2)
    send(roundtrip.TYPE, {text: text})

    letter = run_until_dead(2)
    assert (text[: DEFAULT.message - 100] if len(text) > DEFAULT.message else text) in letter.error_text
    assert len(letter.error_line) <= 300
    said = f"… (cut, {len(text):,} characters)"
    first, second = letter.subjects.order_by("position")
    assert (first.id, second.type) == (text[: DEFAULT.subject] + said,) * 2
    assert said not in letter.error_text.partition("\n")[0] or len(text) > DEFAULT.message - 20
    counting.fold()
    looked_at(letter)
    page_of(f"/groups/{FailureGroup.objects.get().pk}/")
    page_of("/subjects/")
    assert recovers(letter, handler)
    assert handler.got == [{text: text}] * 3


@long_texts
def test_e4_a_long_type_or_stream_is_refused_by_send_with_its_limit(text):
    with pytest.raises(InvalidMessage, match="the type must be text of 1 to 500 characters"):
        send(text, {})
    with pytest.raises(InvalidMessage, match="the stream must be text of 1 to 500 characters"):
        send(roundtrip.TYPE, {}, stream=text)
    with pytest.raises(DataError), transaction.atomic():
        insert("{}", message_type=text)
    assert not InboxMessage.objects.exists()


@pytest.mark.parametrize("text", [random_text(500, 3), "🦊" * 500], ids=["characters", "emoji"])
def test_e4_the_longest_type_and_stream_go_the_whole_way(text):
    send(text, {}, stream=text)

    letter = run_until_dead()
    assert (letter.message_type, letter.cause) == (text, "no_handler")
    assert json.loads(letter.metadata)["stream"] == text
    looked_at(letter)
    assert found_by([letter], type=text)


@long_texts
def test_e4_a_foreign_letter_with_long_texts_everywhere_is_stored_listed_shown_and_counted(text):
    letter = a_letter(
        message_type=text, error=text, destination=text, perspective_name=text, generation=text, owner=text,
        subjects=[(text, "1"), ("order", text), (text, text)], last_reported=text, cause=text,
        metadata=json.dumps({"headers": {text: text}, "stream": text}), payload=json.dumps({text: text}),
    )  # fmt: skip
    counting.fold()

    looked_at(letter)
    page_of("/groups/")
    page_of("/subjects/")
    assert DeadLetter.objects.get().error_text == text


@long_texts
def test_e4_a_long_note_is_kept_or_refused_with_its_limit(text):
    letter = a_letter()
    user = a_user("nora", "Operators")

    if len(text) > triage.MAX_NOTE:
        with pytest.raises(BadNote, match=r"4,?000"):
            triage.add_note(dead_letter_id=letter.pk, text=text, user=user)
        answer = browser().post(reverse("deadletters:add_note", args=[letter.pk]), {"text": text})
        assert answer.status_code == 422
        assert text in answer.content.decode()
    else:
        triage.add_note(dead_letter_id=letter.pk, text=text, user=user)
        assert letter.notes.get().text == text
        assert text in looked_at(letter)["page"]


@long_texts
def test_e4_two_subjects_that_begin_alike_are_told_apart(text):
    mortal(lambda: attribute(Terminal("x"), Subject("thing", text[:400] + "1"), Subject("thing", text[:400] + "2")))
    send(roundtrip.TYPE, {})

    letter = run_until_dead()
    assert letter.subjects.count() == 2
    assert found_by([letter], subject=f"thing:{text[:400]}1")
    assert found_by([], subject=f"thing:{text[:400]}3")
