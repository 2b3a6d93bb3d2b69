"""Payloads that poison others' systems, on their whole way: sent, handled, dead, shown, exported, recovered."""

import json
import math

import pytest
from django.db import DataError, connection, transaction

from deadletters.models import DeadLetter, RecoveryStatus
from queues import InvalidMessage, Subject, attributed, detail, publish, send
from queues.models import DeliveryLogEntry, InboxMessage, OutboxMessage
from queues.testing import drain
from queues.words.payloads import MARK
from tests.db import roundtrip
from tests.db.roundtrip import (
    WAYS,
    browser,
    by_command,
    by_send,
    downloaded,
    found_by,
    insert,
    looked_at,
    mortal,
    recovers,
    run_until_dead,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("handlers")]

IDS = """
    {"id": 1970670598291982291, "neg": -9223372036854775808, "edge": 9007199254740993,
     "in": {"list":[9007199254740995]}}
""".strip().replace("\n", "")


# --- P1: NUL in a value and in a key


@pytest.mark.parametrize("way", [by_send, by_command])
@pytest.mark.parametrize("text", ['{"note":"a\\u0000b"}', '{"a\\u0000b":1}', '{"note":"\\ud800 half"}'])
def test_p1_a_payload_with_a_nul_is_kept_to_the_byte_marked_as_altered_and_recovered(way, text):
    handler = mortal(lambda: ValueError("never"), max_attempts=3)
    way(text)

    letter = run_until_dead(3)
    assert handler.got == [json.loads(text)] * 3
    assert json.loads(bytes(letter.envelope_raw)) == json.loads(text)
    assert MARK in json.loads(letter.envelope)["event_data"]
    assert downloaded(letter) == text.encode()
    shown = looked_at(letter)
    for place in ("page", "export", "jsonl"):
        assert "not the exact bytes" in shown[place]
    assert recovers(letter, handler)
    assert handler.got[3:] == [json.loads(text)]


@pytest.mark.parametrize("way", WAYS)
def test_p1_a_backslash_and_u0000_is_legal_text_and_untouched(way):
    text = r'{"note": "a\\u0000b"}'
    handler = mortal(lambda: ValueError("never"), max_attempts=3)
    way(text)

    letter = run_until_dead(3)
    assert letter.envelope_raw is None
    assert handler.got == [{"note": "a\\u0000b"}] * 3
    assert downloaded(letter) == text.encode()
    assert "not the exact bytes" not in looked_at(letter)["page"]
    assert recovers(letter, handler)
    assert handler.got[-1] == {"note": "a\\u0000b"}


def test_p1_a_foreign_writer_is_refused_a_nul_in_json_and_may_give_the_bytes():
    text = '{"note":"a\\u0000b"}'
    with pytest.raises(DataError) as refused, transaction.atomic():
        insert(text)
    assert refused.value.__cause__.sqlstate == "22P05"
    handler = mortal()
    insert("{}", raw=text.encode())

    letter = run_until_dead()
    assert handler.got == [{"note": "a\x00b"}]
    assert downloaded(letter) == text.encode()
    assert recovers(letter, handler)
    assert handler.got == [{"note": "a\x00b"}] * 2


def test_p1_three_poisoned_messages_leave_three_letters_and_an_empty_inbox():
    mortal(lambda: ValueError("never"), max_attempts=3)
    for text in ('{"note":"a\\u0000b"}', '{"a\\u0000b":1}', r'{"note":"a\\u0000b"}'):
        by_command(text)

    for _ in range(3):
        roundtrip.make_due()
        drain()
    assert DeadLetter.objects.count() == 3
    assert not InboxMessage.objects.exists()
    assert {letter.attempts_when_dlq for letter in DeadLetter.objects.all()} == {3}


# --- P2: NaN and Infinity


def test_p2_numbers_that_json_has_not_are_text_in_the_detail_and_the_rest_of_it_is_whole():
    numbers = {"ratio": math.nan, "max": math.inf, "min": -math.inf, "fine": 1.5, "deep": [math.nan, {"ok": 1}]}
    mortal(lambda: detail(ValueError("odd numbers"), numbers), max_attempts=2)
    send(roundtrip.TYPE, {})

    letter = run_until_dead(2)
    assert letter.attempts_when_dlq == 2
    assert letter.failure_detail["detail"] == {
        "ratio": "nan (no JSON number)",
        "max": "inf (no JSON number)",
        "min": "-inf (no JSON number)",
        "fine": 1.5,
        "deep": ["nan (no JSON number)", {"ok": 1}],
    }
    shown = looked_at(letter)
    assert "nan (no JSON number)" in shown["page"]
    assert "-inf (no JSON number)" in shown["export"]


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_p2_a_payload_with_a_number_that_json_has_not_is_refused_by_every_sender(number):
    with pytest.raises(InvalidMessage, match="not JSON"):
        send(roundtrip.TYPE, {"score": number})
    with pytest.raises(InvalidMessage, match="not JSON"):
        publish(roundtrip.TYPE, {"score": number}, destination="orders")
    with pytest.raises(SystemExit):
        by_command(f'{{"score": {json.dumps(number)}}}')
    assert not InboxMessage.objects.exists()
    assert not OutboxMessage.objects.exists()


@pytest.mark.parametrize(
    "raw", [b'{"score": NaN}', b'{"score": -Infinity}', b"\xff\xfe", b'{"a": 1', b"", b"\xef\xbb\xbf{}", b"'text'"]
)
def test_p2_bytes_that_are_no_json_die_at_once_as_unreadable_with_every_byte_kept(raw):
    handler = mortal()
    insert('{"stub": true}', raw=raw)

    letter = run_until_dead()
    assert handler.got == []
    assert (letter.cause, letter.attempts_when_dlq) == ("unreadable", 0)
    assert "The payload cannot be read" in letter.error_text
    assert downloaded(letter) == raw
    assert "The payload cannot be read" in looked_at(letter)["page"]


# --- P3: 64-bit ids


@pytest.mark.parametrize("way", WAYS)
def test_p3_every_place_shows_every_digit_and_the_handler_gets_them_again(way):
    handler = mortal()
    way(IDS)

    letter = run_until_dead()
    shown = looked_at(letter)
    for digits in ("1970670598291982291", "-9223372036854775808", "9007199254740993", "9007199254740995"):
        for place in ("page", "export", "jsonl"):
            assert digits in shown[place], place
        assert digits in downloaded(letter).decode()
    assert recovers(letter, handler)
    assert handler.got == [json.loads(IDS)] * 2


@pytest.mark.parametrize("digits", ["1970670598291982291", "9007199254740993"])
def test_p3_the_exact_id_finds_its_letter_and_a_rounded_one_does_not(digits):
    with_id = {"id": int(digits)}

    def declined():
        with attributed(Subject("row", digits), **with_id):
            raise ValueError(f"row {digits} is gone")

    mortal(lambda: _raised(declined), max_attempts=1)
    send(roundtrip.TYPE, with_id)

    letter = run_until_dead()
    rounded = str(int(float(digits)))
    assert rounded != digits
    assert found_by([letter], q=digits)
    assert found_by([], q=rounded)
    assert found_by([letter], subject=f"row:{digits}")
    assert found_by([], subject=f"row:{rounded}")
    assert letter.failure_detail["detail"] == with_id
    assert digits in looked_at(letter)["csv"]


@pytest.mark.parametrize("number", ["1e400", "-0.0", "1e3", "9" * 5_000, "0." + "1" * 2_000, "1.10"])
def test_p3_numbers_beyond_every_type_keep_their_bytes(number):
    handler = mortal()
    by_command(f'{{"n":{number}}}')

    letter = run_until_dead()
    assert downloaded(letter).decode().replace(" ", "") == f'{{"n":{number}}}'
    looked_at(letter)
    assert recovers(letter, handler)
    first, second = handler.got
    assert repr(first) == repr(second) if len(number) < 4_000 else first == second


# --- P4: very deep nesting


@pytest.mark.parametrize("levels", [101, 1_500, 10_000])
def test_p4_a_payload_that_is_too_deep_is_dead_at_once_listed_shown_and_its_neighbours_run(levels):
    handler = mortal()
    deep = "[" * levels + "]" * levels
    insert('{"before": 1}')
    insert(deep)
    insert('{"after": 1}')

    drain()
    assert handler.got == [{"before": 1}, {"after": 1}]
    letter = DeadLetter.objects.get(cause="unreadable")
    assert f"nests deeper than {100} levels" in letter.error_text
    assert downloaded(letter).decode() == deep
    shown = looked_at(letter)
    assert "levels" in shown["page"]
    assert len(shown["page"]) < 200_000
    assert shown["list"].count("<tr data-row ") == shown["list fragment"].count("<tr data-row ") == 3
    assert len(shown["jsonl"].splitlines()) == 5
    for neighbour in DeadLetter.objects.exclude(pk=letter.pk):
        assert looked_at(neighbour)


def test_p4_a_payload_at_the_limit_is_handled():
    handler = mortal()
    text = "[" * 100 + "]" * 100
    by_command(text)

    letter = run_until_dead()
    assert letter.cause == "terminal"
    looked_at(letter)
    assert recovers(letter, handler)
    assert handler.got == [json.loads(text)] * 2


@pytest.mark.parametrize("levels", [101, 1_500, 10_000, 200_000])
def test_p4_senders_refuse_what_is_too_deep_and_say_the_limit(levels):
    deep = []
    for _ in range(levels - 1):
        deep = [deep]

    with pytest.raises(InvalidMessage, match="deeper than 100 levels"):
        send(roundtrip.TYPE, deep)
    with pytest.raises(SystemExit):
        by_command("[" * levels + "]" * levels)
    assert not InboxMessage.objects.exists()


def test_p4_a_detail_of_2000_levels_is_cut_and_says_so():
    deep: dict = {}
    for _ in range(2_000):
        deep = {"in": deep}
    mortal(lambda: detail(ValueError("deep"), {"deep": deep, "flat": 1}))
    send(roundtrip.TYPE, {}, max_attempts=1)

    letter = run_until_dead()
    assert letter.failure_detail["detail"]["flat"] == 1
    assert "… (cut)" in json.dumps(letter.failure_detail, ensure_ascii=False)
    assert "… (cut)" in looked_at(letter)["page"]
    assert DeliveryLogEntry.objects.get().failure_detail == letter.failure_detail


@pytest.mark.parametrize("column", ["failure_detail", "metadata", "source_row"])
def test_p4_a_foreign_column_of_any_depth_is_shown_and_never_a_server_error(column):
    mortal()
    send(roundtrip.TYPE, {})
    letter = run_until_dead()
    deep = '{"detail":' + "[" * 10_000 + "]" * 10_000 + "}"
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE wh_dead_letters SET {column} = %s::jsonb", [deep])
        if column == "failure_detail":
            cursor.execute("UPDATE dead_letter_deaths SET failure_detail = %s::jsonb", [deep])

    looked_at(letter)
    assert browser().post(f"/letters/{letter.pk}/recover").status_code == 302
    assert DeadLetter.objects.defer("failure_detail").get().recovery_status == RecoveryStatus.RECOVERING


def _raised(function):
    try:
        function()
    except Exception as exc:
        return exc
    raise AssertionError
