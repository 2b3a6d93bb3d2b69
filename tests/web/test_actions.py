"""What operators do: recover one letter, write a note; with htmx, without, and too late."""

from uuid import uuid4

import pytest
from django.core.exceptions import PermissionDenied
from django.urls import reverse

from deadletters import triage
from deadletters.models import DeadLetter, Note, OperatorAction, RecoveryStatus
from deadletters.words.errors import BadNote, NoSuchLetter
from queues import handles, wakeups
from queues.models import InboxMessage
from queues.testing import drain
from tests.addresses import address
from tests.factories import a_letter
from tests.web.conftest import HTMX

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def woken(monkeypatch):
    """Note the sources whose drainers would be woken."""
    sources = []
    monkeypatch.setattr(wakeups, "send", lambda wakeup: sources.extend(wakeup.args))
    return sources


def test_recover_puts_the_message_back_and_says_it_is_not_recovered_yet(
    page, woken, django_capture_on_commit_callbacks
):
    letter = a_letter(payload='{"order_id": "42"}')

    with django_capture_on_commit_callbacks(execute=True):
        response = page.post(address("recover", letter))
    assert response.headers["Location"] == address("letter", letter)
    assert InboxMessage.objects.get().message_id == letter.source_id
    assert woken == ["wh_inbox"]
    action = OperatorAction.objects.get()
    assert (action.actor, action.action, action.after) == ("olga", "recover", {"outcome": "sent"})
    content = page.get(address("letter", letter)).content.decode()
    assert "It counts as recovered once its handler has handled it." in content
    assert "waiting for its handler" in content


def test_recover_by_htmx_answers_with_the_changed_regions_only(page):
    content = page.post(address("recover", a_letter()), headers=HTMX).content.decode()

    assert "<html" not in content
    assert "Recovering" in content
    assert 'id="timeline"' in content
    assert "hx-swap-oob" in content


@pytest.mark.parametrize("headers", [{}, HTMX])
def test_the_second_of_two_people_reads_who_was_first_and_when(page, headers, woken):
    letter = a_letter(status=RecoveryStatus.RECOVERING, actor="vera")

    response = page.post(address("recover", letter), headers=headers)
    assert response.status_code == 409
    content = response.content.decode()
    assert f"Already recovering, by vera at {letter.last_recovery_at:%Y-%m-%d %H:%M:%S} UTC." in content
    assert "Recovering" in content
    assert ("<html" in content) == (headers == {})
    assert not InboxMessage.objects.exists()
    assert OperatorAction.objects.get().after == {"outcome": "recovering"}
    assert woken == []


def test_a_resubmitted_recover_of_a_recovered_letter_says_so_and_runs_nothing(page):
    letter = a_letter(status=RecoveryStatus.RECOVERED, actor="<b>vera</b>")

    response = page.post(address("recover", letter))
    assert response.status_code == 409
    assert "Already recovered by &lt;b&gt;vera&lt;/b&gt; at" in response.content.decode()
    assert not InboxMessage.objects.exists()


@pytest.mark.parametrize("headers", [{}, HTMX])
def test_the_same_request_that_arrives_again_after_the_success_says_who_was_first_and_sends_nothing(
    page, handlers, headers
):
    ran = []
    handles("test.Order")(lambda message: ran.append(message.payload))
    letter = a_letter(message_type="test.Order", payload="42")
    assert page.post(address("recover", letter), {"death": "1"}).status_code == 302
    drain()
    letter.refresh_from_db()
    assert (ran, letter.recovery_status) == ([42], RecoveryStatus.RECOVERED)

    again = page.post(address("recover", letter), {"death": "1"}, headers=headers)

    assert again.status_code == 409
    said = f"Already recovered by olga at {letter.last_recovery_at:%Y-%m-%d %H:%M:%S} UTC"
    assert said in again.content.decode()
    assert list(OperatorAction.objects.order_by("at", "pk").values_list("actor", "after__outcome")) == [
        ("olga", "sent"),
        ("olga", "recovered"),
    ]
    drain()
    assert ran == [42]
    assert not InboxMessage.objects.filter(processed_at=None).exists()
    assert DeadLetter.objects.get().recoveries_total == 1


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"status": RecoveryStatus.PERMANENTLY_FAILED}, "It was given up"),
        ({"source_table": "elsewhere"}, "cannot be recovered here"),
        ({"superseded_by": uuid4()}, "There is no such dead letter"),
    ],
)
def test_what_cannot_be_recovered_says_why(page, fields, said):
    response = page.post(address("recover", a_letter(**fields)))

    assert response.status_code in (404, 409)
    assert said in response.content.decode()
    assert not InboxMessage.objects.exists()


def test_an_id_that_waits_already_is_a_conflict_and_changes_nothing(page):
    letter = a_letter()
    page.post(address("recover", letter))
    DeadLetter.objects.update(recovery_status=RecoveryStatus.PENDING)

    response = page.post(address("recover", letter))
    assert response.status_code == 409
    assert "waits in the queue already" in response.content.decode()
    assert InboxMessage.objects.count() == 1
    assert DeadLetter.objects.get().recovery_status == RecoveryStatus.PENDING


@pytest.mark.parametrize("name", ["recover", "add_note"])
@pytest.mark.parametrize("headers", [{}, HTMX])
def test_an_unknown_letter_is_404_and_leaves_no_trace(page, name, headers):
    response = page.post(reverse(f"deadletters:{name}", args=[uuid4()]), {"text": "x"}, headers=headers)

    assert response.status_code == 404
    assert not OperatorAction.objects.exists()


def test_a_note_is_kept_with_author_and_shown_at_once(page):
    letter = a_letter()

    fragment = page.post(address("add_note", letter), {"text": " first\r\nsecond "}, headers=HTMX).content.decode()
    assert "first\nsecond" in fragment
    assert "<html" not in fragment
    note = Note.objects.get()
    assert (note.text, note.author) == ("first\nsecond", "olga")
    assert OperatorAction.objects.get().after == {"note_id": note.pk}
    assert page.post(address("add_note", letter), {"text": "plain"}).headers["Location"] == address("letter", letter)
    assert "The note is written." in page.get(address("letter", letter)).content.decode()


@pytest.mark.parametrize("headers", [{}, HTMX])
@pytest.mark.parametrize(
    ("text", "said"),
    [("  \n ", "A note needs some text."), ("é" * 4_001, "A note may have 4,000 characters; this one has 4,001.")],
)
def test_a_note_that_cannot_be_kept_is_422_and_nothing_typed_is_lost(page, headers, text, said):
    response = page.post(address("add_note", a_letter()), {"text": text}, headers=headers)

    assert response.status_code == 422
    assert said in response.content.decode()
    assert text in response.content.decode()
    assert not Note.objects.exists()
    assert not OperatorAction.objects.exists()


def test_a_nul_in_a_note_is_made_visible(page):
    page.post(address("add_note", a_letter()), {"text": "a\x00b"})

    assert Note.objects.get().text == "a\\x00b"


def test_the_services_refuse_by_themselves(viewer, stranger):
    letter = a_letter()

    for user in (viewer, stranger):
        with pytest.raises(PermissionDenied):
            triage.recover(dead_letter_id=letter.pk, user=user)
        with pytest.raises(PermissionDenied):
            triage.add_note(dead_letter_id=letter.pk, text="x", user=user)
    assert not OperatorAction.objects.exists()


def test_the_services_say_what_is_wrong(operator):
    with pytest.raises(NoSuchLetter):
        triage.recover(dead_letter_id=uuid4(), user=operator)
    with pytest.raises(NoSuchLetter):
        triage.add_note(dead_letter_id=uuid4(), text="x", user=operator)
    with pytest.raises(BadNote):
        triage.add_note(dead_letter_id=a_letter().pk, text="", user=operator)


def test_a_recovery_that_fails_leaves_no_action(operator, monkeypatch):
    def fail(source):
        raise RuntimeError(source)

    letter = a_letter()
    monkeypatch.setattr(wakeups, "wake", fail)
    with pytest.raises(RuntimeError):
        triage.recover(dead_letter_id=letter.pk, user=operator)

    assert not OperatorAction.objects.exists()
    assert DeadLetter.objects.get().recovery_status == RecoveryStatus.PENDING


@pytest.mark.parametrize("headers", [{}, HTMX])
def test_the_same_request_that_arrives_again_after_another_death_recovers_nothing(page, headers):
    letter = a_letter(deaths=2)

    answer = page.post(address("recover", letter), {"death": "1"}, headers=headers)

    assert answer.status_code == 409
    assert "died again since this page was read" in answer.content.decode()
    letter.refresh_from_db()
    assert (letter.recovery_status, letter.recoveries_total) == (0, 0)
    assert OperatorAction.objects.get().after == {"outcome": "died_again"}


def test_the_recover_form_says_which_death_it_is_about(page):
    letter = a_letter(deaths=2)

    assert '<input type="hidden" name="death" value="2">' in page.get(address("letter", letter)).content.decode()
    assert page.post(address("recover", letter), {"death": "2"}).status_code == 302
