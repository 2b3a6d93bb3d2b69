"""The overview: its numbers are those of the lists that they lead to, and each region stands by itself."""

import re
from datetime import timedelta
from html import unescape
from uuid import uuid4

import pytest
import time_machine
from django.db import connection
from django.urls import reverse
from django.utils import timezone

from deadletters import counting
from deadletters.models import (
    DeadLetter,
    FailureGroup,
    Generation,
    ItemState,
    LastVisit,
    OperatorAction,
    RecoveryStatus,
    RunState,
)
from deadletters.queries import overview as queries
from deadletters.queries import regions
from deadletters.views import overview
from queues.models import ServiceInstance, SourcePause
from tests.factories import NOON, a_letter, a_run, a_user
from tests.web.conftest import HTMX
from tests.web.regions import OVERVIEW, region_of, total_of, value_of, visited

pytestmark = pytest.mark.django_db
FIGURE = re.compile(r'<a class="figure[^"]*" href="(/letters/\?[^"]+)">([\d,]+\+?)</a>')


@pytest.fixture
def at_noon():
    with time_machine.travel(NOON, tick=False):
        yield NOON


def figures(response):
    """Return the linked numbers of the page as (address, number)."""
    return [(unescape(href), number) for href, number in FIGURE.findall(response.content.decode())]


def a_bit_of_everything(now):
    """Make letters on both sides of each age, of several sources, reasons and states."""
    for span in queries.AGES.values():
        for beside in (-1, 0, 1):
            a_letter(dead_lettered_at=now - span + timedelta(microseconds=beside), failure_reason=4)
    for number, status in enumerate(RecoveryStatus.values):
        a_letter(status=status, source_table="wh_outbox", failure_reason=99, dead_lettered_at=now)
        a_letter(status=status, source_table="their_queue", failure_reason=4711, deaths=number + 1)
    a_letter(deaths=2, source_table="broker")


def test_every_number_leads_to_a_list_of_as_many_letters(page, at_noon):
    a_bit_of_everything(at_noon)
    counting.fold()
    a_letter(dead_lettered_at=at_noon, failure_reason=8)  # not folded yet

    found = figures(page.get(OVERVIEW))
    assert len(found) > 30
    assert {address: total_of(page, address) for address, _ in found} == dict(found)
    assert any("source=other" in address for address, _ in found)
    assert any("again=yes" in address for address, _ in found)
    assert any("reason=4711" in address for address, _ in found)


def test_the_matrix_counts_what_is_as_old_as_its_column_and_no_older(page, at_noon):
    a_bit_of_everything(at_noon)

    matrix = value_of(page, "matrix")
    of_reason = {line.reason: list(line.numbers) for line in matrix.lines}
    assert of_reason[4] == [2, 5, 8, 11, 14, 15]
    assert matrix.all.numbers[-1] == 15 + 1 + 1 + 1


def test_a_number_ends_where_counting_does(page, at_noon, monkeypatch):
    monkeypatch.setattr(queries, "COUNT_CAP", 2)
    monkeypatch.setattr("deadletters.templatetags.overview.COUNT_CAP", 2)
    for _ in range(4):
        a_letter(dead_lettered_at=at_noon, deaths=2)

    said = dict(figures(page.get(OVERVIEW)))
    assert said["/letters/?status=open&since=1h"] == "2+"
    assert said["/letters/?status=open&again=yes&source=inbox"] == "2+"
    assert said["/letters/?status=open&source=inbox"] == "4", "a counter is exact"


@pytest.mark.parametrize("number", [-7, 4711, -32768])
def test_a_reason_that_nobody_named_is_a_line_that_leads_to_its_letters(page, number):
    a_letter(failure_reason=number)

    assert page.get(OVERVIEW).status_code == 200
    assert [line.reason for line in value_of(page, "matrix").lines] == [number]
    assert len(page.get(f"/letters/?reason={number}").context["page"].rows) == 1


def test_more_reasons_than_are_shown_are_in_the_sum_and_said(page, monkeypatch):
    monkeypatch.setattr(queries, "MAX_REASONS", 3)
    for reason in range(200, 205):
        a_letter(failure_reason=reason)

    response = region_of(page, "matrix")
    assert len(response.context["part"]["value"].lines) == 3
    assert response.context["part"]["value"].all.numbers[-1] == 5
    assert "There are more reasons" in response.content.decode()


def test_nothing_open_is_green_and_says_since_when(page):
    assert "Nothing has died yet." in page.get(OVERVIEW).content.decode()
    letter = a_letter()
    counting.fold()
    assert "Nothing is open." not in page.get(OVERVIEW).content.decode()

    closed = timezone.now()
    DeadLetter.objects.filter(pk=letter.pk).update(recovery_status=2)
    a_letter(status=RecoveryStatus.HELD)
    counting.fold()
    counting.fold()
    response = page.get(OVERVIEW)
    sources = response.context["parts"]["sources"]["value"]
    assert sources.is_quiet
    assert closed <= sources.quiet_since <= timezone.now()
    assert "The last open letter was closed" in response.content.decode()


def test_what_opens_and_closes_between_two_folds_moves_since_when_nothing_is_open(page):
    letter = a_letter()
    DeadLetter.objects.update(recovery_status=2)
    counting.fold()
    queries_since = queries.sources().quiet_since

    DeadLetter.objects.filter(pk=letter.pk).update(recovery_status=0)
    DeadLetter.objects.filter(pk=letter.pk).update(recovery_status=2)
    assert queries.sources().quiet_since > queries_since, "not folded yet"
    counting.fold()
    assert queries.sources().quiet_since > queries_since


def test_the_top_groups_are_those_with_most_open_letters_with_their_trend(page):
    now = timezone.now()
    for name, count in (("Rare", 1), ("Often", 3), ("Held", 4)):
        for n in range(count):
            status = RecoveryStatus.HELD if name == "Held" else RecoveryStatus.PENDING
            a_letter(error=f"shop.{name}: gone", status=status, dead_lettered_at=now - timedelta(hours=n))
    counting.fold()
    a_letter(error="shop.Often: gone", dead_lettered_at=now)  # not folded yet

    lines = value_of(page, "groups")
    assert [(line.group.title, line.open) for line in lines] == [("Often", 4), ("Rare", 1)]
    assert (lines[0].hours[-1], lines[0].hours[-2], sum(lines[0].hours)) == (2, 1, 4)
    assert total_of(page, f"/letters/?group={lines[0].group.pk}&status=open") == "4"


def test_runs_that_go_on_are_shown_with_their_meter_and_drafts_are_not(page):
    letter = a_letter()
    running = a_run(
        [letter, a_letter()], state=RunState.RUNNING, states=[ItemState.RECOVERED, ItemState.FAILED_AGAIN],
        scope_words="the running one",
    )  # fmt: skip
    a_run([letter], state=RunState.PAUSED, scope_words="the paused one")
    a_run([letter], state=RunState.READY, scope_words="a draft")
    a_run([letter], state=RunState.FINISHED, scope_words="the finished one")

    content = region_of(page, "runs").content.decode()
    assert reverse("deadletters:run", args=[running.pk]) in content
    assert "the paused one" in content
    assert "1 recovered" in content
    assert "1 failed again" in content
    assert "a draft" not in content
    assert "the finished one" not in content


def test_the_last_builds_say_which_is_live_and_what_each_replayed(page):
    Generation.objects.create(service="shop", build="build-1", first_seen_at=NOON - timedelta(days=1))
    Generation.objects.create(service="shop", build="build-2", first_seen_at=NOON)
    a_run(
        [a_letter()], kind="replay", generation="build-2", state=RunState.FINISHED, states=[ItemState.RECOVERED],
        group_id=uuid4(),
    )  # fmt: skip
    ServiceInstance.objects.create(
        instance_id=uuid4(), service_name="shop", host_name="h", process_id=1, last_heartbeat_at=timezone.now(),
        metadata={"generation": "build-2"},
    )  # fmt: skip

    builds = value_of(page, "builds")
    assert [(build.replayed.generation.build, build.is_live) for build in builds] == [
        ("build-2", True),
        ("build-1", False),
    ]
    content = region_of(page, "builds").content.decode()
    assert "replayed 1 group" in content
    assert "1 recovered" in content


def test_queues_show_depth_oldest_and_pauses(page):
    from tests.db.rows import write_row

    write_row("wh_inbox")
    SourcePause.objects.create(source="wh_outbox", kind="source", paused_by="lea")

    inbox, outbox, _ = value_of(page, "queues")
    assert (inbox.depth, inbox.oldest_due_at is not None) == (1, True)
    assert outbox.pause.paused_by == "lea"
    assert "lea" in region_of(page, "queues").content.decode()


def test_the_chart_shows_all_deaths_with_the_builds_and_the_numbers(page):
    now = timezone.now()
    Generation.objects.create(service="shop", build="build-77", first_seen_at=now - timedelta(hours=2))
    for hours in (0, 3, 30):
        a_letter(error=f"shop.E{hours}: x", dead_lettered_at=now - timedelta(hours=hours))
    counting.fold()
    a_letter(dead_lettered_at=now, generation="build-2")  # not folded yet

    content = region_of(page, "deaths").content.decode()
    assert "3 in 24 h" in content
    assert "build-77" in content
    assert "weave-1" in content, "the second series is told apart without colour"
    assert '<th scope="row">' in content
    week = region_of(page, "deaths", trend="7d").content.decode()
    assert "4 in 7 d" in week
    assert "deaths?trend=7d" in week, "it renews itself as it is"


def test_subjects_are_those_of_most_open_letters(page):
    for subject, count in (("order", 3), ("customer", 1)):
        for _ in range(count):
            a_letter(subjects=[(subject, "7")])
    counting.fold()

    assert [(row.type, row.open) for row in value_of(page, "subjects")] == [("order", 3), ("customer", 1)]


@pytest.mark.parametrize("name", overview.PARTS)
def test_each_region_has_a_page_of_its_own_without_script_and_stands_alone_with_it(page, name):
    a_letter()
    address = reverse("deadletters:region", args=[name])

    whole, part = page.get(address), page.get(address, headers=HTMX)
    assert "<html" in whole.content.decode()
    assert "<html" not in part.content.decode()
    for response in (whole, part):
        assert f'id="{name}"' in response.content.decode()
        assert "HX-Request" in response.headers["Vary"]


@pytest.mark.parametrize("atomic", [False, True], ids=["autocommit", "atomic requests"])
@pytest.mark.parametrize("name", overview.FIRST)
@pytest.mark.django_db(transaction=True)
def test_a_slow_region_says_so_and_the_others_are_whole(page, operator, settings, monkeypatch, name, atomic):
    settings.DEADLETTERS = {"REGION_SECONDS": 0.2}
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", atomic)
    visited(operator)
    a_letter(error="shop.Gone: x", dead_lettered_at=timezone.now())
    counting.fold()
    monkeypatch.setitem(overview.FIRST, name, overview.Part(name=name, title="Slow", read=asleep))

    response = page.get(OVERVIEW)
    parts = response.context["parts"]
    assert parts[name]["region"].trouble is regions.Trouble.SLOW
    assert all(parts[other]["value"] for other in overview.FIRST if other != name)
    content = response.content.decode()
    assert "Took too long." in content
    assert reverse("deadletters:region", args=[name]) in content
    assert LastVisit.objects.get().seen_at > timezone.now() - timedelta(minutes=1), "the visit is noted all the same"


def asleep(_asked):
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(30)")


def many_of_everything(operator):
    visited(operator)
    for n in range(12):
        letter = a_letter(
            error=f"shop.E{chr(97 + n)}: x", subjects=[("order", str(n))], failure_reason=200 + n,
            dead_lettered_at=timezone.now(), source_table=("wh_inbox", "wh_outbox", "their_queue")[n % 3], deaths=2,
        )  # fmt: skip
        counting.fold()
        group = FailureGroup.objects.get(
            fingerprints__fingerprint=DeadLetter.objects.get(pk=letter.pk).error_fingerprint
        )
        run = a_run([letter], state=RunState.RUNNING, group_id=group.pk)
        Generation.objects.create(service="shop", build=f"build-{n}")
        OperatorAction.objects.create(
            actor="x", actor_id="9", action="triage", dead_letter_id=letter.pk, group_id=group.pk, run_id=run.pk
        )


def test_the_page_and_each_region_take_at_most_twelve_queries_whatever_there_is(
    page, operator, django_assert_max_num_queries
):
    """The sign-in's are among them, and what the time limits cost."""
    many_of_everything(operator)

    with django_assert_max_num_queries(12):
        page.get(OVERVIEW)
    for name in overview.PARTS:
        with django_assert_max_num_queries(12, info=name):
            region_of(page, name)


def test_what_is_hostile_is_text_and_masked(page):
    nasty = "<script>alert(1)</script> password=hunter2secret"
    a_letter(
        error=f"shop.X: {nasty}", message_type=nasty, subjects=[(nasty, nasty)], generation=nasty,
        dead_lettered_at=timezone.now(),
    )  # fmt: skip
    a_user("mallory")
    a_run([a_letter()], state=RunState.RUNNING, scope_words=nasty, actor=nasty)
    Generation.objects.create(service=nasty, build=nasty)
    counting.fold()

    content = page.get(OVERVIEW).content.decode() + "".join(
        region_of(page, name).content.decode() for name in overview.LATER
    )
    assert "<script>alert" not in content
    assert "hunter2secret" not in re.sub(r'href="[^"]*"', "", content)
