"""The session ends while somebody types: nothing is done, that is said, and what was typed is in its form again."""

import pytest
from django.apps import apps
from django.contrib.sessions.models import Session
from playwright.sync_api import Page, expect

from deadletters import counting
from deadletters.defaults import make_groups
from deadletters.models import FailureGroup, OperatorAction, RecoveryStatus
from tests.browser.conftest import ask_to_hold_the_first, sign_in
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
    expect(page.locator(".unsent textarea").first).to_be_hidden()
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


@pytest.mark.parametrize("folded", ["Reveal a masked value", "Download the payload, unmasked"])
def test_a_folded_form_is_opened_with_what_was_typed(open_page, folded):
    a_user("lea", "Leads")
    letter = a_letter()
    page = open_page()
    sign_in(page, "lea", f"/letters/{letter.pk}/")
    reveal = page.locator("details.reveal", has_text=folded)
    reveal.locator("summary").click()
    reveal.locator("[name=reason]").fill(TYPED)
    Session.objects.all().delete()

    reveal.get_by_role("button").click()
    sign_in_again(page, "lea")
    expect(page.locator(".unsent")).to_contain_text(NOTHING_DONE)
    expect(reveal.locator("[name=reason]")).to_be_visible()
    expect(reveal.locator("[name=reason]")).to_have_value(TYPED)
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


def end_of_session():
    Session.objects.all().delete()


def fill_a_second_form(page, letter):
    """Type into two forms of a letter's page, and send one of them after the session has ended."""
    page.locator("#triage [name=owner]").fill("night shift")
    page.locator("#triage [name=reason]").fill(TYPED)
    page.locator("#note-text").fill("a second thought")
    page.locator("details.reveal summary").first.click()
    page.locator("details.reveal [name=reason]").first.fill("the bank asks")
    end_of_session()
    page.locator("#triage").get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")


def test_what_was_typed_into_the_other_forms_of_the_page_is_there_too(open_page):
    a_user("lea", "Leads")
    letter = a_letter()
    page = open_page()
    sign_in(page, "lea", f"/letters/{letter.pk}/")
    fill_a_second_form(page, letter)

    sign_in_again(page, "lea")
    expect(page.locator("#triage [name=owner]")).to_have_value("night shift")
    expect(page.locator("#note-text")).to_have_value("a second thought")
    expect(page.locator("details.reveal [name=reason]").first).to_have_value("the bank asks")
    expect(page.locator("details.reveal [name=reason]").first).to_be_visible()
    assert not OperatorAction.objects.exists()


def test_a_link_after_the_session_ended_loses_nothing_on_the_page_that_was_left(open_page):
    letter = a_letter()
    page = open_page()
    sign_in(page, "olga", f"/letters/{letter.pk}/")
    page.locator("#triage [name=owner]").fill("night shift")
    end_of_session()

    page.get_by_role("link", name="Groups").click()
    sign_in_again(page)
    expect(page.get_by_role("heading", level=1)).to_have_text("Groups")
    page.goto(f"/letters/{letter.pk}/")
    expect(page.locator("#triage [name=owner]")).to_have_value("night shift")
    expect(page.locator("#toasts")).to_contain_text("What you typed here before is in its form again")


def test_a_page_that_is_left_on_purpose_is_as_it_is_saved_the_next_time(open_page):
    letter = a_letter()
    page = open_page()
    sign_in(page, "olga", f"/letters/{letter.pk}/")
    page.locator("#triage [name=owner]").fill("night shift")

    page.get_by_role("link", name="Groups").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Groups")
    page.goto(f"/letters/{letter.pk}/")
    expect(page.locator("#triage [name=owner]")).to_have_value("")


def stored(page):
    return page.evaluate(
        "JSON.stringify(Object.entries(sessionStorage)) + JSON.stringify(Object.entries(localStorage))"
    )


def test_another_person_who_signs_in_in_the_same_browser_finds_nothing_of_it(open_page):
    for name in ("lea", "vera"):
        a_user(name, "Leads")
    letter = a_letter()
    page = open_page()
    sign_in(page, "lea", f"/letters/{letter.pk}/")
    fill_a_second_form(page, letter)

    sign_in_again(page, "vera")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.locator("#note-text")).to_have_value("")
    expect(page.locator("#triage [name=owner]")).to_have_value("")
    expect(page.locator(".unsent")).to_have_count(0)
    assert "thought" not in stored(page) + page.content()


def test_nothing_that_was_typed_survives_the_signing_out_in_any_tab(open_page):
    letter = a_letter()
    page = open_page()
    sign_in(page, "olga", f"/letters/{letter.pk}/")
    other = page.context.new_page()
    other.goto(f"/letters/{letter.pk}/")
    for tab in (page, other):
        tab.locator("#note-text").fill(TYPED)
        tab.locator("#triage [name=owner]").fill(TYPED)

    page.get_by_text("olga").first.click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    other.get_by_role("link", name="Groups").click()
    expect(other.get_by_role("heading", level=1)).to_have_text("Sign in")
    assert "thought" not in stored(page)
    assert "thought" not in stored(other)
    sign_in_again(other)
    other.goto(f"/letters/{letter.pk}/")
    expect(other.locator("#note-text")).to_have_value("")
    expect(other.locator("#triage [name=owner]")).to_have_value("")


def test_signing_out_in_the_administration_counts_too(open_page):
    a_user("rita", is_staff=True, is_superuser=True)
    letter = a_letter()
    page = open_page()
    sign_in(page, "rita", f"/letters/{letter.pk}/")
    page.locator("#note-text").fill(TYPED)

    page.goto("/admin/")
    page.get_by_role("button", name="Log out").click()
    sign_in_again(page, "rita")
    page.goto(f"/letters/{letter.pk}/")
    expect(page.locator("#note-text")).to_have_value("")


def test_the_picks_of_a_list_are_picked_again(open_page):
    letters = [a_letter() for _ in range(3)]
    page = open_page()
    sign_in(page, "olga", "/letters/?status=open")
    for letter in letters[:2]:
        page.locator(f"input.pick[value='{letter.pk}']").check()
    end_of_session()

    page.locator("form.bulk").get_by_role("button", name="Hold").click()
    sign_in_again(page)
    expect(page.locator(".unsent")).to_contain_text(NOTHING_DONE)
    expect(page.locator("input.pick:checked")).to_have_count(2)
    page.locator(".unsent").get_by_role("button", name="Hold 2 letters").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Hold 2 letters")


@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
def test_what_was_picked_is_asked_again_where_the_session_ended_at_the_question(open_page, script):
    for _ in range(2):
        a_letter()
    page = open_page(java_script_enabled=script)
    ask_to_hold_the_first(page, "olga")
    page.locator("[name=reason]").fill(TYPED)
    end_of_session()

    page.get_by_role("button", name="Hold 1 letter").click()
    sign_in_again(page)
    expect(page.locator(".unsent")).to_contain_text(NOTHING_DONE)
    if script:
        expect(page.locator("form [name=reason]")).to_have_value(TYPED)
    else:
        expect(page.locator(".unsent textarea")).to_have_value(TYPED)
    page.get_by_role("button", name="Hold 1 letter").click()
    expect(page.locator(".messages")).to_contain_text("Held 1 of 1 letters.")
