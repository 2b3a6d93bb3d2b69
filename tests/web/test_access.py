"""Signing in and out, what a session that ended leads to, and what a page says to those who lack a right."""

import pytest
from django.test import Client
from django.urls import reverse

from deadletters.models import (
    DeadLetter,
    RecoveryStatus,
)
from tests.addresses import address
from tests.factories import PASSWORD, a_letter, a_user
from tests.web.conftest import HTMX

pytestmark = pytest.mark.django_db


def test_a_viewer_sees_why_recover_is_off_and_no_form(signed_in, viewer):
    content = signed_in(viewer).get(address("letter")).content.decode()

    assert "You lack the right to recover." in content
    assert "You lack the right to triage." in content
    assert "<textarea" not in content
    assert 'name="decision"' not in content
    group = signed_in(viewer).get(address("group")).content.decode()
    assert "You lack the right to triage." in group
    assert "<textarea" not in group
    assert 'name="owner"' not in group
    run = signed_in(viewer).get(address("run")).content.decode()
    assert "You lack the right to start it." in run
    assert "start_run" not in run
    assert 'name="canary"' not in run


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


def test_an_action_comes_back_to_the_page_of_its_form_and_not_to_the_answer_to_another(client):
    asked, done = f"{reverse('deadletters:ask_many')}?asked=x", reverse("deadletters:change_many")

    for here, after in ((asked, "/letters/many%3Fasked%3Dx"), (done, reverse("deadletters:overview"))):
        response = client.post(done, headers={"Referer": f"http://testserver{here}"})
        assert response.headers["Location"] == f"{reverse('login')}?next={after}"


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
