"""Going back leads to pages that are there, and sends nothing again."""

import pytest
from django.apps import apps
from playwright.sync_api import expect

from deadletters.defaults import make_groups
from deadletters.models import OperatorAction
from tests.browser.conftest import ask_to_hold_the_first, sign_in
from tests.factories import a_letter, a_user

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
def test_back_from_what_was_done_to_many_shows_what_was_asked_and_then_the_list(open_page, script):
    make_groups(apps.get_app_config("deadletters"), using="default")
    a_user("olga", "Operators")
    for _ in range(2):
        a_letter()
    page = open_page(java_script_enabled=script)
    ask_to_hold_the_first(page, "olga")
    page.get_by_role("button", name="Hold 1 letter").click()
    expect(page.locator(".messages")).to_contain_text("Held 1 of 1 letters.")
    done = OperatorAction.objects.count()

    page.go_back()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Hold 1 letter")
    page.go_back()
    expect(page.get_by_role("heading", level=1)).to_have_text("Dead letters")
    page.go_forward()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Hold 1 letter")
    expect(page.get_by_role("button", name="Hold 1 letter")).to_have_count(0)
    assert OperatorAction.objects.count() == done


@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
def test_back_from_an_edit_shows_what_was_typed_and_its_difference_and_sends_nothing(open_page, script):
    make_groups(apps.get_app_config("deadletters"), using="default")
    a_user("lea", "Leads")
    letter = a_letter(payload='{"city": "Bonn"}')
    page = open_page(java_script_enabled=script)
    sign_in(page, "lea", f"/letters/{letter.pk}/edit")
    page.locator("textarea[name=text]").fill('{"city": "Ulm"}')
    page.locator("[name=reason]").fill("the city")
    page.get_by_role("button", name="Show the difference").click()
    expect(page.get_by_role("heading", level=2).first).to_have_text("Difference to the present payload")

    page.get_by_role("link", name="Cancel").click()
    page.go_back()
    expect(page.get_by_role("heading", level=2).first).to_have_text("Difference to the present payload")
    expect(page.locator("textarea[name=text]")).to_have_value('{"city": "Ulm"}')
    expect(page.locator("[name=reason]")).to_have_value("the city")
    page.go_back()
    expect(page.locator("textarea[name=text]")).to_be_visible()
    page.go_forward()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".messages")).to_contain_text("Saved as version 2.")
    done = OperatorAction.objects.count()

    page.go_back()
    expect(page.locator(".notice")).to_contain_text("was sent, or is not kept any more")
    expect(page.locator("textarea[name=text]")).to_have_value('{\n  "city": "Ulm"\n}')
    assert OperatorAction.objects.count() == done == 1
