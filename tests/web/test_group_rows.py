"""A row of the list of groups: what it shows beside the group, and what can be done from it."""

from datetime import timedelta
from html import unescape
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from deadletters import counting, triage
from deadletters.models import DeadLetter, FailureGroup, ItemState, LastVisit, Note, OperatorAction, RunState
from deadletters.queries import grouprows, groups
from tests.factories import a_letter, a_run
from tests.web.conftest import HTMX

pytestmark = pytest.mark.django_db


def a_group(letters=1, **fields):
    """Make a group of some letters; `fields` are the letters'."""
    name = f"Fault{uuid4().hex[:6].translate(str.maketrans('0123456789', 'ghijklmnop'))}"
    now = timezone.now()
    for number in range(letters):
        a_letter(error=f"shop.{name}: gone", dead_lettered_at=now - timedelta(minutes=number), **fields)
    counting.fold()
    return FailureGroup.objects.get(title=name)


def row_of(group, *, seen=None):
    (row,) = grouprows.rows(groups.with_notes([group.pk]), now=timezone.now(), seen=seen)
    return row


def menu_of(group):
    return reverse("deadletters:group_menu", args=[group.pk])


def act(page, group, action, *, headers=None, version=None, **typed):
    address = reverse("deadletters:group_act", args=[group.pk])
    sent = {"action": action, "row_version": group.row_version if version is None else version, **typed}
    return page.post(address, sent, headers=headers or {})


def test_the_deaths_of_an_hour_are_told_apart_by_build(page):
    now = timezone.now()
    for build, n in (("build-1", 2), ("build-2", 3)):
        for _ in range(n):
            a_letter(error="shop.Torn: x", generation=build, dead_lettered_at=now)
    counting.fold()

    group = FailureGroup.objects.get()
    assert row_of(group).hours[-1] == {"build-1": 2, "build-2": 3}
    assert "on build-1 2, build-2 3" in page.get("/groups/").content.decode()


def test_the_oldest_open_letter_is_found_past_those_that_are_not_open():
    now = timezone.now()
    for hours, status in ((9, 3), (8, 2), (7, 0), (6, 0)):
        a_letter(error="shop.Torn: x", status=status, dead_lettered_at=now - timedelta(hours=hours))
    counting.fold()

    oldest = row_of(FailureGroup.objects.get()).oldest
    assert (oldest.at, oldest.is_exact) == (now - timedelta(hours=7), True)


def test_behind_many_that_are_not_open_it_is_said_that_it_is_younger(monkeypatch, page):
    monkeypatch.setattr(grouprows, "LOOKED_AT", 3)
    now = timezone.now()
    for hours, status in ((9, 3), (8, 3), (7, 3), (6, 0)):
        a_letter(error="shop.Torn: x", status=status, dead_lettered_at=now - timedelta(hours=hours))
    counting.fold()

    oldest = row_of(FailureGroup.objects.get()).oldest
    assert (oldest.at, oldest.is_exact) == (now - timedelta(hours=7), False)
    assert "oldest after" in page.get("/groups/").content.decode()


def test_the_hours_in_which_open_letters_died_again_are_drawn_beside_the_deaths(page):
    now = timezone.now().replace(minute=30)
    group = a_group()
    error = f"shop.{group.title}: gone"
    for hours, n in ((0, 2), (5, 1), (30, 1)):
        for _ in range(n):
            a_letter(error=error, deaths=2, dead_lettered_at=now - timedelta(hours=hours))
    a_letter(error=error, deaths=2, status=2, dead_lettered_at=now)
    counting.fold()

    (row,) = grouprows.rows(groups.with_notes([group.pk]), now=now, seen=None)
    assert row.again_hours == [0] * 18 + [1] + [0] * 4 + [2]
    assert row.again == 4
    content = page.get("/groups/").content.decode()
    assert 'class="sparkbars of-again"' in content
    assert 'aria-label="failed again: peak 2' in content


def test_open_letters_that_died_again_are_counted_and_the_cap_is_said(monkeypatch, page):
    group = a_group(2, deaths=3)
    a_letter(error=f"shop.{group.title}: gone", deaths=2, status=3)
    a_letter(error=f"shop.{group.title}: gone")
    assert row_of(group).again == 2

    monkeypatch.setattr(grouprows, "AGAIN_CAP", 1)
    assert row_of(group).is_again_capped
    content = page.get("/groups/").content.decode()
    assert f"status=open&amp;group={group.pk}&amp;again=yes" in content
    assert "1,000+ failed again" in content


def test_only_what_began_or_came_back_since_the_last_visit_is_unread():
    before, now = timezone.now() - timedelta(hours=1), timezone.now()
    known, new = a_group(), a_group()
    FailureGroup.objects.filter(pk=known.pk).update(first_seen_at=before - timedelta(hours=1))
    known.refresh_from_db()

    assert (row_of(known, seen=before).is_unread, row_of(new, seen=before).is_unread) == (False, True)
    assert not row_of(new, seen=None).is_unread
    FailureGroup.objects.filter(pk=known.pk).update(state="regressed", state_at=now)
    assert row_of(known, seen=before).is_unread


def test_the_list_marks_what_is_new_since_the_visit_before(page, operator):
    group = a_group()
    assert "New since your last visit" not in page.get("/groups/").content.decode()

    LastVisit.objects.update(seen_at=group.first_seen_at - timedelta(hours=1))
    for _ in range(2):  # a reload is no other visit
        assert "New since your last visit" in page.get("/groups/").content.decode()
    assert "New since your last visit" in act(page, group, "assign_me", headers=HTMX).content.decode()


def test_data_in_a_title_is_greyed_and_stays_characters(page):
    group = a_group()
    FailureGroup.objects.filter(pk=group.pk).update(template="order <number> of <b>x</b>")

    content = page.get("/groups/").content.decode()
    assert 'order <i class="var">&lt;number&gt;</i> of &lt;b&gt;x&lt;/b&gt;' in content


def test_a_fix_names_its_build_in_the_chip(page):
    group = a_group()
    FailureGroup.objects.filter(pk=group.pk).update(state="fixed", fixed_in_generation="build-9")

    assert "Fixed in build-9" in page.get("/groups/").content.decode()


def test_recover_names_how_many_and_asks_for_exactly_the_open_ones(page):
    group = a_group(3)
    a_letter(error=f"shop.{group.title}: gone", status=2)

    content = page.get("/groups/").content.decode()
    assert "Recover 3…" in content
    sent = {"scope": "matching", "filter": f"status=open&group={group.pk}"}
    run = page.get(page.post(reverse("deadletters:prepare_run"), sent).headers["Location"]).context["run"]
    assert (run.frozen_count, run.group_id) == (3, group.pk)


def test_a_run_under_way_takes_the_place_of_the_action(page):
    group = a_group(3)
    letters = list(DeadLetter.objects.all())
    run = a_run(letters, states=[ItemState.RECOVERED], state=RunState.RUNNING, group_id=group.pk,
                starts_at=timezone.now(), started_at=timezone.now())  # fmt: skip

    row = row_of(group)
    assert (row.running.run_id, row.running.totals) == (run.pk, {"recovered": 1, "waiting": 2})
    content = page.get("/groups/").content.decode()
    assert "View run" in content
    assert "Recover 3…" not in content


def test_giving_up_asks_about_exactly_the_open_ones_first(page):
    group = a_group(3)
    a_letter(error=f"shop.{group.title}: gone", status=2)
    content = page.get(menu_of(group)).content.decode()
    given = unescape(content.partition('name="filter" value="')[2].partition('"')[0])

    asked = page.post(
        reverse("deadletters:ask_many"), {"scope": "matching", "filter": given, "verb": "give_up"}, follow=True
    )
    assert (asked.status_code, asked.context["n"]) == (200, 3)
    assert DeadLetter.objects.filter(recovery_status=0).count() == 3


@pytest.mark.parametrize("state", [RunState.READY, RunState.FINISHED, RunState.STOPPED])
def test_a_run_that_nobody_started_or_that_ended_hides_no_action(page, state):
    group = a_group(1)
    a_run(list(DeadLetter.objects.all()), state=state, group_id=group.pk)

    assert "Recover 1…" in page.get("/groups/").content.decode()


@pytest.mark.parametrize(
    ("action", "typed", "column", "value", "said"),
    [
        ("assign_me", {}, "owner", "olga", "It is yours now."),
        ("hold", {}, "operator_disposition", 2, "Held: its letters follow within seconds, new ones too."),
        ("quiet_build", {"typed": " build-9 "}, "quiet_until_generation", "build-9", "Quiet until that build."),
        ("quiet_count", {"typed": "500"}, "quiet_until_count", 500, "Quiet until it has so many letters."),
        ("resolve", {}, "state", "resolved", "Resolved: the next death brings it back as regressed."),
    ],
)
@pytest.mark.parametrize("headers", [{}, HTMX])
def test_a_verb_changes_the_group_says_so_and_is_audited(page, headers, action, typed, column, value, said):
    group = a_group()

    answer = act(page, group, action, headers=headers, **typed)
    shown = answer if headers else page.get(answer.headers["Location"])
    assert said in shown.content.decode()
    assert ("<html" in shown.content.decode()) == (not headers)
    group.refresh_from_db()
    assert getattr(group, column) == value
    action = OperatorAction.objects.get()
    assert (action.actor, action.group_id, action.after[column]) == ("olga", group.pk, value)


def test_quiet_for_an_hour_and_no_longer(page):
    group = a_group()

    assert "quiet until" in act(page, group, "quiet_hour", headers=HTMX).content.decode()
    group.refresh_from_db()
    assert timedelta(minutes=58) < group.quiet_until - timezone.now() <= timedelta(hours=1)
    act(page, group, "loud")
    group.refresh_from_db()
    assert group.quiet_until is None


def test_a_note_from_a_row_is_shown_in_it(page):
    group = a_group()

    content = act(page, group, "note", headers=HTMX, typed="ask <Marta>").content.decode()
    assert "The note is written." in content
    assert "ask &lt;Marta&gt;" in content
    assert Note.objects.get().group_id == group.pk


@pytest.mark.parametrize(
    ("action", "typed", "said"),
    [
        ("quiet_build", "  ", "must be given"),
        ("quiet_count", "many", "must be a whole number"),
        ("quiet_count", "0", "must be a whole number from 1"),
        ("note", "", "A note needs some text."),
    ],
)
@pytest.mark.parametrize("headers", [{}, HTMX])
def test_what_cannot_be_kept_is_said_and_changes_nothing(page, headers, action, typed, said):
    answer = act(page, a_group(), action, headers=headers, typed=typed)

    assert answer.status_code == (422 if headers else 302)
    shown = answer if headers else page.get(answer.headers["Location"])
    assert said in shown.content.decode()
    assert not OperatorAction.objects.exists()


@pytest.mark.parametrize("headers", [{}, HTMX])
def test_who_is_second_reads_so_and_changes_nothing(page, operator, headers):
    group = a_group()
    triage.change_group(group_id=group.pk, user=operator, changes={"owner": "vera"})

    answer = act(page, group, "assign_me", headers=headers)
    assert answer.status_code == (409 if headers else 302)
    shown = (answer if headers else page.get(answer.headers["Location"])).content.decode()
    assert "Somebody changed it meanwhile. Nothing was changed" in shown
    assert "vera" in shown
    group.refresh_from_db()
    assert group.owner == "vera"


def test_what_was_so_already_is_not_told_as_done(page):
    group = a_group()
    act(page, group, "assign_me")
    group.refresh_from_db()

    assert "nothing was changed" in act(page, group, "assign_me", headers=HTMX).content.decode()
    assert OperatorAction.objects.count() == 1


def test_an_unknown_verb_is_400_and_an_unknown_group_404(page):
    group = a_group()

    assert act(page, group, "explode").status_code == 400
    group.pk = uuid4()
    assert act(page, group, "hold").status_code == 404


def test_a_verb_leads_back_to_the_list_as_it_was(page):
    group = a_group()
    here = "http://testserver/groups/?sort=open&q=Fault"

    assert act(page, group, "hold", headers={"Referer": here}).headers["Location"] == "/groups/?sort=open&q=Fault"
    group.refresh_from_db()
    away = act(page, group, "release", headers={"Referer": "https://evil.example/"})
    assert away.headers["Location"] == "/groups/"


def test_a_viewer_is_offered_nothing_to_do(signed_in, viewer):
    a_group()

    browser = signed_in(viewer)
    assert "Recover 1…" not in browser.get("/groups/").content.decode()
    menu = browser.get(menu_of(FailureGroup.objects.get())).content.decode()
    assert "Assign to me" not in menu
    assert 'method="post"' not in menu.partition("<main")[2]


@pytest.mark.parametrize("headers", [{}, HTMX])
def test_the_menu_of_a_row_says_to_how_many_and_is_a_page_without_script(page, headers):
    group = a_group(3)

    content = page.get(menu_of(group), headers=headers).content.decode()
    assert "Hold its 3 open letters, new ones too" in content
    assert "Assign to me" in content
    assert ("<html" in content) == (not headers)
    assert ("hx-post" in content) == bool(headers)
    assert "Give up its 3 open letters…" in content
    act(page, group, "hold")
    assert "Release it: 3 are held" in page.get(menu_of(group), headers=headers).content.decode()
    group.pk = uuid4()
    assert page.get(menu_of(group), headers=headers).status_code == 404


def test_the_order_by_rate_is_by_deaths_of_the_last_hours(page):
    now = timezone.now()
    for error, n, hours in (("shop.Many: x", 5, 12), ("shop.Busy: x", 2, 0), ("shop.Quiet: x", 1, 0)):
        for _ in range(n):
            a_letter(error=error, dead_lettered_at=now - timedelta(hours=hours))
    counting.fold()
    a_letter(error="shop.Quiet: x", dead_lettered_at=now)
    a_letter(error="shop.Quiet: x", dead_lettered_at=now)  # neither is folded yet

    rows = page.get("/groups/", {"sort": "rate"}).context["page"].rows
    assert [row.group.title for row in rows] == ["Quiet", "Busy", "Many"]


def test_a_full_list_stays_within_twelve_queries_and_60_kilobytes(page, operator):
    import gzip

    for number in range(50):
        group = a_group(2, destination=f"queue-{number}")
        triage.change_group(group_id=group.pk, user=operator, changes={"owner": "vera" * 30, "ticket": "T" * 400})
        triage.add_note(text=f"{uuid4()} " * 50, user=operator, group_id=group.pk)
        a_run([DeadLetter.objects.first()], state=RunState.RUNNING, group_id=group.pk, starts_at=timezone.now())

    with CaptureQueriesContext(connection) as queries:
        answer = page.get("/groups/", {"sort": "rate", "q": "Fault"})
    assert len(answer.context["page"].rows) == 50
    assert len(queries) <= 12
    assert len(gzip.compress(answer.content)) < 60_000
