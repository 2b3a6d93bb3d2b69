"""Who may see and do what: nothing is open by default, and no header or method gets around it."""

import pytest
from django.test import Client
from django.urls import reverse

from deadletters import counting, urls
from deadletters.models import (
    DeadLetter,
    FailureGroup,
    Note,
    OperatorAction,
    RecoveryRun,
    RecoveryStatus,
    RunState,
    SavedView,
)
from deadletters.store import edits as store
from deadletters.store.audit import Actor
from queues.models import InboxMessage, SourcePause
from queues.words.payloads import Encoded
from tests.db.rows import write_row
from tests.factories import PASSWORD, a_letter, a_run, a_user
from tests.web.conftest import HTMX

pytestmark = pytest.mark.django_db

METHODS = ("get", "head", "post", "put", "patch", "delete")
ACTIONS = (
    *(
        "recover",
        "add_note",
        "triage_letter",
        "decide",
        "act",
        "ask_many",
        "change_many",
        "triage_group",
        "add_group_note",
        "group_act",
    ),
    *("pause", "resume", "let_stream_go", "try_destination", "run_now", "stop", "dead_letter"),
    *("prepare_run", "start_run", "change_run"),
)
OF_LEADS = ("edit", "restore", "purge", "reveal")
OF_A_LETTER = (
    *("letter", "live", "recover", "add_note", "triage_letter", "decide", "edit", "purge", "reveal"),
    *("act", "row"),
)
OF_A_VERSION = ("version", "restore")
OF_A_GROUP = ("group", "triage_group", "add_group_note", "group_act", "group_menu")
OF_A_RUN = ("run", "run_live", "run_preview", "start_run", "change_run")
OF_A_MESSAGE = ("live_message", "message_state", "run_now", "stop", "dead_letter")
READ = (
    *("overview", "letters", "count_letters", "saved_view", "letter", "version"),
    *("groups", "group", "group_menu", "subjects", "subject"),
    *("queues", "live_messages", "live_message", "held_streams", "destinations", "workers"),
    *("runs", "run", "run_preview", "audit"),
)
OWN = ("save_view", "change_view")
"""What everybody who sees the list may do for themselves."""
NAMES = (
    *("region", "newer", "live", "row", "suggest", "group_of", "message_state", "run_live"),
    *(*READ, *ACTIONS, *OWN, *OF_LEADS),
)
ELSEWHERE = {"patterns", "healthz", "readyz"}
"""Open to all, or to nobody; exports have tests of their own."""


def address(name, letter):
    if name in OF_A_GROUP:
        counting.fold()
        return reverse(f"deadletters:{name}", args=[FailureGroup.objects.get().pk])
    if name in OF_A_RUN:
        run = RecoveryRun.objects.first() or a_run([letter or a_letter()], reason="the secret of the letter")
        return reverse(f"deadletters:{name}", args=[run.pk])
    if name in OF_A_MESSAGE or name in ("live_messages", "resume"):
        return of_the_queues(name)
    if name in OF_A_VERSION:
        edited(letter)
        return reverse(f"deadletters:{name}", args=[letter.pk, 1])
    if name in ("saved_view", "change_view"):
        fields = {"owner_id": "0", "owner": "vera", "page": "letters", "name": "theirs", "query": "status=open"}
        view, _ = SavedView.objects.get_or_create(is_shared=True, **fields)
        return reverse(f"deadletters:{name}", args=[view.pk])
    if name == "group_of":
        return reverse("deadletters:group_of", args=[letter.error_fingerprint])
    if name == "region":
        return reverse("deadletters:region", args=["groups"])
    query = "?type=order&id=1" if name == "subject" else ""
    return reverse(f"deadletters:{name}", args=[letter.pk] if name in OF_A_LETTER else []) + query


def edited(letter):
    """Give the letter a second version of its payload, once."""
    if not letter.payloads.exists():
        store.edit(
            letter.pk, Encoded(json="{}", raw=None, size=2), by=Actor(name="lea"), reason="", row_version=1, limit=9
        )


def of_the_queues(name):
    """Return the address of a live message with the secret in its error, or of a pause with it as its reason."""
    if name == "resume":
        pause = SourcePause.objects.first() or a_pause(reason="the secret of the letter")
        return reverse("deadletters:resume", args=[pause.pk])
    if name == "live_messages":
        return reverse("deadletters:live_messages", args=["inbox"])
    waiting = InboxMessage.objects.values_list("message_id", flat=True).first()
    message_id = waiting or write_row("wh_inbox", error="the secret of the letter")
    return reverse(f"deadletters:{name}", args=["inbox", message_id])


def a_pause(**fields):
    return SourcePause.objects.create(source="wh_inbox", kind="source", paused_by="lea", **fields)


def test_every_address_is_in_this_table():
    named = {
        pattern.name for pattern in urls.urlpatterns if "export" not in pattern.name and "payload" not in pattern.name
    }

    assert named == set(NAMES) | ELSEWHERE


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("method", METHODS)
def test_a_stranger_gets_403_by_any_method_and_header(signed_in, stranger, name, method):
    browser, letter = signed_in(stranger), a_letter(error="the secret of the letter")

    for headers in ({}, HTMX):
        response = getattr(browser, method)(address(name, letter), headers=headers)
        assert response.status_code == 403
        assert b"the secret of the letter" not in response.content


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("method", METHODS)
def test_nobody_sees_anything_without_signing_in(client, name, method):
    letter = a_letter(error="the secret of the letter")

    response = getattr(client, method)(address(name, letter))
    assert response.status_code == 302
    assert response.headers["Location"].startswith(reverse("login"))


@pytest.mark.parametrize("name", ACTIONS)
@pytest.mark.parametrize("method", METHODS)
def test_a_viewer_changes_nothing_by_any_method_and_header(signed_in, viewer, name, method):
    browser, letter = signed_in(viewer), a_letter()

    for headers in ({}, HTMX, {"X-HTTP-Method-Override": "POST"}):
        assert getattr(browser, method)(address(name, letter), headers=headers).status_code == 403

    assert DeadLetter.objects.get().recovery_status == RecoveryStatus.PENDING
    assert not Note.objects.exists()
    assert not OperatorAction.objects.exists()
    assert SourcePause.objects.exists() == (name == "resume")
    assert not RecoveryRun.objects.exclude(state=RunState.READY, starts_at=None).exists()


@pytest.mark.parametrize("name", OF_LEADS)
@pytest.mark.parametrize("method", METHODS)
def test_an_operator_neither_edits_nor_purges_by_any_method_and_header(page, name, method):
    letter = a_letter(error="the secret of the letter")

    for headers in ({}, HTMX, {"X-HTTP-Method-Override": "POST"}):
        response = getattr(page, method)(address(name, letter), headers=headers)
        assert response.status_code == 403
        assert b"the secret of the letter" not in response.content
    assert DeadLetter.objects.exists()
    assert not OperatorAction.objects.exists()


@pytest.mark.parametrize("name", OF_LEADS)
def test_a_lead_changes_nothing_without_the_csrf_token_or_by_get(signed_in, name):
    lea, letter = a_user("lea", "Leads"), a_letter()
    here = address(name, letter)

    assert signed_in(lea, csrf=True).post(here, {"reason": "x", "text": "{}", "row_version": "1"}).status_code == 403
    assert signed_in(lea).get(here, {"reason": "x"}).status_code == (405 if name in ("restore", "reveal") else 200)
    assert DeadLetter.objects.exists()
    assert not OperatorAction.objects.exists()


@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize("headers", [{}, HTMX])
def test_a_viewer_reads_pages_and_fragments(signed_in, viewer, name, headers):
    browser, letter = signed_in(viewer), a_letter()

    assert browser.get(address(name, letter), headers=headers).status_code == 200


def test_a_viewer_sees_why_recover_is_off_and_no_form(signed_in, viewer):
    content = signed_in(viewer).get(address("letter", a_letter())).content.decode()

    assert "You lack the right to recover." in content
    assert "You lack the right to triage." in content
    assert "<textarea" not in content
    assert 'name="decision"' not in content
    group = signed_in(viewer).get(address("group", None)).content.decode()
    assert "You lack the right to triage." in group
    assert "<textarea" not in group
    assert 'name="owner"' not in group
    run = signed_in(viewer).get(address("run", a_letter())).content.decode()
    assert "You lack the right to start it." in run
    assert "start_run" not in run
    assert 'name="canary"' not in run


@pytest.mark.parametrize("name", ACTIONS)
@pytest.mark.parametrize("method", ["get", "head", "put", "patch", "delete"])
def test_no_state_changes_but_by_post(page, name, method):
    letter = a_letter()

    assert getattr(page, method)(address(name, letter), {"text": "x", "decision": "hold"}).status_code == 405
    assert DeadLetter.objects.get().recovery_status == RecoveryStatus.PENDING
    assert not Note.objects.exists()


@pytest.mark.parametrize("name", ACTIONS)
def test_a_post_without_the_csrf_token_changes_nothing(signed_in, operator, name):
    letter = a_letter()

    response = signed_in(operator, csrf=True).post(address(name, letter), {"text": "x"})
    assert response.status_code == 403
    assert "out of date" in response.content.decode()
    assert not OperatorAction.objects.exists()


def test_a_fragment_sends_a_signed_out_browser_to_the_sign_in_and_back_to_its_page(client):
    letter = a_letter()
    here = f"http://testserver{address('letter', letter)}?x=1"

    response = client.get(address("live", letter), headers={**HTMX, "HX-Current-URL": here})
    assert response.status_code == 200
    assert response.content == b""
    assert response.headers["HX-Redirect"] == f"{reverse('login')}?next={address('letter', letter)}%3Fx%3D1"


def test_a_signed_out_browser_is_never_sent_to_another_site(client):
    headers = {**HTMX, "HX-Current-URL": "https://evil.example/elsewhere"}

    response = client.post(address("recover", a_letter()), headers=headers)
    assert response.headers["HX-Redirect"] == f"{reverse('login')}?next=/"


def test_an_action_after_the_session_ended_comes_back_to_a_page_not_to_the_action(client):
    letter = a_letter()

    response = client.post(
        address("recover", letter), headers={"Referer": f"http://testserver{address('letter', letter)}"}
    )
    assert response.headers["Location"] == f"{reverse('login')}?next={address('letter', letter)}"
    assert client.get(address("recover", letter)).headers["Location"] == f"{reverse('login')}?next=/"


def test_an_action_whose_form_is_the_answer_to_another_comes_back_to_a_page(client):
    for page in (reverse("deadletters:ask_many"), reverse("deadletters:change_many")):
        response = client.post(reverse("deadletters:change_many"), headers={"Referer": f"http://testserver{page}"})
        assert response.headers["Location"] == f"{reverse('login')}?next={reverse('deadletters:overview')}"


def test_a_user_made_inactive_is_signed_out_at_once(signed_in, operator):
    browser = signed_in(operator)
    operator.is_active = False
    operator.save()

    assert browser.post(address("recover", a_letter())).status_code == 302
    assert DeadLetter.objects.get().recovery_status == RecoveryStatus.PENDING


def test_sign_in_leads_to_where_one_was_going_and_sign_out_is_a_post(client):
    a_user("olga", "Operators")
    target = "/letters/?status=open"

    signed_in = client.post(reverse("login"), {"username": "olga", "password": PASSWORD, "next": target})
    assert signed_in.headers["Location"] == target
    assert client.get(reverse("logout")).status_code == 405
    assert client.post(reverse("logout")).headers["Location"] == reverse("login")
    assert client.get(target).status_code == 302


def test_a_wrong_password_is_said_and_the_name_is_kept(client):
    a_user("olga")

    content = client.post(reverse("login"), {"username": "olga", "password": "wrong"}).content.decode()
    assert "Please enter a correct username and password" in content
    assert 'value="olga"' in content


def test_a_password_is_changed_outside_the_admin(signed_in, operator):
    new = {"old_password": PASSWORD, "new_password1": "another long phrase", "new_password2": "another long phrase"}
    browser = signed_in(operator)

    assert "Change password" in browser.get(reverse("password_change")).content.decode()
    assert browser.post(reverse("password_change"), new, follow=True).status_code == 200
    assert Client().login(username="olga", password="another long phrase")


@pytest.mark.parametrize("name", READ)
def test_pages_and_fragments_vary_by_the_htmx_header_and_are_not_cached(page, name):
    letter = a_letter()

    for headers in ({}, HTMX):
        response = page.get(address(name, letter), headers=headers)
        assert "HX-Request" in response.headers["Vary"]
        assert "no-store" in response.headers["Cache-Control"]


def test_the_policy_forbids_everything_but_our_own_files(page):
    policy = page.get("/letters/").headers["Content-Security-Policy"]

    assert "default-src 'none'" in policy
    assert "script-src 'self';" in f"{policy};"
    assert "unsafe" not in policy


def test_pages_that_are_not_there_say_so(page):
    assert "There is no such page." in page.get("/nowhere").content.decode()
    assert page.get("/patterns").status_code == 404


def test_the_patterns_page_is_there_with_debug(page, settings):
    settings.DEBUG = True

    assert "Patterns" in page.get("/patterns").content.decode()
