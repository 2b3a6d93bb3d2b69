"""One dead letter in a real browser: the next of the list by a key, one value revealed, its history, hostile text."""

import json
from datetime import timedelta

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from deadletters.models import OperatorAction
from queues.models import DeliveryLogEntry
from tests.browser.conftest import sign_in
from tests.factories import a_letter

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("lead")]

HOSTILE = '<img src=x onerror="document.title=\'owned\'"></pre><b hx-get="/accounts/logout/" hx-trigger="load">x</b>'


def test_keys_walk_the_list_from_letter_to_letter(open_page):
    for name in ("A", "B", "C"):
        a_letter(message_type=f"shop.{name}")
    a_letter(message_type="crm.Other")
    page = open_page()

    sign_in(page, "lea", "/letters/?q=shop.")
    expect(page.locator("[data-row]")).to_have_count(3)
    page.get_by_role("link", name="shop.C").click()
    heading = page.get_by_role("heading", level=1)
    expect(heading).to_have_text("shop.C")
    for key, name in (("j", "shop.B"), ("j", "shop.A"), ("j", "shop.A"), ("k", "shop.B"), ("k", "shop.C")):
        page.keyboard.press(key)
        expect(heading).to_have_text(name)
    page.get_by_label("What should the next person know?").press("j")
    expect(heading).to_have_text("shop.C")


@pytest.mark.parametrize("script", [True, False], ids=["with script", "without script"])
def test_one_value_is_revealed_for_a_reason_and_gone_after_a_reload(open_page, script):
    letter = a_letter(payload=json.dumps({"card_number": 9007199254740993, "password": "hunter2"}))
    page = open_page(java_script_enabled=script)
    sign_in(page, "lea", f"/letters/{letter.pk}/")

    expect(page.locator("main")).not_to_contain_text("9007199254740993")
    page.get_by_text("Reveal a masked value").click()
    form = page.locator(".reveal form").first
    form.get_by_label("Which one").select_option("payload:/card_number")
    form.get_by_role("button", name="Reveal this one value").click()
    expect(page.locator("#revealed")).to_contain_text("must say why")
    assert not OperatorAction.objects.exists()
    if not script:
        page.go_back()
        page.get_by_text("Reveal a masked value").click()
        form.get_by_label("Which one").select_option("payload:/card_number")
    form.get_by_label("Why you have to see it").fill("the bank asks")
    form.get_by_role("button", name="Reveal this one value").click()
    expect(page.locator("#revealed pre")).to_have_text("9007199254740993")
    expect(page.locator("main")).not_to_contain_text("hunter2")
    assert OperatorAction.objects.get().reason == "the bank asks"

    page.goto(f"/letters/{letter.pk}/")
    expect(page.locator("main")).not_to_contain_text("9007199254740993")
    if not script:
        page.go_back()
        expect(page.locator("main")).to_contain_text("It was shown once")
        expect(page.locator("main")).not_to_contain_text("9007199254740993")


def test_what_was_revealed_is_hidden_again_after_a_minute(open_page):
    letter = a_letter(payload='{"password": "hunter2"}')
    page = open_page()
    page.clock.install()
    sign_in(page, "lea", f"/letters/{letter.pk}/")

    page.get_by_text("Reveal a masked value").click()
    page.get_by_label("Why you have to see it").fill("the bank asks")
    page.get_by_role("button", name="Reveal this one value").click()
    expect(page.locator("#revealed")).to_contain_text("hunter2")
    page.clock.fast_forward(61_000)
    expect(page.locator("#revealed")).to_be_empty()


@pytest.mark.parametrize("script", [True, False], ids=["with script", "without script"])
def test_older_events_are_a_step_away(open_page, script):
    letter, now = a_letter(), timezone.now()
    DeliveryLogEntry.objects.bulk_create(
        DeliveryLogEntry(
            source="wh_inbox",
            message_id=letter.source_id,
            attempt=n,
            outcome="failure",
            logged_at=now - timedelta(minutes=n),
        )
        for n in range(1, 41)
    )
    page = open_page(java_script_enabled=script)
    sign_in(page, "lea", f"/letters/{letter.pk}/")

    expect(page.locator(".timeline li")).to_have_count(30)
    page.locator("#timeline").get_by_role("link", name="Older").click()
    expect(page.locator(".timeline li")).to_have_count(11)
    expect(page.locator("#timeline")).to_contain_text("attempt 40")
    page.locator("#timeline").get_by_role("link", name="Newest").click()
    expect(page.locator(".timeline li")).to_have_count(30)


def test_hostile_text_does_nothing_on_the_page_in_a_fragment_and_in_the_audit(open_page):
    letter = a_letter(
        message_type=HOSTILE,
        error=f"{HOSTILE}\n{HOSTILE}",
        payload=json.dumps({HOSTILE: HOSTILE, "password": HOSTILE}),
        metadata=json.dumps({"headers": {HOSTILE: HOSTILE, "token": HOSTILE}}),
        subjects=[(HOSTILE, HOSTILE)],
        generation=HOSTILE,
    )
    OperatorAction.objects.create(
        actor=HOSTILE, action=HOSTILE, dead_letter_id=letter.pk, after={HOSTILE: HOSTILE}, reason=HOSTILE
    )
    page = open_page()
    sign_in(page, "lea", f"/letters/{letter.pk}/")

    page.get_by_text("Reveal a masked value").click()
    page.get_by_label("Why you have to see it").fill(HOSTILE)
    page.get_by_role("button", name="Reveal this one value").click()
    expect(page.locator("#revealed pre")).to_contain_text("<img src=x")
    page.goto("/audit/")
    expect(page.locator("tbody tr")).to_have_count(2)
    page.get_by_text("Before and after").first.click()
    expect(page.locator("main")).to_contain_text("<img src=x")
    assert page.title() != "owned"
    assert page.locator("main img").count() == 0
    assert "/accounts/login/" not in page.url
