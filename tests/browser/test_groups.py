"""How an operator triages a fault at night, in a real browser."""

import pytest
from playwright.sync_api import expect

from deadletters import counting, triage
from deadletters.models import DeadLetter, FailureGroup, Note
from tests.browser.conftest import sign_in
from tests.factories import a_letter

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("operator")]


@pytest.mark.parametrize("script", [True, False], ids=["with script", "without script"])
def test_find_assign_and_note_a_group(open_page, script):
    for number in range(3):
        a_letter(message_type="billing.ChargeCard", error="CardDeclined: no funds", subjects=[("order", str(number))])
    a_letter(message_type="crm.SyncContact", error="ConnectTimeout: late")
    counting.fold()
    page = open_page(java_script_enabled=script)

    sign_in(page, "olga")
    page.get_by_role("link", name="Groups", exact=True).click()
    page.get_by_label("Text", exact=True).fill("declined")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("[data-row]")).to_have_count(1)
    page.get_by_role("link", name="CardDeclined", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("CardDeclined")
    expect(page.locator(".counts")).to_contain_text("Open 3")

    page.get_by_label("Owner").fill("vera")
    page.get_by_label("Reason, for the record").fill("on call")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#group-facts")).to_contain_text("vera")
    expect(page.locator("#group-head")).to_contain_text("Ongoing")
    expect(page.locator("#timeline")).to_contain_text("Changed owner: – → vera, state: new → ongoing")
    expect(page.locator("#timeline")).to_contain_text("on call")
    page.get_by_label("Ticket").fill("PAY-1")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#group-facts")).to_contain_text("PAY-1")

    page.get_by_label("What should the next person know?").fill("ask <b>Marta</b>")
    page.get_by_role("button", name="Write the note").click()
    expect(page.locator(".notes li .text")).to_have_text("ask <b>Marta</b>")
    group = FailureGroup.objects.get(title="CardDeclined")
    assert (group.owner, group.ticket, Note.objects.get().group_id) == ("vera", "PAY-1", group.pk)

    page.get_by_role("link", name="order 2").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("order 2")
    expect(page.locator("[data-row]")).to_have_count(1)


def test_a_stale_form_keeps_what_was_typed_and_shows_what_is_there(open_page, operator):
    a_letter(error="CardDeclined: no funds")
    counting.fold()
    group = FailureGroup.objects.get()
    page = open_page()
    sign_in(page, "olga", f"/groups/{group.pk}/")
    triage.change_group(group_id=group.pk, user=operator, changes={"owner": "first"})

    page.get_by_label("Owner").fill("second")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#triage")).to_contain_text("Somebody changed it meanwhile.")
    expect(page.locator("#triage")).to_contain_text("now: first")
    expect(page.get_by_label("Owner")).to_have_value("second")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#group-facts")).to_contain_text("second")


def test_a_letter_is_held_and_released_from_its_page(open_page):
    letter = a_letter()
    page = open_page()
    sign_in(page, "olga", f"/letters/{letter.pk}/")

    page.get_by_role("button", name="Hold").click()
    expect(page.locator("#state")).to_contain_text("Held")
    page.get_by_role("button", name="Release").click()
    expect(page.locator("#state")).to_contain_text("Open")
    page.get_by_role("button", name="Give up").click()
    expect(page.locator("#state")).to_contain_text("Given up")
    page.get_by_role("button", name="Open again").click()
    expect(page.get_by_role("button", name="Recover")).to_be_enabled()
    assert DeadLetter.objects.get().recovery_status == 0
