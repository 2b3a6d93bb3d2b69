"""The overview as somebody who was just woken sees it, in a real browser."""

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone
from playwright.sync_api import expect

from deadletters import counting
from deadletters.models import Generation
from deadletters.views import overview
from tests.browser.conftest import sign_in
from tests.factories import a_letter

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("operator")]

SCRIPT = pytest.mark.parametrize("script", [True, False], ids=["with script", "without script"])


def some_letters():
    now = timezone.now()
    for number in range(5):
        a_letter(
            message_type="billing.ChargeCard", error="shop.CardDeclined: no funds", failure_reason=4,
            dead_lettered_at=now - timedelta(hours=20 * number), subjects=[("order", str(number))],
        )  # fmt: skip
    a_letter(source_table="wh_outbox", error="shop.Timeout: late", deaths=2, dead_lettered_at=now)
    Generation.objects.create(service="shop", build="build-7")
    counting.fold()


@SCRIPT
def test_numbers_lead_to_lists_of_as_many_letters_and_a_fault_to_its_group(open_page, script):
    some_letters()
    page = open_page(java_script_enabled=script)
    sign_in(page, "olga", "/")
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")

    for region, number in (("#sources", 0), ("#sources", 2), ("#matrix", 1), ("#matrix", 6)):
        figure = page.locator(f"{region} a.figure").nth(number)
        said = figure.inner_text()
        figure.click()
        expect(page.locator("[data-row]")).to_have_count(int(said))
        page.get_by_role("link", name="Overview", exact=True).click()

    page.get_by_role("link", name="CardDeclined", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("CardDeclined")


def test_what_is_not_with_the_page_loads_itself(open_page):
    some_letters()
    page = open_page()
    sign_in(page, "olga", "/")

    expect(page.locator("#builds")).to_contain_text("build-7")
    expect(page.locator("#subjects")).to_contain_text("order")
    expect(page.locator("#deaths svg.chart")).to_be_visible()
    page.get_by_role("link", name="7 days").click()
    expect(page.locator("#deaths")).to_contain_text("6 in 7 d")
    expect(page.get_by_role("link", name="7 days")).to_have_attribute("aria-current", "true")
    expect(page).to_have_url(re.compile(r"/$"))


def test_without_script_each_region_is_a_link_away(open_page):
    some_letters()
    page = open_page(java_script_enabled=False)
    sign_in(page, "olga", "/")

    page.locator("#deaths a").click()
    expect(page.locator("#deaths svg.chart")).to_be_visible()
    page.get_by_role("link", name="7 days").click()
    expect(page.locator("#deaths")).to_contain_text("6 in 7 d")


def asleep(_asked):
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(60)")


@SCRIPT
def test_a_slow_region_keeps_the_rest_and_can_be_tried_again(open_page, settings, monkeypatch, script):
    settings.DEADLETTERS = {"REGION_SECONDS": 1}
    some_letters()
    whole = overview.PARTS["matrix"]
    slow = overview.Part(name="matrix", title=whole.title, read=asleep)
    for parts in (overview.FIRST, overview.PARTS):
        monkeypatch.setitem(parts, "matrix", slow)
    page = open_page(java_script_enabled=script)
    sign_in(page, "olga", "/")

    expect(page.locator("#matrix")).to_contain_text("Took too long.")
    expect(page.locator("#sources a.figure").first).to_have_text("6")
    expect(page.locator("#groups")).to_contain_text("CardDeclined")
    for parts in (overview.FIRST, overview.PARTS):
        monkeypatch.setitem(parts, "matrix", whole)
    page.locator("#matrix").get_by_role("link", name="Try again").click()
    expect(page.locator("#matrix")).to_contain_text("validation error")
    expect(page.locator("#matrix")).not_to_contain_text("Took too long.")


def test_it_renews_itself_without_moving_the_focus(open_page):
    some_letters()
    page = open_page()
    page.clock.install()
    sign_in(page, "olga", "/")
    expect(page.locator("#subjects")).to_contain_text("order")
    page.locator("#groups a.count").first.focus()
    a_letter(source_table="wh_outbox", dead_lettered_at=timezone.now())

    page.clock.fast_forward(15_000)
    expect(page.locator("#sources a.figure").first).to_have_text("7")
    expect(page.locator("#groups a.count").first).to_be_focused()
    expect(page.locator("#toasts")).to_be_empty()


def test_nothing_open_is_said_in_words(open_page):
    page = open_page()
    sign_in(page, "olga", "/")

    expect(page.locator("#sources")).to_contain_text("Nothing is open.")
    expect(page.locator("#sources")).to_contain_text("Nothing has died yet.")
    expect(page.locator("#runs")).to_contain_text("No recovery is under way.")
