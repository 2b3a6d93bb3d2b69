"""Each command that a page shows does what the page does."""

import html
import re
import shlex

import pytest
from django.urls import reverse

from deadletters import counting
from deadletters.models import DeadLetter, FailureGroup, Note, RecoveryRun, RecoveryStatus
from deadletters.words.commands import command_for
from deadletters.words.filters import LetterFilter
from tests.db.shell import objects, run
from tests.factories import a_letter, a_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def lead(signed_in):
    return signed_in(a_user("lea", "Leads"))


def told(browser, address):
    """Return the commands that a page shows, each as its words after the program."""
    content = browser.get(address).content.decode()
    lines = [html.unescape(line) for line in re.findall(r'data-copy="(python manage\.py [^"]+)"', content)]
    return [shlex.split(line)[3:] for line in lines]


def letter_page(letter):
    return reverse("deadletters:letter", args=[letter.pk])


def the(commands, *begins):
    (found,) = [words for words in commands if tuple(words[: len(begins)]) == begins]
    return found


EFFECTS = {
    "recover": RecoveryStatus.RECOVERING,
    "hold": RecoveryStatus.HELD,
    "give-up": RecoveryStatus.PERMANENTLY_FAILED,
}


@pytest.mark.parametrize("verb", EFFECTS)
def test_a_command_of_an_open_letter_does_what_its_button_does(page, verb):
    by_page, by_command = a_letter(), a_letter()
    commands = told(page, letter_page(by_command))
    if verb == "recover":
        page.post(reverse("deadletters:recover", args=[by_page.pk]))
    else:
        page.post(reverse("deadletters:decide", args=[by_page.pk]), {"decision": verb.replace("-", "_"), "status": "0"})

    assert run(*the(commands, verb)).code == 0
    for letter in (by_page, by_command):
        letter.refresh_from_db()
        assert letter.recovery_status == EFFECTS[verb]
    assert by_page.operator_disposition == by_command.operator_disposition


@pytest.mark.parametrize(
    ("status", "verb"), [(RecoveryStatus.HELD, "release"), (RecoveryStatus.PERMANENTLY_FAILED, "reopen")]
)
def test_a_command_of_a_closed_letter_opens_it(page, status, verb):
    letter = a_letter(status=status)

    assert run(*the(told(page, letter_page(letter)), verb)).code == 0
    letter.refresh_from_db()
    assert letter.recovery_status == RecoveryStatus.PENDING


def test_a_letter_is_shown_noted_edited_and_purged_by_its_commands(lead, tmp_path, monkeypatch):
    letter = a_letter()
    commands = told(lead, letter_page(letter))
    monkeypatch.chdir(tmp_path)

    assert objects(run(*the(commands, "show"), "--json"))[0]["dead_letter_id"] == str(letter.pk)
    assert run(*the(commands, "note")).code == 0
    assert Note.objects.get().text == "…"
    assert run(*the(commands, "triage")).code == 0
    assert DeadLetter.objects.get().owner == "…"
    (tmp_path / "payload.json").write_text(
        run(*the(commands, "edit", str(letter.pk), "--show")).out.replace("42", "43")
    )
    assert run(*the(commands, "edit", str(letter.pk), "--file=payload.json")).code == 0
    assert DeadLetter.objects.get().edited_version == 2
    assert run(*the(commands, "purge"), "--yes").code == 0
    assert not DeadLetter.objects.exists()


AWKWARD = {"type": 'it\'s.A "type"', "owner": "-", "q": "$(touch x); `id` --all", "since": "7d"}


def test_a_list_is_read_and_recovered_by_its_commands_whatever_its_filter_says(page):
    wanted = [a_letter(message_type=AWKWARD["type"], error=f"x {AWKWARD['q']}", dead_lettered_at=_now()) for _ in "ab"]
    a_letter()
    address = f"{reverse('deadletters:letters')}?{LetterFilter(**AWKWARD).query()}"
    commands = told(page, address)

    rows = objects(run(*the(commands, "list"), "--json"))
    assert {row["dead_letter_id"] for row in rows} == {str(one.pk) for one in wanted}
    done = run(*the(commands, "recover"), "--yes", "--json")
    assert (done.code, objects(done)[0]["letters"]) == (0, 2)


def _now():
    from django.utils import timezone

    return timezone.now()


def test_the_whole_list_is_recovered_only_by_the_word_everything(page):
    a_letter()
    words = the(told(page, reverse("deadletters:letters")), "recover")

    assert words == ["recover", "--everything"]
    assert run(*words, "--yes").code == 0
    assert RecoveryRun.objects.get().frozen_count == 1


@pytest.mark.parametrize("is_menu", [True, False], ids=["in its menu", "among its commands"])
def test_a_group_is_read_noted_and_recovered_by_its_commands(page, is_menu):
    a_letter(error="KeyError: 'a'", error_fingerprint="a" * 16)
    a_letter(error="ValueError: b", error_fingerprint="b" * 16)
    counting.fold()
    group = FailureGroup.objects.first()
    commands = told(page, reverse("deadletters:group", args=[group.pk]))

    assert len(objects(run(*the(commands, "list"), "--json"))) == 1
    assert run(*the(commands, "note")).code == 0
    assert Note.objects.get().group_id == group.pk
    assert run(*the(commands, "triage")).code == 0
    assert FailureGroup.objects.get(pk=group.pk).owner == "…"
    rest = [words for words in commands if (words[0] == "recover" and "--status=open" in words) == is_menu]
    assert run(*the(rest, "recover"), "--yes").code == 0
    assert RecoveryRun.objects.get().frozen_count == 1


def test_a_purge_of_a_list_is_shown_to_leads_only(page, lead):
    here = reverse("deadletters:letters")
    a_letter()

    assert not any(words[0] == "purge" for words in told(page, here))
    assert run(*the(told(lead, here), "purge"), "--yes").code == 0
    assert not DeadLetter.objects.exists()


def test_options_that_are_off_are_left_out_and_words_are_quoted():
    line = command_for("runs stop", "id", why="it's $HOME", json=False, count=None, wait=True)

    assert line == "python manage.py dead_letters runs stop id '--why=it'\"'\"'s $HOME' --wait"


def test_the_letters_about_a_subject_are_read_and_recovered_by_its_commands(page):
    wanted = a_letter(subjects=[("order", "it's 42")])
    a_letter(subjects=[("order", "43")])
    commands = told(page, f"{reverse('deadletters:subject')}?type=order&id=it%27s+42")

    assert [row["dead_letter_id"] for row in objects(run(*the(commands, "list"), "--json"))] == [str(wanted.pk)]
    assert run(*the(commands, "recover"), "--yes").code == 0
    assert RecoveryRun.objects.get().frozen_count == 1
