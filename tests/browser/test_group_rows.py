"""What is done in the rows of the groups, in a real browser: with a mouse, by keyboard, on a phone, without script."""

import pytest
from playwright.sync_api import expect

from deadletters import counting
from deadletters.models import FailureGroup, Note, OperatorAction
from tests.browser.conftest import sign_in
from tests.factories import a_letter

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("operator")]

PHONE = {"viewport": {"width": 390, "height": 844}}


@pytest.fixture(autouse=True)
def two_groups():
    for number in range(3):
        a_letter(message_type="billing.ChargeCard", error="CardDeclined: no funds", subjects=[("order", str(number))])
    a_letter(message_type="crm.SyncContact", error="ConnectTimeout: late", destination="crm")
    counting.fold()


def row_of(page, title):
    return page.locator("[data-row]").filter(has_text=title)


@pytest.mark.parametrize("screen", [{}, PHONE], ids=["desk", "phone"])
def test_verbs_change_the_row_in_place_and_say_so(open_page, screen):
    page = open_page(**screen)
    sign_in(page, "olga", "/groups/?sort=open")
    row = row_of(page, "CardDeclined")

    row.locator("summary").click()
    row.get_by_role("button", name="Assign to me").click()
    expect(row.locator(".row-said")).to_have_text("It is yours now.")
    expect(row.locator(".owner")).to_contain_text("olga")
    expect(row.locator(".state-cell")).to_contain_text("Ongoing")
    expect(page.locator("[data-row]")).to_have_count(2)

    row.locator("summary").click()
    row.get_by_label("Write a note").fill("ask <b>Marta</b>")
    row.get_by_role("button", name="Write a note").click()
    expect(row.locator(".note-line")).to_contain_text("ask <b>Marta</b>")
    row.locator("summary").click()
    row.get_by_label("Quiet until so many").fill("0")
    row.get_by_role("button", name="Quiet until so many").click()
    expect(row.locator(".row-said.wrong")).to_contain_text("must be a whole number")
    assert Note.objects.count() == 1
    assert OperatorAction.objects.count() == 2
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_the_menu_is_opened_used_and_left_by_keyboard(open_page):
    page = open_page()
    sign_in(page, "olga", "/groups/?sort=open")
    row = row_of(page, "CardDeclined")

    row.locator("summary").focus()
    page.keyboard.press("Enter")
    expect(row.get_by_role("button", name="Quiet for 1 hour")).to_be_visible()
    row.get_by_role("button", name="Quiet for 1 hour").focus()
    page.keyboard.press("Enter")
    expect(row.locator(".row-said")).to_have_text("Quiet for an hour.")
    expect(row.locator("summary")).to_be_focused()
    assert page.url.endswith("/groups/?sort=open")


def test_without_script_the_menu_leads_to_a_page_that_does_the_same(open_page):
    page = open_page(java_script_enabled=False)
    sign_in(page, "olga", "/groups/")

    row_of(page, "CardDeclined").locator("summary").click()
    row_of(page, "CardDeclined").get_by_role("link", name="What can be done…").click()
    page.get_by_role("button", name="Hold its 3 open letters, new ones too").click()
    expect(page.locator(".messages")).to_contain_text("CardDeclined: Held: its letters follow within seconds")
    assert FailureGroup.objects.get(title="CardDeclined").operator_disposition == 2


def test_recover_leads_to_a_run_of_exactly_the_open_letters(open_page):
    page = open_page()
    sign_in(page, "olga", "/groups/")

    row_of(page, "CardDeclined").get_by_role("button", name="Recover 3…").click()
    page.wait_for_url("**/runs/*/")
    expect(page.locator("main")).to_contain_text("3")


@pytest.mark.parametrize("script", [True, False], ids=["with script", "without script"])
def test_letters_by_destination_lead_to_exactly_theirs(open_page, script):
    page = open_page(java_script_enabled=script)
    sign_in(page, "olga", "/groups/")

    page.get_by_role("link", name="Destination", exact=True).click()
    expect(page.locator("[data-row]")).to_have_count(2)
    page.get_by_role("link", name="crm", exact=True).click()
    expect(page.locator("[data-row]")).to_have_count(1)
    expect(page.locator("[data-row]")).to_contain_text("crm.SyncContact")


@pytest.mark.parametrize("width", [1280, 390])
def test_a_title_of_usual_length_is_not_cut_and_a_longer_one_is_whole_where_the_focus_is(open_page, width):
    title, longer = (
        "SSLCertVerificationError [CERTIFICATE_VERIFY_FAILED]",
        "Refused" + " by the warehouse in the north" * 6,
    )
    a_letter(error=longer)
    a_letter(error=title)
    counting.fold()
    FailureGroup.objects.filter(sample_line__startswith="SSL").update(title=title, template="")
    FailureGroup.objects.filter(sample_line__startswith="Ref").update(title=longer, template="")
    page = open_page(viewport={"width": width, "height": 900})
    sign_in(page, "olga", "/groups/")
    is_cut = "link => link.scrollHeight > link.clientHeight + 1 || link.scrollWidth > link.clientWidth + 1"

    assert page.get_by_role("link", name=title).evaluate(is_cut) is False
    long_one = page.get_by_role("link", name="Refused by the warehouse")
    assert long_one.evaluate(is_cut) is True
    assert long_one.get_attribute("title") == longer
    page.keyboard.press("j")  # from then on the focus is seen
    long_one.focus()
    assert long_one.evaluate(is_cut) is False
