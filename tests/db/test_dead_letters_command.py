"""`manage.py dead_letters`: the same filters, rights and audit as the pages; exit codes; nothing secret."""

import io
import json
import os
import sys
from types import SimpleNamespace
from uuid import uuid4

import pytest
from django.core.management import call_command

from deadletters import counting
from deadletters.management.verbs.calls import SystemUser
from deadletters.models import DeadLetter, FailureGroup, Note, OperatorAction, RecoveryStatus
from deadletters.words.filters import LetterFilter
from queues.words.redaction import MASK
from tests.db.shell import objects, run
from tests.factories import a_letter, a_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def typed(monkeypatch):
    """Let standard input hold a text; nobody sits at it."""

    def hold(text):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    hold("")
    return hold


def test_every_filter_of_the_page_is_an_option():
    told = io.StringIO()
    with pytest.raises(SystemExit):
        _help("list", told)

    for name in LetterFilter.SAID:
        assert f"--{name}" in told.getvalue()


def _help(verb, told):
    from contextlib import redirect_stdout

    with redirect_stdout(told):
        call_command("dead_letters", verb, "--help")


def test_a_list_is_json_lines_the_newest_first():
    old, new = a_letter(message_type="a.A"), a_letter(message_type="b.B", subjects=[("order", "42")])

    rows = objects(run("list", "--json"))
    assert [row["dead_letter_id"] for row in rows] == [str(new.pk), str(old.pk)]
    assert (rows[0]["type"], rows[0]["status"], rows[0]["subjects"]) == ("b.B", "open", ["order:42"])
    assert [row["type"] for row in objects(run("list", "--type=a.A", "--json"))] == ["a.A"]


def test_a_list_goes_on_where_it_ended():
    letters = [a_letter() for _ in range(3)]
    first = run("list", "--limit=2", "--json")
    place = first.err.partition("--after=")[2].strip()

    assert [row["dead_letter_id"] for row in objects(first)] == [str(letters[2].pk), str(letters[1].pk)]
    rest = run("list", "--limit=2", f"--after={place}", "--json")
    assert [row["dead_letter_id"] for row in objects(rest)] == [str(letters[0].pk)]
    assert not rest.err


def test_a_reader_who_has_had_enough_ends_a_list_without_a_traceback(monkeypatch):
    class Pipe(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    closed = []
    monkeypatch.setattr(os, "dup2", lambda *files: closed.append(files))
    a_letter()

    with pytest.raises(SystemExit) as ended:
        call_command("dead_letters", "list", stdout=Pipe())
    assert (ended.value.code, len(closed)) == (1, 1)


def test_a_letter_is_shown_whole_and_masked():
    letter = a_letter(payload='{"password": "hunter2!", "n": 1.10}', error="ValueError: no\npassword=hunter2!")

    for words in (["--json"], []):
        done = run("show", letter.pk, *words)
        assert done.code == 0
        assert "hunter2!" not in done.out
        assert MASK in done.out
        assert "1.10" in done.out
    assert objects(run("show", letter.pk, "--json"))[0]["dead_letter_id"] == str(letter.pk)


@pytest.mark.parametrize(
    ("verb", "before", "after"),
    [
        ("hold", RecoveryStatus.PENDING, RecoveryStatus.HELD),
        ("release", RecoveryStatus.HELD, RecoveryStatus.PENDING),
        ("give-up", RecoveryStatus.PENDING, RecoveryStatus.PERMANENTLY_FAILED),
        ("reopen", RecoveryStatus.PERMANENTLY_FAILED, RecoveryStatus.PENDING),
    ],
)
def test_a_decision_is_taken_and_audited_under_a_name(verb, before, after):
    letter = a_letter(status=before)

    assert objects(run(verb, letter.pk, "--why=night", "--json"))[0]["is_done"] is True

    letter.refresh_from_db()
    assert letter.recovery_status == after
    action = OperatorAction.objects.get()
    assert (action.actor, action.reason) == (SystemUser().get_username(), "night")
    assert action.actor.endswith("(command line)")


def test_each_letter_is_answered_for_and_one_that_was_not_done_makes_it_1():
    open_, recovered, gone = a_letter(), a_letter(status=RecoveryStatus.RECOVERED), uuid4()

    done = run("hold", open_.pk, recovered.pk, gone, "--json")
    assert done.code == 1
    assert [row["is_done"] for row in objects(done)] == [True, False, False]
    assert "the letter is recovered" in objects(done)[1]["said"]


def test_a_note_is_written_on_a_letter_or_on_a_group():
    letter = a_letter()
    counting.fold()

    assert run("note", letter.pk, "--text=look").code == 0
    assert run("note", "--group", FailureGroup.objects.get().pk, "--text", "all of them").code == 0
    assert set(Note.objects.values_list("text", "author")) == {
        ("look", SystemUser().get_username()),
        ("all of them", SystemUser().get_username()),
    }
    assert run("note", "--text=x").code == 2


def test_what_a_letter_and_a_group_are_triaged_to_is_written_and_taken_away():
    letter = a_letter()
    counting.fold()
    group = FailureGroup.objects.get()

    done = run("triage", letter.pk, "--owner=ann", "--quiet-until=2030-01-31T12:00", "--why=night", "--json")
    assert objects(done)[0]["after"] == {"owner": "ann", "quiet_until": "2030-01-31T12:00:00+00:00"}
    assert run("triage", letter.pk, "--owner=").out.strip() == "owner: ann → -"
    assert "Nothing was different" in run("triage", letter.pk, "--owner=").out
    words = ["--state=fixed", "--fixed-in-build=b9", "--ticket=OPS-1", "--quiet-until-count=5", "--decision=hold"]
    assert run("triage", "--group", group.pk, *words).code == 0
    group.refresh_from_db()
    assert (group.fixed_in_generation, group.ticket, group.quiet_until_count) == ("b9", "OPS-1", 5)
    assert group.operator_disposition == 2
    assert OperatorAction.objects.first().reason == "night"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--owner=x"], "Name a dead letter"),
        (["ID"], "Say what to change"),
        (["ID", "--quiet-until=soon"], "must be a date and a time"),
        (["ID", "--ticket=x"], "is not changed by hand"),
        (["--group=ID", "--decision=retry"], "must be one of"),
        (["--group=ID", "--quiet-until-count=many"], "must be a whole number"),
    ],
)
def test_a_triage_that_cannot_be_is_2(words, said):
    letter = a_letter()
    counting.fold()
    ids = {"ID": str(letter.pk), "--group=ID": f"--group={FailureGroup.objects.get().pk}"}

    done = run("triage", *(ids.get(word, word) for word in words))
    assert (done.code, said in done.err) == (2, True)
    assert not OperatorAction.objects.exists()


def test_a_user_acts_with_their_rights_and_in_their_name():
    letter = a_letter()
    a_user("olga", "Operators")
    a_user("vic", "Viewers")

    assert run("hold", letter.pk, "--as=olga").code == 0
    assert OperatorAction.objects.get().actor == "olga"
    done = run("release", letter.pk, "--as=vic")
    assert (done.code, "vic lacks the right" in done.err) == (1, True)
    assert run("list", "--as=vic").code == 0


@pytest.mark.parametrize("verb", ["list", "show", "hold", "note", "edit", "purge", "recover", "tick"])
def test_a_stranger_does_nothing_and_sees_nothing(verb, typed):
    letter = a_letter(error="the secret of the letter")
    a_user("sam")
    words = {
        "list": [],
        "tick": [],
        "note": [letter.pk, "--text=x"],
        "edit": [letter.pk, "--show"],
        "purge": [letter.pk, "--why=x", "--yes"],
    }.get(verb, [letter.pk])

    done = run(verb, *words, "--as=sam")
    assert (done.code, done.out) == (1, "")
    assert "secret" not in done.err
    assert not OperatorAction.objects.exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["list", "--status=exploded"], "no status"),
        (["list", "--limit=0"], "--limit"),
        (["list", "--after=yesterday"], "cannot be read"),
        (["list", "--as=nobody"], "no active user"),
        (["list", "--subject=42"], "type:id"),
        (["show", "42"], "invalid UUID"),
        (["hold"], "required"),
        (["explode"], "invalid choice"),
        ([], "required"),
    ],
)
def test_wrong_use_is_2_with_the_reason(words, said):
    done = run(*words)

    assert said in done.err
    assert done.code in (1, 2)  # argparse's own errors are 2 only from a shell
    if "=" in "".join(words):
        assert done.code == 2


def test_what_is_not_there_is_1():
    done = run("show", uuid4())

    assert (done.code, done.out) == (1, "")
    assert "There is no such dead letter" in done.err


def test_a_payload_is_edited_from_a_file_with_its_masks_in_place(tmp_path):
    letter = a_letter(payload='{"password": "hunter2!", "city": "Bonn"}')
    shown = objects(run("edit", letter.pk, "--show", "--json"))[0]
    assert "hunter2!" not in shown["payload"]
    file = tmp_path / "payload.json"
    file.write_text(shown["payload"].replace("Bonn", "Ulm"))

    words = ["--why=moved", f"--row-version={shown['row_version']}"]
    done = run("edit", letter.pk, "--file", file, *words, "--json")

    assert objects(done) == [{"dead_letter_id": str(letter.pk), "version": 2}]
    assert json.loads(DeadLetter.objects.get().envelope)["event_data"] == {"password": "hunter2!", "city": "Ulm"}
    assert run("edit", letter.pk, "--file", file, *words).code == 1
    assert run("edit", letter.pk, "--restore=1", "--why=was right").code == 0
    assert json.loads(DeadLetter.objects.get().envelope)["event_data"]["city"] == "Bonn"


def test_a_payload_is_edited_from_standard_input(typed):
    letter = a_letter()
    typed('{"order_id": "43"}')

    assert run("edit", letter.pk, "--file=-", "--why=typo").code == 0
    assert json.loads(DeadLetter.objects.get().envelope)["event_data"] == {"order_id": "43"}


@pytest.mark.parametrize(
    ("text", "words", "said"),
    [
        ("{", ["--why=x"], "no JSON at line 1"),
        ("{}", [], "Reason"),
    ],
)
def test_an_edit_that_cannot_be_kept_is_2(typed, text, words, said):
    typed(text)
    done = run("edit", a_letter().pk, "--file=-", *words)

    assert (done.code, said in done.err) == (2, True)


def test_a_file_that_is_not_there_is_2():
    assert run("edit", a_letter().pk, "--file=/nowhere/at/all", "--why=x").code == 2


def test_letters_are_purged_by_id_and_by_filter(typed):
    one, *others = [a_letter(message_type="a.A") for _ in range(3)]
    other = a_letter(message_type="b.B")

    assert objects(run("purge", one.pk, "--why=asked", "--yes", "--json")) == [{"purged": 1, "refused": 0}]
    done = run("purge", "--all", "--type=a.A", "--why=asked", "--yes")
    assert (done.code, "2 purged" in done.out) == (0, True)
    assert DeadLetter.objects.get() == other
    assert OperatorAction.objects.filter(action="purge").count() == len(others) + 1


def test_letters_that_stay_are_named_with_the_reason_and_make_it_1(typed):
    free, out = a_letter(), a_letter(status=RecoveryStatus.RECOVERING)

    done = run("purge", free.pk, out.pk, "--why=asked", "--yes", "--json")
    assert done.code == 1
    assert objects(done) == [{"purged": 1, "refused": 1}]
    assert f"{out.pk}  its message is out" in done.err


@pytest.mark.parametrize(
    "words",
    [
        ["--why=x", "--yes"],
        ["--why=x", "--yes", "--all"],
        ["--why=x", "--yes", "--everything", "--type=a"],
        ["--why=x", "--yes", "--type=a"],
        ["--why=x", "--all", "--type=shop.PlaceOrder"],
    ],
)
def test_a_purge_without_a_scope_or_without_a_yes_is_refused(typed, words):
    a_letter()

    assert run("purge", *words).code == 2
    assert DeadLetter.objects.count() == 1


def test_everything_is_purged_only_by_that_word(typed):
    a_letter()

    assert run("purge", "--everything", "--why=x", "--yes").code == 0
    assert not DeadLetter.objects.exists()


def test_a_purge_asks_a_person_and_goes_by_the_answer(monkeypatch):
    for answer, left in (("n\n", 1), ("y\n", 0)):
        if not left:
            DeadLetter.objects.all().delete()
        letter = a_letter()
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True, readline=lambda answer=answer: answer))
        done = run("purge", letter.pk, "--why=x")
        assert "1 dead letter would be removed for good." in done.err
        assert DeadLetter.objects.count() == left
