"""Sizes, colours and keys, in a real browser."""

from uuid import UUID

import pytest
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import expect

from deadletters import counting
from deadletters.models import FailureGroup, Note, RecoveryRun
from queues.models import Destination, InboxMessage, ServiceInstance, SourcePause, Stream
from tests.browser.conftest import sign_in
from tests.db.rows import write_row
from tests.factories import a_letter, a_run, a_user

pytestmark = pytest.mark.django_db(transaction=True)

LONG = "x" * 400
WIDEST = """document.documentElement.scrollWidth <= innerWidth ? [] : [...document.querySelectorAll('body *')].filter(
    element => element.getBoundingClientRect().right > innerWidth + 1
).map(element => element.tagName + '.' + element.className)"""
PHONE = {"width": 390, "height": 844}


@pytest.fixture(autouse=True)
def operator():
    return a_user("olga" + "l" * 60, "Operators")


@pytest.fixture
def ugly():
    """A letter in which everything is long."""
    letter = a_letter(
        message_type=f"shop.{LONG}",
        error=f'ValueError: {LONG}\n  File "/srv/{LONG}.py", line 1, in f',
        payload=f'{{"{LONG}": "{LONG}", "n": {"9" * 400}, "deep": {"[" * 50}{"]" * 50}}}',
        metadata=f'{{"headers": {{"{LONG}": "{LONG}"}}}}',
        subjects=[(LONG, LONG), ("order", "42")],
        generation=LONG,
        deaths=3,
    )
    Note.objects.create(dead_letter=letter, text=LONG, author=LONG[:150])
    counting.fold()
    words = dict.fromkeys(("title", "template", "message_type", "owner", "ticket", "runbook"), LONG)
    FailureGroup.objects.update(**words, state="fixed", fixed_in_generation=LONG, quiet_until_generation=LONG)
    Note.objects.create(group=FailureGroup.objects.get(), text=LONG, author=LONG[:150])
    a_run([letter], scope_words=LONG, actor=LONG, reason=LONG, generation=LONG, group_id=UUID(int=1))
    queues_in_which_everything_is_long(letter)
    return letter


def queues_in_which_everything_is_long(letter):
    now = timezone.now()
    write_row("wh_inbox", message_type=LONG, error=LONG, event_data=f'{{"{LONG}": "{LONG}"}}')
    Stream.objects.create(queue=f"wh_perspective_events:{LONG}", stream_id=UUID(int=1), due_at=now, held_by=letter.pk)
    Destination.objects.create(name=LONG, state="open", opened_at=now, retry_at=now, failures=10**9, last_error=LONG)
    for kind, source, value in (("source", "wh_outbox", ""), ("type", "wh_inbox", LONG)):
        SourcePause.objects.create(source=source, kind=kind, value=value, paused_by=LONG, reason=LONG)
    metadata = {"generation": LONG, "types": [LONG], "message": {"type": LONG, "attempt": LONG}}
    ServiceInstance.objects.create(
        instance_id=UUID(int=1), service_name=LONG, host_name=LONG[:200], process_id=10**9, metadata=metadata
    )


@pytest.mark.parametrize("size", [PHONE, {"width": 768, "height": 1024}, {"width": 1280, "height": 800}])
@pytest.mark.parametrize("script", [True, False], ids=["with script", "without script"])
def test_no_page_scrolls_sideways(open_page, operator, ugly, size, script):
    page = open_page(viewport=size, java_script_enabled=script)
    page.goto("/accounts/login/")
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    sign_in(page, operator.username)

    for address in (
        "/letters/",
        f"/letters/?q={LONG[:200]}",
        f"/letters/{ugly.pk}/",
        "/groups/",
        f"/groups/{FailureGroup.objects.get().pk}/?trend=30d",
        "/runs/",
        f"/runs/{RecoveryRun.objects.get().pk}/",
        "/subjects/",
        f"/subjects/?type={LONG}",
        f"/subject/?type={LONG}&id={LONG}",
        "/queues/",
        "/queues/inbox/",
        f"/queues/inbox/{InboxMessage.objects.get().pk}/",
        "/queues/streams/",
        "/queues/destinations/",
        "/queues/workers/",
        reverse("password_change"),
        "/no",
    ):
        page.goto(address)
        assert page.evaluate(WIDEST) == [], address


def test_colours_follow_the_system_and_a_choice_is_kept_without_a_flash(open_page, operator):
    page = open_page(color_scheme="dark")
    sign_in(page, operator.username)
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    dark = page.evaluate(ground)

    switch = page.locator("[data-theme-switch]")
    switch.click()
    expect(switch).to_have_attribute("aria-label", "Colours: light")
    light = page.evaluate(ground)
    assert light != dark
    page.add_init_script("addEventListener('DOMContentLoaded', () => { window.first = " + ground + " })")
    page.reload()
    assert page.evaluate("window.first") == light
    expect(switch).to_have_attribute("aria-label", "Colours: light")
    switch.click()
    assert page.evaluate(ground) == dark


def test_the_keyboard_alone_reaches_everything(open_page, operator):
    letters = [a_letter(message_type=f"type.Number{n}") for n in range(3)]
    page = open_page()
    sign_in(page, operator.username)

    page.keyboard.press("/")
    expect(page.get_by_label("Search", exact=True)).to_be_focused()
    page.keyboard.type("jk?")
    expect(page.get_by_label("Search", exact=True)).to_have_value("jk?")
    page.get_by_label("Search", exact=True).fill("")
    page.locator("#main").focus()
    for key in "jjjk":
        page.keyboard.press(key)
    expect(page.get_by_role("link", name="type.Number1")).to_be_focused()
    page.keyboard.press("?")
    expect(page.locator("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/letters/{letters[1].pk}/*")
    page.keyboard.press("n")
    expect(page.locator("#note-text")).to_be_focused()


def test_the_skip_link_is_the_first_stop_and_focus_can_be_seen(open_page, operator):
    page = open_page()
    sign_in(page, operator.username)
    page.goto("/letters/")

    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the content")
    expect(skip).to_be_focused()
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()


def test_nothing_moves_for_those_who_asked_for_rest(open_page, operator):
    from deadletters.models import RecoveryStatus

    a_letter(status=RecoveryStatus.RECOVERING)
    page = open_page(reduced_motion="reduce")
    sign_in(page, operator.username)

    assert page.evaluate("document.getAnimations().length") == 0


def test_fields_and_buttons_have_names_for_a_screen_reader(open_page, operator, ugly):
    page = open_page()
    sign_in(page, operator.username)

    message = f"/queues/inbox/{InboxMessage.objects.get().pk}/"
    run = f"/runs/{RecoveryRun.objects.get().pk}/"
    for address in (
        "/letters/",
        f"/letters/{ugly.pk}/",
        run,
        "/queues/",
        "/queues/inbox/",
        message,
        "/queues/streams/",
    ):
        page.goto(address)
        nameless = page.evaluate(
            """[...document.querySelectorAll('input:not([type=hidden]), select, textarea, button')].filter(
                element => !element.labels?.length && !element.textContent.trim() && !element.ariaLabel
            ).map(element => element.outerHTML)"""
        )
        assert nameless == []


@pytest.mark.parametrize("name", ["deadletters_deadletter", "django_celery_beat_periodictask"])
def test_the_admin_works_under_the_policy(open_page, name):
    a_user("root", is_staff=True, is_superuser=True)
    a_letter()
    page = open_page()
    sign_in(page, "root")

    page.goto(reverse(f"admin:{name}_changelist"))
    expect(page.locator("#changelist")).to_be_visible()


def test_the_schedule_is_edited_in_the_admin_under_the_policy(open_page):
    from django_celery_beat.models import IntervalSchedule, PeriodicTask

    a_user("root", is_staff=True, is_superuser=True)
    schedule = IntervalSchedule.objects.create(every=5, period="seconds")
    task = PeriodicTask.objects.create(name="a tick", task="queues.drain", interval=schedule)
    page = open_page()
    sign_in(page, "root")

    page.goto(reverse("admin:django_celery_beat_periodictask_change", args=[task.pk]))
    page.get_by_label("Description").fill("every five seconds")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".messagelist .success")).to_be_visible()
    task.refresh_from_db()
    assert task.description == "every five seconds"
