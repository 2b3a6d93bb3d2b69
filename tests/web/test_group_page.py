"""The page of one group: what worked last time, what it touches, and what it costs to show."""

import gzip
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from deadletters import counting, triage
from deadletters.models import DeadLetter, FailureGroup, GroupFingerprint, ItemState, Note, RunKind, RunState
from deadletters.queries import recent, regions
from tests.factories import a_letter, a_run

pytestmark = pytest.mark.django_db

STREAM = "00000000-0000-4000-8000-00000000000{}"


def a_group(letters=1, error="shop.Torn: x", **fields):
    """Make a group of some letters that died lately; `fields` are the letters'."""
    now = timezone.now()
    for number in range(letters):
        a_letter(error=error, dead_lettered_at=now - timedelta(minutes=number), **fields)
    counting.fold()
    letter = DeadLetter.objects.filter(error_text=error).first()
    return FailureGroup.objects.get(fingerprints__fingerprint=letter.error_fingerprint)


def address(group):
    return reverse("deadletters:group", args=[group.pk])


def test_it_says_by_verb_what_worked_how_often_and_who_was_last(page):
    group, now = a_group(10), timezone.now()
    letters = list(DeadLetter.objects.all())
    done = {"state": RunState.FINISHED, "group_id": group.pk}
    a_run(letters[:4], states=["recovered"] * 4, actor="olga", created_at=now - timedelta(days=3), **done)
    a_run(letters[4:6], states=["recovered", "failed_again"], actor="vera", created_at=now - timedelta(days=1), **done)
    a_run(letters[6:9], states=["failed_again", "failed_differently", "no_answer"], actor="schedule",
          kind=RunKind.SCHEDULE, **done)  # fmt: skip
    a_run(letters[9:], states=[ItemState.SKIPPED], kind=RunKind.REPLAY, generation="build-9", **done)

    response = page.get(address(group))
    found = [(r.verb, r.times, r.share, r.answered, r.by) for r in response.context["worked"].value.results]
    assert found == [("person", 2, 83, 6, "vera"), ("schedule", 1, 0, 3, "schedule")]
    content = response.content.decode()
    assert "<b>83 %</b> of 6 letters handled" in content
    assert "2 runs by people, last by" in content


def test_letters_that_were_sent_one_by_one_count_by_their_verdicts(page):
    a_letter(error="shop.Torn: x", status=3, actor="olga", dead_lettered_at=timezone.now())
    a_letter(error="shop.Torn: x", status=1, actor="vera", dead_lettered_at=timezone.now())
    group = a_group(1)

    (result,) = page.get(address(group)).context["worked"].value.results
    assert (result.verb, result.times, result.answered, result.recovered, result.by) == ("single", 1, 1, 1, "olga")


def test_the_letters_of_a_run_are_not_told_twice(page):
    letter = a_letter(error="shop.Torn: x", status=3, dead_lettered_at=timezone.now())
    group = a_group(1)
    run = a_run([letter], states=[ItemState.RECOVERED], state=RunState.FINISHED, group_id=group.pk)
    letter.death_rows.update(recovery_item_id=run.items.get().pk)

    assert [r.verb for r in page.get(address(group)).context["worked"].value.results] == ["person"]


def test_the_runbook_and_the_last_notes_stand_beside_what_worked(page, operator):
    group = a_group()
    triage.change_group(group_id=group.pk, user=operator, changes={"runbook": "https://wiki.example/torn"})
    for text in ("an older one", "second", "password=hunter2"):
        triage.add_note(text=text, user=operator, group_id=group.pk)

    shown = page.get(address(group)).content.decode().partition('class="last-time"')[2].partition("</section>")[0]
    assert "https://wiki.example/torn" in shown
    assert "second" in shown
    assert "an older one" not in shown
    assert "hunter2" not in shown


def test_what_it_touches_is_counted_in_its_newest_letters(page):
    for number in range(3):
        a_letter(error="shop.Torn: x", stream_id=STREAM.format(number % 2), destination="billing",
                 generation=f"build-{number}", subjects=[("order", "1"), ("order", "1"), ("line", str(number))],
                 dead_lettered_at=timezone.now())  # fmt: skip
    group = a_group(1, stream_id=None)

    found = page.get(address(group)).context["newest"].value
    assert [(t.value, t.n) for t in found.streams] == [(STREAM.format(0), 2), (STREAM.format(1), 1)]
    assert [(t.value, t.n) for t in found.destinations] == [("billing", 3)]
    assert {t.value for t in found.builds} == {"build-0", "build-1", "build-2"}
    assert (found.subjects[0].type, found.subjects[0].id, found.subjects[0].n) == ("order", "1", 3)
    assert found.rows[1].subject.id == "1"
    assert found.rows[1].more_subjects == 2


def test_of_a_large_group_it_is_said_that_only_the_newest_were_looked_at(page, monkeypatch):
    monkeypatch.setattr(recent, "SAMPLE", 2)
    group = a_group(3, stream_id=STREAM.format(1))

    content = page.get(address(group)).content.decode()
    assert "in its newest 2 letters" in content
    assert "in all its" not in content


def test_an_operator_takes_it_from_its_page_and_reads_so(page):
    group = a_group()
    act = reverse("deadletters:group_act", args=[group.pk])

    assert "Assign to me" in page.get(address(group)).content.decode()
    sent = {"action": "assign_me", "row_version": group.row_version}
    answer = page.post(act, sent, headers={"Referer": f"http://testserver{address(group)}"})
    assert answer.headers["Location"] == address(group)
    content = page.get(address(group)).content.decode()
    assert "It is yours now." in content
    assert "Hold its 1 open letters, new ones too" in content


def test_it_costs_at_most_twelve_queries_whatever_it_holds(page, operator):
    ugly = "\u202e<b>'\"" * 40
    group = a_group(60, stream_id=STREAM.format(1), destination=ugly,
                    subjects=[(f"kind{n}", ugly) for n in range(25)])  # fmt: skip
    for number in range(30):
        letter = a_letter(error=f"shop.Other{chr(97 + number)}: x", dead_lettered_at=timezone.now())
        counting.fold()
        GroupFingerprint.objects.filter(fingerprint=DeadLetter.objects.get(pk=letter.pk).error_fingerprint).update(
            group=group
        )
    for _ in range(25):
        a_run([letter], states=[ItemState.RECOVERED], state=RunState.FINISHED, group_id=group.pk, reason=ugly)
    for number in range(120):
        triage.change_group(group_id=group.pk, user=operator, changes={"ticket": f"{number}{ugly}"[:400]})
        Note.objects.create(group=group, text=f"{uuid4()} " * 20, author=ugly)
    FailureGroup.objects.filter(pk=group.pk).update(runbook=ugly, template=ugly)

    with CaptureQueriesContext(connection) as queries:
        response = page.get(address(group))
    assert len(response.context["newest"].value.rows) == 90
    assert len(queries) <= 12, [query["sql"][:80] for query in queries]
    assert len(gzip.compress(response.content)) < 60_000


@pytest.mark.parametrize(
    ("read", "still_there"),
    [
        ("groupfacts.numbers", "What was done"),
        ("groupfacts.sample", "Newest letters"),
        ("recent.of_group", "What was done"),
        ("runs.of_group", "Newest letters"),
        ("groupfacts.records", "Newest letters"),
    ],
)
def test_a_region_that_takes_too_long_says_so_and_the_others_stay(page, monkeypatch, read, still_there):
    def slow(*_arguments, **_options):
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(30)")

    group = a_group()
    monkeypatch.setattr(regions, "conf", lambda: type("Quick", (), {"region_seconds": 0.2}))
    monkeypatch.setattr(f"deadletters.queries.{read}", slow)

    content = page.get(address(group)).content.decode()
    assert "Took too long." in content
    assert still_there in content
    assert "Torn" in content
