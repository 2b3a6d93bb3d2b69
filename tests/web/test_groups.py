"""Failure groups: their list, one of them, and their triage; with htmx, without, and too late."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from deadletters import counting, triage
from deadletters.models import FailureGroup, Generation, GroupAlias, GroupFingerprint, Note, OperatorAction
from tests.addresses import address
from tests.factories import a_letter
from tests.web.conftest import HTMX

pytestmark = pytest.mark.django_db


def a_group(**fields):
    """Make a group with one letter; `fields` are the group's."""
    name = f"Fault{uuid4().hex[:6].translate(str.maketrans('0123456789', 'ghijklmnop'))}"
    letter = a_letter(error=f"shop.{name}: gone", dead_lettered_at=timezone.now())
    counting.fold()
    group = of(letter)
    FailureGroup.objects.filter(pk=group.pk).update(**fields)
    group.refresh_from_db()
    return group


def of(letter):
    """Return the group of a letter."""
    letter.refresh_from_db()
    return FailureGroup.objects.get(fingerprints__fingerprint=letter.error_fingerprint)


def found(page, **parameters):
    """Return the ids of the groups on the page that the parameters name."""
    response = page.get("/groups/", parameters)
    assert response.status_code == 200, response.content.decode()
    return [row.group.pk for row in response.context["page"].rows]


def form(group, **changes):
    """Return what a browser sends for the group's form."""
    names = ("owner", "state", "fixed_in_generation", "quiet_until_generation", "ticket", "runbook")
    values = {name: getattr(group, name) or "" for name in names}
    return {**values, "quiet_until": "", "quiet_until_count": "", "row_version": group.row_version, **changes}


def test_a_row_shows_exact_counts_trend_note_and_owner(page, operator):
    now = timezone.now()
    for hours in (0, 1, 1, 30):
        letter = a_letter(error="shop.Declined: no funds", dead_lettered_at=now - timedelta(hours=hours))
    a_letter(error="shop.Declined: no funds", status=3, dead_lettered_at=now)
    counting.fold()
    group = of(letter)
    a_letter(error="shop.Declined: no funds", dead_lettered_at=now)  # not folded yet
    triage.change_group(group_id=group.pk, user=operator, changes={"owner": "olga", "ticket": "PAY-1"})
    triage.add_note(text="older", user=operator, group_id=group.pk)
    triage.add_note(text="the newest", user=operator, group_id=group.pk)

    response = page.get("/groups/")
    (row,) = response.context["page"].rows
    content = response.content.decode()
    hours = [sum(builds.values()) for builds in row.hours]
    assert (row.open, row.total, hours[-1], hours[-2], sum(hours)) == (5, 6, 3, 2, 5)
    assert row.note == "the newest"
    assert "Declined" in content
    assert "PAY-1" in content
    assert f"/letters/?status=open&amp;group={group.pk}" in content
    assert 'role="img" aria-label="peak 3 at' in content


@pytest.mark.parametrize("sort", ["last_seen", "first_seen", "open", "total"])
def test_pages_lose_and_repeat_nothing_in_any_order(page, sort):
    made = {a_group().pk for _ in range(28)}
    FailureGroup.objects.update(last_seen_at=timezone.now(), first_seen_at=timezone.now())  # all equal

    walked, after = [], ""
    while True:
        shown = page.get("/groups/", {"sort": sort, "size": "25", "after": after}).context["page"]
        walked += [row.group.pk for row in shown.rows]
        if shown.next is None:
            break
        after = str(shown.next)
    assert len(walked) == 28
    assert set(walked) == made


def test_the_order_is_by_what_was_chosen(page):
    now = timezone.now()
    old = a_letter(error="shop.Old: x", dead_lettered_at=now - timedelta(days=2))
    for _ in range(3):
        a_letter(error="shop.Old: x", status=3, dead_lettered_at=now - timedelta(days=1))
    new = a_letter(error="shop.New: x", dead_lettered_at=now - timedelta(days=1, hours=2))
    a_letter(error="shop.New: x", dead_lettered_at=now - timedelta(days=1, hours=1))
    counting.fold()
    old, new = of(old).pk, of(new).pk

    assert found(page) == [old, new]
    assert found(page, sort="first_seen") == [new, old]
    assert found(page, sort="open") == [new, old]
    assert found(page, sort="total") == [old, new]


def test_a_filter_finds_its_groups_only(page):
    wanted = a_group(owner="vera", state="fixed", fixed_in_generation="build-9", ticket="PAY-77", message_type="a.B")
    quiet = a_group(quiet_until=timezone.now() + timedelta(hours=1))
    loud = a_group(quiet_until=timezone.now() - timedelta(hours=1))

    fingerprint = GroupFingerprint.objects.get(group=wanted).fingerprint
    for parameters in (
        {"owner": "vera"},
        {"state": "fixed"},
        {"type": "a.B"},
        {"q": "pay-77"},
        {"q": fingerprint},
        {"q": wanted.title.upper()},
    ):
        assert found(page, **parameters) == [wanted.pk], parameters
    assert found(page, state="quiet") == [quiet.pk]
    assert set(found(page, owner="-")) == {quiet.pk, loud.pk}


@pytest.mark.parametrize("parameters", [{"state": "x"}, {"sort": "owner"}, {"nope": "1"}, {"after": "x"}])
@pytest.mark.parametrize("headers", [{}, HTMX])
def test_a_filter_that_is_not_understood_is_400_and_says_why(page, parameters, headers):
    response = page.get("/groups/", parameters, headers=headers)

    assert response.status_code == 400
    assert "That filter is not understood." in response.content.decode()


def test_the_list_costs_the_same_queries_however_many_groups(page):
    counts = []
    for number in (1, 12):
        for _ in range(number):
            a_group()
        with CaptureQueriesContext(connection) as queries:
            page.get("/groups/", {"sort": "open"})
        counts.append(len(queries))
    assert counts[0] == counts[1] <= 12


def test_one_group_shows_sample_counts_letters_subjects_builds_and_audit(page, operator):
    now = timezone.now()
    trace = 'shop.Declined: no\nTraceback (most recent call last):\n  File "/srv/shop/pay.py", line 3, in pay\n    x()'
    letter = a_letter(error=trace, subjects=[("order", "1"), ("customer", "7")], dead_lettered_at=now)
    a_letter(error=trace, subjects=[("customer", "7")], source_table="wh_outbox", status=2, dead_lettered_at=now)
    Generation.objects.create(service="shop", build="build-77", first_seen_at=now - timedelta(hours=2))
    counting.fold()
    group = of(letter)
    triage.change_group(group_id=group.pk, user=operator, changes={"owner": "vera"}, reason="she knows")

    response = page.get(address("group", group))
    content = response.content.decode()
    counts = response.context["numbers"].value.counts
    assert counts.all.by_status == {0: 1, 2: 1}
    assert [source.source for source in counts.sources] == ["wh_inbox", "wh_outbox"]
    assert "/srv/shop/pay.py" in content
    assert [(subject.id, subject.n) for subject in response.context["newest"].value.subjects] == [("7", 2), ("1", 1)]
    assert len(response.context["shown"]) == 2
    assert "build-77" in content
    assert "Changed owner: – → vera, state: new → ongoing" in content
    assert "she knows" in content


@pytest.mark.parametrize(
    ("asked", "bars"), [({}, 24), ({"trend": "24h"}, 24), ({"trend": "7d"}, 168), ({"trend": "30d"}, 30)]
)
def test_a_trend_counts_every_death_once(page, asked, bars):
    letter = a_letter(dead_lettered_at=timezone.now())
    a_letter(dead_lettered_at=timezone.now())
    counting.fold()

    chart = page.get(address("group", of(letter)), asked).context["numbers"].value.trend
    assert (len(chart.bars), chart.total) == (bars, 2)


def test_a_group_that_was_quiet_for_days_shows_the_span_of_its_last_death(page):
    letter = a_letter(dead_lettered_at=timezone.now() - timedelta(days=3))
    counting.fold()

    assert page.get(address("group", of(letter))).context["span"].name == "7d"


def test_a_merged_id_and_a_fingerprint_lead_to_the_group(page):
    group = a_group()
    alias = GroupAlias.objects.create(alias=uuid4(), group=group, merged_by="olga")
    fingerprint = GroupFingerprint.objects.get(group=group).fingerprint

    for path in (f"/groups/{alias.alias}/", f"/groups/of/{fingerprint}"):
        assert page.get(path).headers["Location"] == address("group", group)
    assert found_letters(page, group=str(alias.alias)) == found_letters(page, group=str(group.pk)) != []
    for path in (f"/groups/{uuid4()}/", "/groups/of/0000000000000000"):
        assert page.get(path).status_code == 404


def found_letters(page, **parameters):
    return [row.letter.pk for row in page.get("/letters/", parameters).context["page"].rows]


def test_a_group_of_several_fingerprints_lists_their_letters_in_one_order(page):
    now = timezone.now()
    letters = [
        a_letter(error=f"shop.{('Alpha', 'Beta')[n % 2]}: x", dead_lettered_at=now - timedelta(minutes=n))
        for n in range(60)
    ]
    a_letter(error="shop.Other: of another group", dead_lettered_at=now)
    counting.fold()
    one, two = of(letters[0]), of(letters[1])
    assert one != two
    GroupFingerprint.objects.filter(group=two).update(group=one)

    response = page.get("/letters/", {"group": str(one.pk), "size": "50"})
    first = response.context["page"]
    rest = page.get("/letters/", {"group": str(one.pk), "after": str(first.next)}).context["page"]
    shown = [row.letter.pk for row in [*first.rows, *rest.rows]]
    assert shown == [letter.pk for letter in letters]
    assert response.context["counted"].value.n == 60
    assert page.get(address("group", one)).context["numbers"].value.counts.all.total == 60


def test_triage_is_saved_and_said_without_script(page):
    group = a_group()
    sent = form(
        group,
        owner=" vera ",
        state="fixed",
        fixed_in_generation="build-9",
        quiet_until="2030-01-31T12:00",
        quiet_until_count="500",
        ticket="PAY-1",
        runbook="https://wiki.example/x",
        reason="shipped",
    )

    response = page.post(address("triage_group", group), sent)
    assert response.headers["Location"] == address("group", group)
    group.refresh_from_db()
    assert (group.owner, group.state, group.fixed_in_generation) == ("vera", "fixed", "build-9")
    assert (group.quiet_until.isoformat(), group.quiet_until_count) == ("2030-01-31T12:00:00+00:00", 500)
    action = OperatorAction.objects.get()
    assert (action.actor, action.action, action.reason, action.group_id) == ("olga", "triage", "shipped", group.pk)
    content = page.get(address("group", group)).content.decode()
    assert "Saved." in content
    assert '<a href="https://wiki.example/x" rel="noopener noreferrer"' in content
    assert "quiet until 2030-01-31 12:00 UTC, until 500 letters" in content


def test_triage_by_htmx_answers_with_the_changed_regions_only(page):
    group = a_group()

    content = page.post(address("triage_group", group), form(group, owner="vera"), headers=HTMX).content.decode()
    assert "<html" not in content
    assert content.count("hx-swap-oob") == 3
    assert "Ongoing" in content
    assert f'name="row_version" value="{group.row_version + 1}"' in content


@pytest.mark.parametrize("headers", [{}, HTMX])
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"state": "fixed"}, "Fixed in generation must name the build in which it is fixed."),
        ({"state": "held"}, "State must be one of"),
        ({"quiet_until": "tomorrow"}, "Quiet until must be a date and a time"),
        ({"quiet_until_count": "many"}, "Quiet until count must be a whole number"),
        ({"owner": "é" * 151}, "Owner may have 150 characters; this has 151."),
    ],
)
def test_triage_that_cannot_be_kept_is_422_and_nothing_typed_is_lost(page, headers, changes, said):
    group = a_group()
    sent = form(group, **{"ticket": "PAY-9", "reason": "because", **changes})

    response = page.post(address("triage_group", group), sent, headers=headers)
    content = response.content.decode()
    assert response.status_code == 422
    assert said in content
    assert 'value="PAY-9"' in content
    assert 'value="because"' in content
    assert not OperatorAction.objects.exists()


@pytest.mark.parametrize("headers", [{}, HTMX])
def test_a_stale_form_is_409_and_shows_what_others_wrote_beside_what_was_typed(page, operator, headers):
    group = a_group()
    triage.change_group(group_id=group.pk, user=operator, changes={"owner": "first"})

    response = page.post(address("triage_group", group), form(group, owner="second"), headers=headers)
    content = response.content.decode()
    assert response.status_code == 409
    assert "Somebody changed it meanwhile." in content
    assert 'value="second"' in content
    assert "<b>first</b>" in content
    group.refresh_from_db()
    assert group.owner == "first"
    assert page.post(address("triage_group", group), form(group, owner="second")).status_code == 302


@pytest.mark.parametrize("version", ["", "x", "-1", "9" * 30, "²"])
def test_a_form_without_the_version_that_was_seen_changes_nothing(page, version):
    group = a_group()

    assert page.post(address("triage_group", group), form(group, owner="x", row_version=version)).status_code == 409
    assert not OperatorAction.objects.exists()


def test_a_found_out_state_stays_while_other_fields_are_saved(page):
    group = a_group(state="regressed")

    page.post(address("triage_group", group), form(group, owner="vera"))
    group.refresh_from_db()
    assert (group.state, group.owner) == ("regressed", "vera")


@pytest.mark.parametrize("headers", [{}, HTMX])
def test_a_note_on_a_group_is_kept_or_refused_with_its_text(page, headers):
    group = a_group()

    assert page.post(address("add_group_note", group), {"text": "é" * 4_001}, headers=headers).status_code == 422
    answer = page.post(address("add_group_note", group), {"text": "ask <Marta>"}, headers=headers)
    shown = answer if headers else page.get(address("group", group))
    assert "ask &lt;Marta&gt;" in shown.content.decode()
    assert Note.objects.get().group_id == group.pk


@pytest.mark.parametrize("name", ["triage_group", "add_group_note"])
@pytest.mark.parametrize("headers", [{}, HTMX])
def test_an_unknown_group_is_404_and_leaves_no_trace(page, name, headers):
    response = page.post(reverse(f"deadletters:{name}", args=[uuid4()]), {"text": "x"}, headers=headers)

    assert response.status_code == 404
    assert not OperatorAction.objects.exists()


HOSTILE = ("<img src=x onerror=alert(1)>", "</textarea></title><script>alert(1)</script>", "javascript:alert(1)//\"'")


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("headers", [{}, HTMX])
def test_hostile_text_is_characters(page, text, headers):
    group = a_group(
        title=text, template=text, place=text, message_type=text, sample_line=text, owner=text, ticket=text,
        runbook=text, quiet_until_generation=text, fixed_in_generation=text,
    )  # fmt: skip
    Note.objects.create(group=group, text=text, author=text)
    OperatorAction.objects.create(actor=text, action="triage", group_id=group.pk, reason=text, after={text: text})
    Generation.objects.create(service=text, build=text)

    answers = [
        page.get("/groups/", headers=headers),
        page.get("/groups/", {"q": text, "owner": text}, headers=headers),
        page.get(address("group", group)),
        page.post(address("triage_group", group), form(group, owner=text * 9), headers=headers),
        page.post(address("triage_group", group), form(group, row_version=""), headers=headers),
    ]
    for answer in answers:
        content = answer.content.decode()
        assert "<img src=x" not in content
        assert "<script>alert" not in content
        assert 'href="javascript' not in content


def test_secrets_in_what_a_group_says_are_masked(page):
    group = a_group(
        title="E", template="password=hunter2", sample_line="token: hunter2", ticket="https://a:hunter2@x.y/"
    )
    FailureGroup.objects.update(sample_letter_id=uuid4())

    for path in ("/groups/", address("group", group)):
        content = page.get(path).content.decode()
        assert "hunter2" not in content.replace('name="ticket" value="https://a:hunter2@x.y/"', "")


def test_a_letter_shows_its_group_and_one_that_is_not_folded_says_nothing(page):
    first = a_letter(error="shop.Declined: no")
    unfolded = page.get(reverse("deadletters:letter", args=[first.pk]))
    assert unfolded.status_code == 200
    assert "died of the same" not in unfolded.content.decode()
    a_letter(error="shop.Declined: no")
    counting.fold()

    content = page.get(reverse("deadletters:letter", args=[first.pk])).content.decode()
    assert "1 other died of the same" in content
    assert address("group", of(first)) in content


@pytest.mark.parametrize("headers", [{}, HTMX])
@pytest.mark.parametrize("fingerprint", ["%00", "nonsense", "0" * 16])
def test_a_fingerprint_that_no_group_has_is_not_found(page, fingerprint, headers):
    assert page.get(f"/groups/of/{fingerprint}", headers=headers).status_code == 404
