"""The audit: everything that people did, found by who, what, to what, when and why."""

import csv
import io
import json
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection
from django.urls import reverse
from django.utils import timezone

from deadletters import counting
from deadletters.models import FailureGroup, OperatorAction
from deadletters.queries import audit
from deadletters.words.filters import ActionFilter
from tests.factories import NOON, a_letter, a_run, a_user
from tests.web.conftest import HTMX

pytestmark = pytest.mark.django_db

AUDIT = "/audit/"


def an_action(**fields):
    return OperatorAction.objects.create(**{"actor": "olga", "action": "note", "at": NOON, **fields})


def shown(page, **parameters):
    response = page.get(AUDIT, parameters)
    assert response.status_code == 200, response.content.decode()
    return [row.action.pk for row in response.context["page"].rows]


def test_actions_are_shown_the_newest_first_with_their_target_and_reason(page):
    letter = a_letter(message_type="shop.ChargeCard")
    an_action(dead_letter_id=letter.pk, action="triage", after={"owner": "vera"}, before={"owner": None})
    an_action(action="pause", reason="the bank is down", after={"source": "wh_inbox"}, at=NOON + timedelta(hours=1))

    content = page.get(AUDIT).content.decode()
    assert content.index("the bank is down") < content.index("shop.ChargeCard")
    assert f'href="{reverse("deadletters:letter", args=[letter.pk])}"' in content
    assert "Changed owner: – → vera" in content


def test_filters_find_by_person_verb_target_time_and_text_of_the_reason(page):
    letter, group, run, message = uuid4(), uuid4(), uuid4(), uuid4()
    pks = {
        "letter": an_action(dead_letter_id=letter, actor="vera").pk,
        "group": an_action(group_id=group, action="triage").pk,
        "run": an_action(run_id=run, action="run_stop", at=NOON + timedelta(days=2)).pk,
        "message": an_action(message_id=message, action="stop", reason="It Loops").pk,
        "other": an_action(action="pause", at=NOON - timedelta(days=2)).pk,
    }

    assert shown(page, actor="vera") == [pks["letter"]]
    assert shown(page, action="triage") == [pks["group"]]
    assert shown(page, q="loops") == [pks["message"]]
    assert shown(page, since="2026-01-16T12:00") == [pks["run"]]
    assert shown(page, until="2026-01-14T12:00") == [pks["other"]]
    for name, wanted in {"letter": letter, "group": group, "run": run, "message": message}.items():
        assert shown(page, **{name: wanted}) == [pks[name]]
        assert shown(page, q=wanted) == [pks[name]]
        assert shown(page, target=name) == [pks[name]]
    assert shown(page, target="other") == [pks["other"]]
    assert shown(page, actor="olga", action="stop", target="message", q="it") == [pks["message"]]


@pytest.mark.parametrize(
    "wrong", [{"nonsense": "1"}, {"letter": "42"}, {"target": "moon"}, {"since": "soon"}, {"after": "x"}, {"q": "\x00"}]
)
@pytest.mark.parametrize("headers", [{}, HTMX])
def test_a_filter_that_is_not_understood_is_400_and_says_why(page, wrong, headers):
    response = page.get(AUDIT, wrong, headers=headers)

    assert response.status_code == 400
    assert "That filter is not understood." in response.content.decode()


def test_pages_follow_each_other_without_a_gap_at_equal_times(page):
    made = [an_action().pk for _ in range(60)]

    first = page.get(AUDIT, {"size": 25}).context["page"]
    found, place = [row.action.pk for row in first.rows], first.next
    while place:
        following = page.get(AUDIT, {"size": 25, "after": str(place)}).context["page"]
        found += [row.action.pk for row in following.rows]
        place = following.next
    assert found == sorted(made, reverse=True)


def test_before_and_after_are_masked_and_folded(page):
    an_action(
        action="policy_changed",
        before={"api_token": "hidden-1", "url": "amqp://u:hidden-2@h/"},
        after={"api_token": "hidden-3", "nested": {"password": "hidden-4", "seen": "visible"}},
        reason="password=hidden-5",
    )

    content = page.get(AUDIT).content.decode()
    assert "hidden-" not in content
    assert "visible" in content
    assert content.index("Before and after") > content.index("<details")


def test_values_too_long_for_a_page_are_cut_and_the_page_stays_small(page):
    for _ in range(50):
        an_action(action="run_prepare", after={"letters": [str(uuid4()) for _ in range(2_000)], "token": "hidden-1"})

    content = page.get(AUDIT).content
    assert b"this is how it begins" in content
    assert b"hidden-" not in content
    assert len(content) < 400_000


def test_what_is_gone_is_named_by_its_id(page):
    gone = uuid4()
    an_action(action="purge", dead_letter_id=gone, reason="asked to forget")

    content = page.get(AUDIT).content.decode()
    assert str(gone) in content
    assert ">gone<" in content


def test_each_page_leads_to_its_audit_and_the_audit_back(page):
    letter = a_letter()
    counting.fold()
    group, run = FailureGroup.objects.get(), a_run([letter])
    an_action(dead_letter_id=letter.pk)
    an_action(group_id=group.pk)
    an_action(run_id=run.pk)

    rows = page.get(AUDIT).content.decode()
    for name, key in (("letter", letter.pk), ("group", group.pk), ("run", run.pk)):
        address = reverse(f"deadletters:{name}", args=[key])
        assert f'href="{address}"' in rows
        assert f'href="{AUDIT}?{name}={key}"' in page.get(address).content.decode()
        assert len(shown(page, **{name: key})) == 1


def test_the_filters_suggest_everybody_and_everything_once(page):
    for actor, action in (("vera", "note"), ("olga", "stop"), ("vera", "stop"), ("x" * 300, "y" * 300)):
        an_action(actor=actor, action=action)

    response = page.get(AUDIT)
    assert response.context["names"].actors == ["olga", "vera", "x" * 200]
    assert response.context["names"].verbs == ["note", "stop", "y" * 200]


def test_the_page_takes_few_queries_whatever_it_shows(page, django_assert_max_num_queries):
    letters = [a_letter(error=f"E{n}: x") for n in range(5)]
    counting.fold()
    groups = list(FailureGroup.objects.all())
    for n, letter in enumerate(letters):
        an_action(dead_letter_id=letter.pk, group_id=groups[n].pk, run_id=a_run([letter]).pk, message_id=uuid4())
        an_action(group_id=uuid4(), run_id=uuid4())

    with django_assert_max_num_queries(12):
        page.get(AUDIT, {"q": "note", "actor": "olga"})


@pytest.mark.parametrize(
    ("filters", "index"),
    [
        (ActionFilter(), "operator_actions_newest"),
        (ActionFilter(actor="rare"), "operator_actions_by_actor"),
        (ActionFilter(action="rare"), "operator_actions_by_action"),
        (ActionFilter(group="00000000-0000-4000-8000-000000000001"), "operator_actions_of_group"),
        (ActionFilter(q="00000000-0000-4000-8000-000000000001"), "operator_actions_of_letter"),
    ],
)
def test_each_filter_is_served_by_an_index(filters, index):
    OperatorAction.objects.bulk_create(
        OperatorAction(actor=f"p{n % 9}", action=f"a{n % 7}", dead_letter_id=uuid4(), at=NOON + timedelta(seconds=n))
        for n in range(4_000)
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE operator_actions")

    plan = audit._matching(filters, timezone.now()).order_by(*audit.ORDER)[:51].explain()
    assert index in plan
    assert "Seq Scan" not in plan


def test_an_export_holds_what_the_filter_names_masked_and_is_written_down(page):
    an_action(actor="vera", reason="=cmd token=hidden-1", after={"password": "hidden-2", "n": 12345678901234567890})
    an_action(actor="olga")

    lines = b"".join(page.get("/audit/export.jsonl", {"actor": "vera"}).streaming_content).decode().splitlines()
    (exported,) = [json.loads(line) for line in lines[1:-1]]
    assert exported["actor"] == "vera"
    assert exported["after"]["n"] == 12345678901234567890
    assert "hidden-" not in "".join(lines)
    assert "1 actions as of" in lines[-1]
    text = b"".join(page.get("/audit/export.csv", {"actor": "vera"}).streaming_content).decode()
    heading, row, ending = csv.reader(io.StringIO(text))
    assert dict(zip(heading, row, strict=True))["reason"].startswith("'=cmd")
    assert ending[0].startswith("# Actions of vera")
    assert [action.after["form"] for action in OperatorAction.objects.filter(action="export")] == ["jsonl", "csv"]


def test_an_export_begins_at_the_newest_and_needs_the_right_to_view(page, signed_in, stranger):
    place = "20260115T120000.000000_1"

    assert page.get("/audit/export.csv", {"after": place}).status_code == 400
    assert page.get("/audit/export.csv", {"what": "x"}).status_code == 400
    assert signed_in(stranger).get("/audit/export.csv").status_code == 403
    assert signed_in(a_user("root", is_superuser=True)).get("/audit/export.csv").status_code == 200


def test_an_audit_that_takes_too_long_says_so_and_the_form_stays(page, settings):
    an_action()
    settings.DEADLETTERS = {"REGION_SECONDS": 0.2}
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE operator_actions RENAME TO slow_actions")
        cursor.execute("CREATE VIEW operator_actions AS SELECT a.* FROM slow_actions a, pg_sleep(1)")

    content = page.get(AUDIT, {"actor": "olga"}).content.decode()
    assert "Took too long." in content
    assert 'value="olga"' in content
    assert 'href="/audit/?actor=olga"' in content


def test_an_empty_audit_says_what_it_is_for(page):
    assert "Nobody did anything yet." in page.get(AUDIT).content.decode()
    assert "No action matches." in page.get(AUDIT, {"actor": "nobody"}).content.decode()
