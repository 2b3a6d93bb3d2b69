"""`manage.py dead_letters recover` and `runs`: frozen, previewed, confirmed, followed to the end."""

import json
import sys
import time
from types import SimpleNamespace
from uuid import uuid4

import pytest
from django.db import transaction

from deadletters.management.verbs.calls import SystemUser
from deadletters.models import DeadLetter, OperatorAction, RecoveryItem, RecoveryRun, RecoveryStatus
from deadletters.recovery.stepping import step
from queues import Terminal, handles, send
from queues.testing import drain
from tests.db.shell import objects, run
from tests.factories import a_letter, a_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def flaky(handlers):
    """Register a handler that dies while `broken` names its payload."""
    state = {"broken": set(range(1000))}

    @handles("test.Flaky", max_attempts=1)
    def handler(message):
        if message.payload in state["broken"]:
            raise Terminal("not now")

    return state


@pytest.fixture
def died(flaky):
    """Let messages die, and return their letters."""

    def die(count):
        for number in range(count):
            send("test.Flaky", number)
        drain()
        return list(DeadLetter.objects.order_by("dead_lettered_at"))

    return die


@pytest.fixture(autouse=True)
def workers(monkeypatch):
    """Have steppers and drainers work whenever the command would wait."""

    def work(_seconds):
        with transaction.atomic():
            step(1)
        drain()

    monkeypatch.setattr(time, "sleep", work)


@pytest.fixture
def nobody(monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: False))


def test_one_letter_is_sent_at_once_without_a_run(died, flaky):
    (letter,) = died(1)
    flaky["broken"].clear()

    assert objects(run("recover", letter.pk, "--json"))[0]["outcome"] == "sent"
    assert not RecoveryRun.objects.exists()
    again = run("recover", letter.pk)
    assert (again.code, "recovering, by" in again.out) == (1, True)


@pytest.mark.parametrize(("broken", "code", "outcome"), [(set(), 0, "recovered"), ({0}, 1, "failed")])
def test_one_letter_is_followed_until_its_handler_has_answered(died, flaky, broken, code, outcome):
    (letter,) = died(1)
    flaky["broken"] = broken

    done = run("recover", letter.pk, "--wait", "--json")
    assert (done.code, objects(done)[0]["outcome"]) == (code, outcome)


def test_a_letter_is_edited_and_recovered_in_one_go(died, flaky, tmp_path):
    (letter,) = died(1)
    flaky["broken"] = {0}
    file = tmp_path / "payload.json"
    file.write_text("7")

    done = run("recover", letter.pk, "--edited-file", file, "--why=zero is none", "--wait", "--json")
    assert (done.code, objects(done)[0]["outcome"]) == (0, "recovered")
    assert DeadLetter.objects.get().original_id == letter.source_id


def test_all_that_match_are_recovered_as_a_run_and_followed(died, flaky):
    letters = died(7)
    other = a_letter(message_type="other.Type")
    flaky["broken"].clear()

    done = run("recover", "--all", "--type=test.Flaky", "--canary=2", "--why=fixed", "--yes", "--wait", "--json")

    assert done.code == 0, done.err
    (told,) = objects(done)
    assert (told["state"], told["letters"], told["totals"]["recovered"]) == ("finished", 7, 7)
    assert (told["plan"]["canary"], told["reason"]) == (2, "fixed")
    assert "7 letters, frozen as run" in done.err
    assert "test.Flaky 7" in done.err
    assert set(DeadLetter.objects.filter(recovery_status=3).values_list("pk", flat=True)) == {one.pk for one in letters}
    other.refresh_from_db()
    assert other.recovery_status == RecoveryStatus.PENDING
    actions = OperatorAction.objects.order_by("id").values_list("action", "actor")
    assert list(actions) == [(name, SystemUser().get_username()) for name in ("run_prepare", "run_start")]


def test_letters_that_did_not_recover_make_it_1_and_are_listed(died, flaky):
    died(3)
    flaky["broken"] = {1}

    done = run("recover", "--everything", "--canary=0", "--stop-failures=never", "--yes", "--wait", "--json")
    (told,) = objects(done)
    assert (done.code, told["totals"]["recovered"], told["totals"]["failed_again"]) == (1, 2, 1)
    failed = objects(run("runs", "items", told["run_id"], "--state=failed_again", "--json"))
    assert [item["state"] for item in failed] == ["failed_again"]


def test_a_run_that_stops_itself_on_its_canary_says_so(died, flaky):
    died(6)

    done = run("recover", "--everything", "--canary=2", "--yes", "--wait", "--json")
    (told,) = objects(done)
    assert (done.code, told["state"]) == (1, "stopped")
    assert "stopped itself: 2 of 2 canaries" in told["stop_reason"]
    assert told["totals"]["skipped"] == 4


def test_letters_by_their_ids_are_a_run(died, flaky):
    first, second, _ = died(3)
    flaky["broken"].clear()

    done = run("recover", first.pk, second.pk, second.pk, "--yes", "--wait", "--json")
    assert (done.code, objects(done)[0]["totals"]["recovered"]) == (0, 2)


def test_nothing_that_matches_is_1(flaky):
    done = run("recover", "--all", "--type=no.Such", "--yes", "--json")

    assert (done.code, objects(done)[0]["state"]) == (1, "finished")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "Name dead letters"),
        (["--all"], "--all needs a filter"),
        (["--type=a"], "Name dead letters"),
        (["--everything", "--type=a"], "Filters go with --all"),
        (["--everything", "--canary=-1", "--yes"], "Canary must be"),
        (["--everything", "--rate=0", "--yes"], "Rate must be"),
        (["--everything", "--starts-at=soon", "--yes"], "Starts at must be a time"),
        (["--everything", "--stop-failures=often"], "must be a number or never"),
        (["--everything"], "say with --yes"),
        (["--all", "--status=broken", "--yes"], "is no status"),
    ],
)
def test_a_recovery_that_is_asked_for_wrongly_begins_no_run(nobody, words, said):
    a_letter()
    done = run("recover", *words)

    assert said in done.err
    assert done.code in (1, 2)
    assert not RecoveryRun.objects.exists()


def test_a_person_is_shown_what_it_would_do_and_is_asked(died, monkeypatch):
    died(2)
    asked = SimpleNamespace(isatty=lambda: True, readline=lambda: "no\n")
    monkeypatch.setattr(sys, "stdin", asked)

    done = run("recover", "--everything")
    assert done.code == 1
    assert "Recover them? [y/N]" in done.err
    assert "Beware" in done.err
    assert RecoveryRun.objects.get().state == "stopped"
    assert not DeadLetter.objects.exclude(recovery_status=0).exists()


def test_a_run_is_followed_no_longer_than_asked(died, monkeypatch):
    died(2)
    monkeypatch.setattr(time, "sleep", lambda _: None)

    done = run("recover", "--everything", "--yes", "--wait", "--timeout=0", "--json")
    assert (done.code, objects(done)[0]["state"]) == (1, "ready")
    assert "goes on by itself" in done.err


def test_an_interrupt_ends_the_following_and_not_the_run(died, monkeypatch):
    died(2)

    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupt)
    done = run("recover", "--everything", "--yes", "--wait")
    assert (done.code, "No longer followed" in done.err) == (1, True)
    assert RecoveryRun.objects.get().state == "ready"


def prepared(count=2, **options):
    words = [f"--{name}={value}" for name, value in options.items()]
    done = run("recover", "--everything", "--yes", "--json", *words)
    return objects(done)[0]["run_id"]


def test_a_run_is_paused_resumed_and_stopped(died):
    died(4)
    run_id = prepared(canary=0, rate=0.001)
    with transaction.atomic():
        step(1)

    assert objects(run("runs", "pause", run_id, "--why=lunch", "--json"))[0]["state"] == "paused"
    assert run("runs", "pause", run_id).code == 2
    assert objects(run("runs", "resume", run_id, "--json"))[0]["state"] == "running"
    (told,) = objects(run("runs", "stop", run_id, "--json"))
    assert told["stop_reason"] == f"stopped by {SystemUser().get_username()}"
    assert RecoveryItem.objects.filter(state="waiting").count() == 0
    reasons = dict(OperatorAction.objects.values_list("action", "reason"))
    assert reasons["run_pause"] == "lunch"


def test_a_run_that_was_prepared_elsewhere_is_started_with_its_count(flaky, died):
    from deadletters.recovery import runs
    from deadletters.words.scopes import Letters

    lea = a_user("lea", "Leads")
    letters = died(3)
    run_id = runs.prepare(user=lea, scope=Letters(ids=[one.pk for one in letters]))

    assert run("runs", "start", run_id, "--count=4").code == 2
    assert objects(run("runs", "start", run_id, "--count=3", "--canary=1", "--json"))[0]["plan"]["canary"] == 1
    assert run("runs", "start", run_id).code == 2


def test_runs_are_listed_and_shown(died, flaky):
    died(3)
    flaky["broken"].clear()
    first = prepared(canary=0)
    a_letter(message_type="other.Type")

    assert [row["run_id"] for row in objects(run("runs", "list", "--json"))] == [first]
    assert objects(run("runs", "list", "--state=paused", "--json")) == []
    (shown,) = objects(run("runs", "show", first, "--json"))
    assert (shown["letters"], shown["newcomers"]) == (3, 0)
    assert first in run("runs", "list").out
    assert "3 not sent yet" in run("runs", "show", first).out
    assert len(objects(run("runs", "items", first, "--limit=2", "--json"))) == 2
    assert len(run("runs", "items", first).out.splitlines()) == 3


@pytest.mark.parametrize("verb", ["show", "items", "pause", "stop", "start"])
def test_a_run_that_is_not_there_is_1(verb):
    done = run("runs", verb, uuid4())

    assert (done.code, done.out) == (1, "")
    assert "no such recovery run" in done.err.lower()


@pytest.mark.parametrize("group", ["Viewers", None])
def test_nobody_recovers_without_the_right(died, group):
    letters = died(2)
    a_user("sam", group)

    assert run("recover", letters[0].pk, "--as=sam").code == 1
    assert run("recover", "--everything", "--yes", "--as=sam").code == 1
    assert not RecoveryRun.objects.exists()
    assert not OperatorAction.objects.exists()
    run_id = prepared()
    for verb in ("pause", "stop"):
        assert run("runs", verb, run_id, "--as=sam").code == 1
    assert run("runs", "show", run_id, "--as=sam").code == (0 if group else 1)


def test_no_secret_is_told_on_the_way(died):
    a_letter(error="password=hunter2!", payload=json.dumps({"password": "hunter2!"}))
    done = run("recover", "--everything", "--yes", "--json")
    told = [done, run("runs", "items", objects(done)[0]["run_id"]), run("list"), run("list", "--json")]

    assert not any("hunter2!" in one.out + one.err for one in told)
