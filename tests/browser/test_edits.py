"""A payload is edited, compared and recovered, and a letter purged, in a real browser; with script and without."""

import json

import pytest
from playwright.sync_api import expect

from deadletters import triage
from deadletters.models import DeadLetter, RecoveryStatus
from tests.addresses import address
from tests.browser.conftest import sign_in
from tests.factories import a_letter

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("lead")]

LONG = "x" * 400
PHONE = {"width": 390, "height": 844}


@pytest.mark.parametrize("script", [True, False])
def test_a_payload_is_edited_compared_and_recovered(open_page, script):
    letter = a_letter(payload='{"password": "hunter2!", "city": "Bonn"}')
    page = open_page(java_script_enabled=script)
    sign_in(page, "lea", address("letter", letter))

    page.get_by_role("link", name="Edit and recover").click()
    area = page.get_by_label("Payload, as JSON")
    area.fill(area.input_value().replace("Bonn", "Köln"))
    page.get_by_label("Why").fill("the city was wrong")
    page.get_by_role("button", name="Show the difference").click()
    expect(page.locator(".diff ins")).to_contain_text("Köln")
    expect(page.locator(".diff del")).to_contain_text("Bonn")
    page.get_by_role("button", name="Save and recover").click()

    expect(page.get_by_text("Saved as version 2. It was sent.")).to_be_visible()
    edited = DeadLetter.objects.get()
    assert edited.recovery_status == RecoveryStatus.RECOVERING
    assert json.loads(edited.envelope)["event_data"] == {"password": "hunter2!", "city": "Köln"}


def test_a_version_is_put_back_and_a_letter_purged(open_page, lead):
    letter = a_letter(payload='{"city": "Bonn"}')
    triage.edit(user=lead, dead_letter_id=letter.pk, text='{"city": "Ulm"}', reason="moved", row_version=1)
    page = open_page()
    sign_in(page, "lea", address("letter", letter))

    page.get_by_role("link", name="Version 1").click()
    page.get_by_label("Why").fill("it was right")
    page.get_by_role("button", name="Put this version back").click()
    expect(page.get_by_text("Version 1 is back, as version 3.")).to_be_visible()
    page.get_by_role("link", name="Purge").click()
    page.get_by_label("Why").fill("asked to")
    page.get_by_role("button", name="Purge it").click()
    expect(page.get_by_text("The dead letter is gone.")).to_be_visible()
    assert not DeadLetter.objects.exists()


@pytest.mark.parametrize("size", [PHONE, {"width": 1280, "height": 800}])
def test_no_page_of_an_edit_is_wider_than_the_window(open_page, lead, size):
    payload = json.dumps({LONG: LONG, "text": f"{LONG} {LONG}"})
    letter = a_letter(message_type=f"shop.{LONG}", payload=payload)
    triage.edit(user=lead, dead_letter_id=letter.pk, text=json.dumps({LONG: 1}), reason=LONG, row_version=1)
    page = open_page(viewport=size)
    sign_in(page, "lea", address("letter", letter))

    for here in (address("letter", letter), address("version", letter, 2), address("purge", letter)):
        page.goto(here)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.goto(address("edit", letter))
    page.get_by_label("Payload, as JSON").fill(payload)
    page.get_by_role("button", name="Show the difference").click()
    expect(page.locator(".diff ins").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
