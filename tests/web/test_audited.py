"""Every address that changes something leaves exactly one operator action, in the same transaction.

The addresses come from the URL table: one that takes a POST and is not in `DONE` fails here.
"""

from uuid import uuid4

import pytest
from django.db import connection
from django.urls import reverse

from deadletters import counting, urls
from deadletters.models import DeadLetter, FailureGroup, OperatorAction, RecoveryRun, SavedView
from deadletters.queries import parts
from queues import wakeups
from queues.models import Destination, Stream
from tests.addresses import address
from tests.factories import NOON, a_letter, a_run, a_user
from tests.web.changes import everything
from tests.web.test_edits import form_of

pytestmark = pytest.mark.django_db

ASKS = {"ask_many"}
"""What takes a POST and only asks: the form may be too long for an address."""

READS = ("export", "export_letter", "export_audit")
"""What hands out data and is written down, too."""


@pytest.fixture(autouse=True)
def woken(monkeypatch):
    monkeypatch.setattr(wakeups, "send", lambda wakeup: None)


@pytest.fixture
def root(signed_in):
    return signed_in(a_user("root", is_superuser=True))


def of_letter(name, /, **typed):
    def make(page, letter):
        shown = page.get(reverse("deadletters:letter", args=[letter.pk])).context
        return address(name), {"seen": shown["form_seen"], "row_version": letter.row_version, **typed}

    return make


def of_group(name, /, **typed):
    def make(_page, _letter):
        return address(name), {"row_version": FailureGroup.objects.get().row_version, **typed}

    return make


def of_message(name, /, **typed):
    return lambda _page, _letter: (address(name), {"reason": "it loops", **typed})


def of_version(_page, _letter):
    here = address("restore")
    return here, {"reason": "it was right", "row_version": DeadLetter.objects.get().row_version}


def of_edit(page, letter):
    here, typed = address("edit"), {"text": '{"city": "Bonn"}', "reason": "the city"}
    previewed = page.post(here, {**form_of(page.get(here)), **typed, "step": "preview"}, follow=True)
    return here, {**form_of(previewed), **typed, "step": "save"}


def of_many(page, letter):
    asked = page.post(
        "/letters/many", {"verb": "hold", "scope": "picked", "letter": [str(letter.pk)]}, follow=True
    ).context
    typed = {"verb": "hold", "scope": "picked", "letter": [str(letter.pk)], "count": "1"}
    return "/letters/many/do", {**typed, "asked_at": asked["asked_at"]}


def of_run(name, /, **typed):
    def make(_page, letter):
        run = RecoveryRun.objects.first() or a_run([letter])
        return address(name), {"row_version": run.row_version, "count": "1", **typed}

    return make


def of_moving_run(page, letter):
    page.post(*of_run("start_run", canary="0")(page, letter))
    return address("change_run"), {"action": "pause"}


def of_stream(_page, letter):
    stream = uuid4()
    Stream.objects.create(queue="wh_inbox", stream_id=stream, due_at=NOON, held_by=letter.pk)
    return "/queues/streams/let-go", {"queue": "wh_inbox", "stream": str(stream), "letter": str(letter.pk)}


def of_destination(_page, _letter):
    Destination.objects.create(name="bank", state="open", failures=4, opened_at=NOON, retry_at=NOON)
    return "/queues/destinations/try", {"name": "bank"}


def of_view(page, _letter):
    page.post("/letters/views", {"name": "night", "query": "status=open"})
    return f"/letters/views/{SavedView.objects.get().pk}/change", {"name": "day"}


DONE = {
    "recover": of_letter("recover"),
    "add_note": of_letter("add_note", text="called the bank"),
    "triage_letter": of_letter("triage_letter", owner="vera"),
    "decide": of_letter("decide", decision="hold", status="0"),
    "act": of_letter("act", verb="hold", status="0"),
    "reveal": of_letter("reveal", field="bytes", reason="the bank asks"),
    "payload": of_letter("payload", reason="the bank asks"),
    "edit": of_edit,
    "restore": of_version,
    "purge": of_letter("purge", reason="asked to"),
    "change_many": of_many,
    "triage_group": of_group("triage_group", owner="vera"),
    "add_group_note": of_group("add_group_note", text="called the bank"),
    "group_act": of_group("group_act", action="assign_me"),
    "prepare_run": lambda _page, letter: ("/runs/prepare", {"scope": "picked", "letter": [str(letter.pk)]}),
    "start_run": of_run("start_run", canary="0"),
    "change_run": of_moving_run,
    "pause": lambda _page, _letter: ("/queues/pause", {"what": "inbox", "reason": "deploying"}),
    "resume": of_message("resume"),
    "let_stream_go": of_stream,
    "try_destination": of_destination,
    "run_now": of_message("run_now"),
    "stop": of_message("stop"),
    "dead_letter": of_message("dead_letter"),
    "save_view": lambda _page, _letter: ("/letters/views", {"name": "night", "query": "status=open"}),
    "change_view": of_view,
}


FILES = {"payload"}
"""What answers with a file: the browser saves it and stays where it is."""

LEAVES = {"change_many": 2}
"""One for each letter, and one that says what was asked for."""


def allowed(page, pattern):
    """Return the methods that an address takes, by what it says of one that it does not."""
    if pattern.name in ("patterns", "healthz", "readyz", *READS):
        return ""
    return page.put(address(pattern.name)).headers.get("Allow", "")


def test_every_address_that_takes_a_post_is_in_the_table(root):
    posts = {pattern.name for pattern in urls.urlpatterns if "POST" in allowed(root, pattern)}
    assert posts == set(DONE) | ASKS


def made(page, name):
    letter = a_letter()
    counting.fold()
    here = DONE[name](page, letter)
    return here, OperatorAction.objects.count()


@pytest.mark.parametrize("name", DONE)
def test_what_is_done_leaves_exactly_one_action_with_its_person(root, name):
    (here, typed), before = made(root, name)
    was = everything()

    response = root.post(here, typed)
    done = 200 if name in FILES else 302  # a page that answers a form cannot be gone back to
    assert response.status_code == done, response.content.decode()[-3_000:]
    assert OperatorAction.objects.count() == before + LEAVES.get(name, 1)
    assert OperatorAction.objects.latest("id").actor == "root"
    assert name in ("payload", "recover") or everything() != was


@pytest.mark.parametrize("name", DONE)
def test_what_cannot_be_written_down_is_not_done(root, name):
    (here, typed), _ = made(root, name)
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE FUNCTION no_audit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no audit'; END $$;"
            "CREATE TRIGGER no_audit BEFORE INSERT ON operator_actions FOR EACH ROW EXECUTE FUNCTION no_audit()"
        )
    root.raise_request_exception = False
    was = everything()

    assert root.post(here, typed).status_code == 500
    assert everything() == was


@pytest.mark.parametrize("name", READS)
def test_what_is_handed_out_is_written_down(root, name):
    letter = a_letter()
    given = {"export": ["csv"], "export_audit": ["csv"]}.get(name, [letter.pk])

    response = root.get(reverse(f"deadletters:{name}", args=given))
    assert response.status_code == 200
    assert OperatorAction.objects.get().actor == "root"


def test_the_database_refuses_to_change_or_remove_an_action(root):
    (here, typed), _ = made(root, "add_note")
    root.post(here, typed)
    assert parts.of(DeadLetter.objects.get()).notes

    for statement in ("UPDATE operator_actions SET reason = 'x'", "DELETE FROM operator_actions"):
        with pytest.raises(Exception, match="append-only"), connection.cursor() as cursor:
            cursor.execute(f"SAVEPOINT before; {statement}")
        with connection.cursor() as cursor:
            cursor.execute("ROLLBACK TO SAVEPOINT before")
    assert OperatorAction.objects.count() == 1
