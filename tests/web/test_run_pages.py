"""What the pages of runs say: of builds that nobody runs, of groups by their titles, of failures, of odd rows."""

import re
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from deadletters import counting
from deadletters.models import DeadLetter, FailureGroup, GroupAlias, ItemState, RunKind, RunState
from deadletters.queries import runs
from queues.store import presence
from tests.addresses import address
from tests.db.shell import objects
from tests.db.shell import run as shell
from tests.factories import NOON, a_letter, a_run
from tests.web.conftest import HTMX, text_of

pytestmark = pytest.mark.django_db

FORECAST = re.compile(r">about [^<]+ to go<")
AGAIN, DIFFERENTLY = ItemState.FAILED_AGAIN, ItemState.FAILED_DIFFERENTLY


def a_group():
    letter = a_letter(error="CardDeclined: no funds")
    counting.fold()
    return letter, FailureGroup.objects.get()


def a_replay(letters=(), *, group_id=None, build="winter", **fields):
    group_id = group_id or uuid4()
    values = {
        "kind": RunKind.REPLAY,
        "state": RunState.RUNNING,
        "started_at": timezone.now() - timedelta(minutes=1),
        "scope": {"replay": {"group": str(group_id), "build": build}},
        "scope_words": f"Replay of group {group_id} on build {build}",
        "group_id": group_id,
        "generation": build,
        "actor": f"build {build}",
        **fields,
    }
    return a_run(letters, **values)


def reports(build):
    process = presence.Process(instance_id=uuid4(), service="shop", host="here", process_id=1)
    presence.say(process, {"generation": build, "types": [], "perspectives": {}})


# --- a build that no live worker runs


def test_a_replay_says_that_no_live_worker_runs_its_build_and_forecasts_nothing(page):
    run = a_replay([a_letter(), a_letter()], states=[ItemState.RECOVERED], wave=1)
    reports("autumn")

    waits = page.get(address("run", run))
    assert "No live worker runs build winter: its letters wait." in text_of(waits)
    assert FORECAST.search(text_of(waits)) is None
    reports("winter")
    live = page.get(f"{address('run_live', run)}?seen={waits.context['seen']}", headers=HTMX)
    assert live.status_code == 200
    assert "No live worker" not in text_of(live)
    assert FORECAST.search(text_of(live))


@pytest.mark.parametrize("fields", [{"states": [ItemState.RECOVERED]}, {"kind": RunKind.PERSON}])
def test_no_build_is_missed_by_letters_that_wait_for_none(page, fields):
    run = a_replay([a_letter()], **fields)

    assert "No live worker runs" not in text_of(page.get(address("run", run)))


# --- in words


@pytest.mark.parametrize(("state", "said"), [(RunState.STOPPED, "took 11 s"), (RunState.FINISHED, "took 11 s")])
def test_an_ended_run_took_its_time(page, state, said):
    run = a_run([a_letter()], state=state, started_at=NOON, finished_at=NOON + timedelta(seconds=11))

    content = text_of(page.get(address("run", run)))
    assert said in content
    assert "so far" not in content


def test_a_run_under_way_has_lasted_so_far(page):
    run = a_run([a_letter()], state=RunState.RUNNING, started_at=timezone.now() - timedelta(seconds=11))

    assert " s so far" in text_of(page.get(address("run", run)))


def test_stop_names_no_letters_where_all_were_sent(page):
    run = a_run([a_letter()], states=[ItemState.SENT], state=RunState.RUNNING, started_at=NOON)

    content = text_of(page.get(address("run", run)))
    assert "</svg>Stop</button>" in content


def test_no_more_letters_go_first_than_there_are(page):
    few, many = a_run([a_letter() for _ in range(3)]), a_run([a_letter() for _ in range(7)])

    content = text_of(page.get(address("run", few)))
    assert 'Recover 3 letters, <span data-mirror="canary" data-most="3">3</span> first' in content
    assert "and they are this share of the answers (%)" in content
    assert ">5</span> first" in text_of(page.get(address("run", many)))


def test_why_is_asked_only_of_letters_that_ended(page):
    fresh = a_run([a_letter()])
    ended = a_run([a_letter()], states=[ItemState.RECOVERED], state=RunState.FINISHED)

    assert "No letter has ended yet." in text_of(page.get(address("run", fresh)))
    assert "No letter has said why" not in text_of(page.get(address("run", fresh)))
    assert "No letter has said why it ended." in text_of(page.get(address("run", ended)))


def test_a_letter_that_was_never_sent_has_no_answer(page):
    run = a_run([a_letter()], states=[ItemState.SKIPPED], state=RunState.FINISHED)
    sent = a_run([a_letter()], states=[ItemState.RECOVERED], state=RunState.FINISHED)

    assert 'data-caption="Answered">–</td>' in text_of(page.get(address("run", run)))
    assert 'data-caption="Answered"><time' in text_of(page.get(address("run", sent)))


# --- groups by their titles


def test_a_replay_is_named_by_the_title_of_its_group_and_its_build_once(page):
    letter, group = a_group()
    FailureGroup.objects.update(title="CardDeclined <b>no</b> funds")
    run = a_replay([letter], states=[ItemState.RECOVERED], group_id=group.pk)

    for content in (text_of(page.get("/runs/")), text_of(page.get(address("run", run)))):
        assert "Replay of group “CardDeclined &lt;b&gt;no&lt;/b&gt; funds” on build winter" in content
        assert f"group {group.pk}" not in content
        assert "winter" not in content.replace("on build winter", "").replace("build winter", "", 1)
    crumbs = text_of(page.get(address("run", run))).partition('class="crumbs"')[2].partition("</p>")[0]
    assert reverse("deadletters:group", args=[group.pk]) in crumbs
    assert "CardDeclined" in crumbs


def test_a_group_that_was_merged_gives_its_runs_the_title_of_the_other_and_a_lost_one_its_id(page):
    letter, group = a_group()
    merged = a_replay([letter], group_id=GroupAlias.objects.create(alias=uuid4(), group=group, merged_by="vera").alias)
    lost = a_replay([letter])

    assert "Replay of group “CardDeclined" in text_of(page.get(address("run", merged)))
    assert f"Replay of group {lost.group_id} on build winter" in text_of(page.get(address("run", lost)))
    assert f"Replay of group {lost.group_id} on build winter" in text_of(page.get("/runs/"))


def test_the_titles_of_a_list_are_read_at_once(page):
    letter, group = a_group()

    def cost():
        with CaptureQueriesContext(connection) as queries:
            page.get("/runs/")
        return len(queries)

    a_replay([letter], group_id=group.pk)
    before = cost()
    for build in ("b-1", "b-2", "b-3"):
        a_replay([letter], group_id=group.pk, build=build)

    assert cost() == before


def test_a_fault_that_happens_now_is_linked_by_its_title(page):
    letter = a_letter(error="CardDeclined: no", error_fingerprint="a" * 16, dead_lettered_at=timezone.now())
    run = a_run([letter])
    assert f'<bdi class="chip">{"a" * 16}</bdi>' in text_of(page.get(address("run", run)))
    counting.fold()

    link = f'<a class="chip" href="{reverse("deadletters:group", args=[FailureGroup.objects.get().pk])}">CardDeclined'
    assert link in text_of(page.get(address("run", run)))
    assert link in text_of(page.get(address("run_preview", run), headers=HTMX))


# --- why letters failed


def test_failures_are_told_by_their_most_frequent_error_lines_with_secrets_masked(page):
    errors = ["KeyError: 'a'", "KeyError: 'a'", "Error: password=hunter2hunter2", "Error: password=swordfish99"]
    run = a_run(
        [a_letter(error=error) for error in [*errors, "Other: <b>x</b>", "Fine: y", None]],
        states=[AGAIN, AGAIN, AGAIN, AGAIN, DIFFERENTLY, ItemState.RECOVERED, AGAIN],
        state=RunState.FINISHED,
    )

    assert [(state, n) for state, _, n in runs.faults(run.pk)] == [(AGAIN, 2), (AGAIN, 2), (DIFFERENTLY, 1)]
    whys = text_of(page.get(address("run", run))).partition('id="whys"')[2].partition("</section>")[0]
    assert "<b>2</b>" in whys
    assert "KeyError: &#x27;a&#x27;" in whys
    assert "&lt;b&gt;x" in whys
    assert "Fine: y" not in whys
    assert "hunter2" not in whys
    assert "No letter has said why" not in whys
    assert 'id="whys"' in text_of(page.get(address("run_live", run), headers=HTMX))


def test_failures_are_those_of_the_letters_sent_last_and_of_few_kinds(monkeypatch):
    run = a_run([a_letter(error=f"E{n}: x") for n in range(6)], states=[AGAIN, DIFFERENTLY] * 3)
    monkeypatch.setattr(runs, "FAILED_SAMPLE", 4)
    monkeypatch.setattr(runs, "MAX_FAULTS", 3)

    assert [line for _, line, _ in runs.faults(run.pk)] == ["E2: x", "E4: x", "E3: x"]
    DeadLetter.objects.all().delete()
    assert runs.faults(run.pk) == []


# --- what another version wrote


@pytest.mark.parametrize(
    "scope",
    [
        {"filter": {"type": 5}},
        {"filter": {"colour": "red"}},
        {"filter": [1]},
        {"letters": ["x"]},
        {"letters": []},
        {"replay": {"group": 5, "build": "b"}},
    ],
    ids=str,
)
def test_a_run_whose_scope_nobody_understands_is_shown(page, scope):
    run = a_run([a_letter()], scope=scope)

    assert page.get(address("run", run)).status_code == 200
    assert shell("runs", "show", run.pk).code == 0


@pytest.mark.parametrize("plan", [{"colour": "red"}, {"canary": "5"}, {"starts_at": []}], ids=str)
def test_a_plan_that_nobody_understands_hides_no_run(page, plan):
    odd = a_run([a_letter()], plan=plan, state=RunState.RUNNING, started_at=NOON)
    fine = a_run([a_letter()], plan={"canary": 2}, state=RunState.RUNNING, started_at=NOON)

    assert "It is not understood: another version wrote it." in text_of(page.get(address("run", odd)))
    assert "2 first" in text_of(page.get(address("run", fine)))
    assert page.get("/runs/").status_code == 200
    listed = shell("runs", "list", "--json")
    assert listed.code == 0
    assert {told["run_id"] for told in objects(listed)} == {str(odd.pk), str(fine.pk)}
    assert "0 of 1 done or under way" in shell("runs", "list").out
