"""The session ends while somebody types: nothing is done, that is said, and what was typed is in its form again."""

import pytest
from django.apps import apps
from django.contrib.sessions.models import Session
from playwright.sync_api import Page, expect

from deadletters import counting
from deadletters.defaults import make_groups
from deadletters.models import FailureGroup, OperatorAction, RecoveryStatus
from tests.browser.conftest import sign_in
from tests.factories import PASSWORD, a_letter, a_user

pytestmark = pytest.mark.django_db(transaction=True)

TYPED = "half a thought"
NOTHING_DONE = "Nothing was done: you were signed out when the form was sent."


@pytest.fixture(autouse=True)
def operator():
    make_groups(apps.get_app_config("deadletters"), using="default")
    return a_user("olga", "Operators")


def sign_in_again(page: Page, name: str = "olga") -> None:
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    page.get_by_label("User name").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(lambda url: "/accounts/login/" not in url)


def test_owner_and_reason_of_the_triage_are_in_the_form_again(open_page):
    letter = a_letter()
    page = open_page()
    sign_in(page, "olga", f"/letters/{letter.pk}/")
    page.locator("#triage [name=owner]").fill("night shift")
    page.locator("#triage [name=reason]").fill(TYPED)
    Session.objects.all().delete()

    page.locator("#triage").get_by_role("button", name="Save").click()
    sign_in_again(page)
    expect(page.locator(".unsent")).to_contain_text(NOTHING_DONE)
    expect(page.locator(".unsent")).to_contain_text("What you typed is in the form again")
    expect(page.locator("#triage [name=owner]")).to_have_value("night shift")
    expect(page.locator("#triage [name=reason]")).to_have_value(TYPED)
    assert not OperatorAction.objects.exists()

    page.locator("#triage").get_by_role("button", name="Save").click()
    expect(page.locator("#triage")).to_contain_text("Saved.")


def test_what_was_chosen_in_the_triage_of_a_group_is_chosen_again(open_page):
    a_letter()
    counting.fold()
    group = FailureGroup.objects.get()
    page = open_page()
    sign_in(page, "olga", f"/groups/{group.pk}/")
    page.locator("#triage [name=ticket]").fill("PAY-7")
    page.locator("#triage [name=state]").select_option("ongoing")
    page.locator("#triage [name=operator_disposition]").select_option("2")
    Session.objects.all().delete()

    page.locator("#triage").get_by_role("button", name="Save").click()
    sign_in_again(page)
    expect(page.locator("#triage [name=ticket]")).to_have_value("PAY-7")
    expect(page.locator("#triage [name=state]")).to_have_value("ongoing")
    expect(page.locator("#triage [name=operator_disposition]")).to_have_value("2")


def test_a_folded_form_is_opened_with_what_was_typed(open_page):
    a_user("lea", "Leads")
    letter = a_letter()
    page = open_page()
    sign_in(page, "lea", f"/letters/{letter.pk}/")
    page.locator("details.reveal summary").click()
    page.locator("details.reveal [name=reason]").fill(TYPED)
    Session.objects.all().delete()

    page.locator("details.reveal").get_by_role("button").click()
    sign_in_again(page, "lea")
    expect(page.locator(".unsent")).to_contain_text(NOTHING_DONE)
    expect(page.locator("details.reveal [name=reason]")).to_be_visible()
    expect(page.locator("details.reveal [name=reason]")).to_have_value(TYPED)
    assert not OperatorAction.objects.exists()


def test_without_script_what_was_typed_is_there_to_be_copied(open_page):
    letter = a_letter()
    page = open_page(java_script_enabled=False)
    sign_in(page, "olga", f"/letters/{letter.pk}/")
    page.locator("#note-text").fill(TYPED)
    Session.objects.all().delete()

    page.get_by_role("button", name="Write the note").click()
    sign_in_again(page)
    expect(page.locator(".unsent")).to_contain_text(NOTHING_DONE)
    expect(page.locator(".unsent textarea")).to_have_value(TYPED)


def test_a_poll_does_not_lead_away_from_what_is_typed(open_page):
    letter = a_letter(status=RecoveryStatus.RECOVERING)
    page = open_page()
    sign_in(page, "olga", f"/letters/{letter.pk}/")
    page.locator("#triage [name=reason]").fill(TYPED)
    page.locator("#main").focus()
    Session.objects.all().delete()

    expect(page.locator("#live-note.stale")).to_contain_text("You are signed out.")
    expect(page.locator("#triage [name=reason]")).to_have_value(TYPED)
    page.locator("#triage").get_by_role("button", name="Save").click()
    sign_in_again(page)
    expect(page.locator("#triage [name=reason]")).to_have_value(TYPED)


def test_a_poll_leads_to_the_sign_in_where_nothing_is_typed(open_page):
    letter = a_letter(status=RecoveryStatus.RECOVERING)
    page = open_page()
    sign_in(page, "olga", f"/letters/{letter.pk}/")
    Session.objects.all().delete()

    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
