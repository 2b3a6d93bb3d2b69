"""Fingerprints in the database: version 1 with its golden values, version 2 by re-fingerprinting."""

import uuid

import pytest
from django.db import connection
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from deadletters import counting, refingerprinting
from deadletters.models import DeadLetter, DeadLetterDeath, FailureGroup, GroupFingerprint
from deadletters.words.fingerprints import cause_fingerprint, fingerprint
from queues import send
from tests.db.conftest import move_by_hand
from tests.factories import a_letter

pytestmark = pytest.mark.django_db

BOOM = "System.InvalidOperationException: boom"
PYTHON = (
    'ValueError: order 17 is odd\nTraceback (most recent call last):\n  File "/srv/shop/orders.py", line 3, in check'
)


def version_1(text):
    with connection.cursor() as cursor:
        cursor.execute("SELECT dead_letter_error_fingerprint(%s)", [text])
        return cursor.fetchone()[0]


@pytest.mark.parametrize(
    ("text", "golden"),
    [
        ("", "e3b0c44298fc1c14"),
        ("no capitalised word of two characters, A b", "e3b0c44298fc1c14"),
        (BOOM, "386c08bd726234e4"),
        ("System.InvalidOperationException: another text", "386c08bd726234e4"),
        (f"{BOOM}\n   at My.App.Svc.Do(Int32 x) in Svc.cs:line 5", "d9518ab611d066ae"),
        (f"{BOOM}\n   at System.Linq.X()\n   at Npgsql.Y()\n   at My.App.Svc.Do(Int32 x)", "d9518ab611d066ae"),
        (f"{BOOM}\r\n   at My.App.Svc.Do(Int32 x) in Svc.cs:line 5\r\n", "d9518ab611d066ae"),
        (f"{BOOM}\n  at A.B.C()\n  at D.E.F()\n  at G.H.I()", "e67f1827bded8ab4"),
        (f"{BOOM}\n  at A.B.C()\n  at D.E.F()\n  at G.H.I()\n  at J.K.L()", "e67f1827bded8ab4"),
        (f"{BOOM}\nat My.App.Svc.Do(Int32 x)", "386c08bd726234e4"),
        ("InboxDispatchWorker dead-lettered: attempts=11 > max=10", "7a66c4fc2d9ddd71"),
        (
            "PerspectiveWorker gave up — last error: System.InvalidOperationException: boom\n   at A.B.C()",
            "431f5ce5f389429a",
        ),
        ("json: System.Text.Json.JsonException was thrown", "6ef75f29101c60f0"),
        ("Traceback (most recent call last):\n  File 'x', line 1", "3f0c6f46bed773a4"),
        ("BrokerDeadLetter: MaxDeliveryCountExceeded — gone", "3c841165c2105225"),
    ],
)
def test_version_1_has_the_golden_values_of_the_source(text, golden):
    assert version_1(text) == golden


def test_version_1_of_no_text_is_null_and_the_version_function_says_1(sql):
    assert version_1(None) is None
    assert sql("SELECT dead_letter_error_fingerprint_version() AS v") == [{"v": 1}]


def test_a_backslash_in_a_frame_does_not_raise():
    assert len(version_1(f"{BOOM}\n   at C:\\app\\index.js:10:5\n   at \\x00 \\")) == 16


@hypothesis_settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x00"), max_size=300))
def test_version_1_never_raises(text):
    assert len(version_1(f"{text}\n   at {text}")) == 16


def test_the_stored_fingerprint_of_a_foreign_mover_is_that_of_the_stored_text(sql):
    message_id = send("test.Any", {}).message_id
    sql("UPDATE wh_inbox SET error = %s", f"{BOOM}\n   at A.B.C(Int32 x) in C:\\src\\A.cs")

    move_by_hand(message_id, error="gave up")

    (row,) = sql(
        "SELECT error_fingerprint AS stored, dead_letter_error_fingerprint(error_text) AS recomputed,"
        " error_fingerprint_version AS v FROM wh_dead_letters"
    )
    assert row["stored"] == row["recomputed"]
    assert row["v"] == 1
    assert DeadLetterDeath.objects.get().error_fingerprint == row["stored"]


def test_a_letter_without_text_has_the_fingerprint_of_its_cause_and_reason():
    move_by_hand(send("test.Any", {}).message_id, error=None)

    letter = DeadLetter.objects.get()
    expected = cause_fingerprint(letter.cause, letter.failure_reason)
    assert (letter.error_fingerprint, letter.error_fingerprint_version) == (expected, 2)


def test_a_fingerprint_without_a_version_is_taken_for_version_1():
    letter = a_letter(error_fingerprint="00000000000000aa", error_fingerprint_version=None)
    counting.fold()

    letter.refresh_from_db()
    assert (letter.error_fingerprint, letter.error_fingerprint_version) == ("00000000000000aa", 1)
    assert GroupFingerprint.objects.get().version == 1


@pytest.mark.parametrize(("cause", "reason"), [("worker_lost", 6), ("", 99), ("ünïcode", -1)])
def test_the_database_and_python_agree_on_the_fingerprint_of_a_cause(cause, reason, sql):
    (row,) = sql("SELECT dead_letter_cause_fingerprint(%s, %s) AS f", cause, reason)

    assert row["f"] == cause_fingerprint(cause, reason)


def a_letter_of_another_language(text):
    return a_letter(error=text, source_id=uuid.uuid4(), error_fingerprint=None)


def test_letters_that_version_2_can_read_are_fingerprinted_anew_and_keep_their_group():
    letter = a_letter_of_another_language(PYTHON)
    counting.fold()
    group = FailureGroup.objects.get()

    assert refingerprinting.refingerprint() == 1
    counting.fold()

    letter.refresh_from_db()
    known = fingerprint(PYTHON, cause=letter.cause, reason=letter.failure_reason)
    assert (letter.error_fingerprint, letter.error_fingerprint_version) == (known.value, 2)
    assert GroupFingerprint.objects.get(fingerprint=known.value, version=2).group_id == group.pk
    assert FailureGroup.objects.count() == 1


def test_texts_that_version_2_cannot_read_keep_version_1_and_are_looked_at_once():
    letter = a_letter_of_another_language(f"{BOOM}\n   at A.B.C()")

    assert refingerprinting.refingerprint() == 0

    letter.refresh_from_db()
    assert letter.error_fingerprint_version == 1
    assert letter.fingerprint_checked_at is not None
    assert list(refingerprinting._batch()) == []


def test_one_version_1_group_of_two_faults_becomes_two_groups():
    traceback = 'Traceback (most recent call last):\n  File "/srv/shop/{0}.py", line 3, in f\n{0}Error: boom'
    for name in ("Stock", "Bank"):
        a_letter_of_another_language(traceback.format(name))
    counting.fold()
    assert FailureGroup.objects.count() == 1

    assert refingerprinting.refingerprint() == 2
    counting.fold()

    assert FailureGroup.objects.count() == 2


def test_prose_that_version_1_cannot_tell_apart_is_fingerprinted_anew():
    for text in ("the bank is away", "attempts=12 > max=10"):
        a_letter_of_another_language(text)
    counting.fold()
    assert FailureGroup.objects.count() == 1

    assert refingerprinting.refingerprint() == 2
    counting.fold()

    assert FailureGroup.objects.count() == 2
