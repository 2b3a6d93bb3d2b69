"""The triage of many letters: exactly the picked or those that match, confirmed by their number, each audited."""

from datetime import timedelta

import pytest
from django.contrib.sessions.models import Session
from django.utils import timezone

from deadletters import keptforms, triage
from deadletters.models import DeadLetter, Disposition, KeptForm, Note, OperatorAction, RecoveryRun, RecoveryStatus
from deadletters.triage import many
from deadletters.words.filters import LetterFilter
from tests.factories import NOON, a_letter, a_user

pytestmark = pytest.mark.django_db

OPEN, HELD, GIVEN_UP = RecoveryStatus.PENDING, RecoveryStatus.HELD, RecoveryStatus.PERMANENTLY_FAILED


def ask(page, verb="hold", **form):
    return page.post("/letters/many", {"verb": verb, **form}, follow=True)


def confirm(page, asked, **form):
    """Send what the confirm page holds, and what is typed into it."""
    chosen, order = asked.context["chosen"], asked.context["order"]
    held = {
        "verb": order.verb,
        "scope": chosen.kind,
        "filter": chosen.filter,
        "letter": [str(each) for each in chosen.ids] if chosen.kind == "picked" else [],
        "count": str(asked.context["n"]),
        "asked_at": asked.context["asked_at"],
    }
    return page.post("/letters/many/do", {**held, **form})


def said(page):
    return page.get("/letters/").content.decode()


def statuses():
    return sorted(DeadLetter.objects.values_list("recovery_status", flat=True))


def test_all_that_match_are_exactly_those_and_the_filter_survives_to_the_end(page):
    wanted = [a_letter(message_type="a", error="needle", dead_lettered_at=NOON).pk for _ in range(5)]
    a_letter(message_type="a", error="hay", dead_lettered_at=NOON)
    a_letter(message_type="a", error="needle", dead_lettered_at=NOON - timedelta(days=9))
    for _ in range(20):
        a_letter(message_type="b", error="needle", dead_lettered_at=NOON)
    query = "type=a&q=needle&since=2026-01-14"

    asked = ask(page, scope="matching", filter=query)
    content = asked.content.decode()
    assert "Hold 5 letters" in content
    assert "Dead letters type a, with “needle” in them, since 2026-01-14 UTC" in content
    assert not OperatorAction.objects.exists()

    response = confirm(page, asked, reason="night shift")
    assert response.headers["Location"] == f"/letters/?{query}"
    held = DeadLetter.objects.filter(recovery_status=HELD, operator_disposition=Disposition.HOLD_INDEFINITELY)
    assert set(held.values_list("pk", flat=True)) == set(wanted)
    assert "Held 5 of 5 letters." in said(page)


def test_each_letter_and_the_whole_are_audited_with_the_reason(page):
    one, two = a_letter(), a_letter(status=HELD)
    confirm(page, ask(page, "give_up", scope="matching", filter="q=no+such"), reason="a lost cause")

    whole = OperatorAction.objects.get(action="triage_many")
    assert whole.after == {"verb": "give_up", "letters": 2, "scope": "Dead letters with “no such” in them"}
    each = {action.dead_letter_id: action for action in OperatorAction.objects.filter(action="triage")}
    assert each[one.pk].before == {"operator_disposition": 0, "recovery_status": 0}
    assert each[two.pk].after == {"operator_disposition": 3, "recovery_status": 4}
    assert {action.reason for action in [whole, *each.values()]} == {"a lost cause"}
    assert "Triaged at once (give up), 2 letters" in page.get("/audit/").content.decode()


def test_no_filter_is_never_everything_unless_everything_is_said(page):
    a_letter()

    for form in (
        {},
        {"scope": "matching"},
        {"scope": "matching", "filter": ""},
        {"scope": "matching", "filter": "size=25"},
    ):
        for address in ("/letters/many", "/letters/many/do"):
            assert page.post(address, {"verb": "hold", **form}).status_code == 422
    assert ask(page, scope="everything", filter="status=open").status_code == 422
    assert ask(page, scope="everything", filter="").context["n"] == 1
    assert statuses() == [OPEN]


@pytest.mark.parametrize("query", ["stauts=open", "status=zombie", "status=open&status=held"])
def test_a_filter_that_is_not_understood_is_refused_and_nothing_is_done(page, query):
    a_letter()

    response = ask(page, scope="matching", filter=query)
    assert response.status_code == 422
    assert "Nothing was done." in response.content.decode()


def test_a_run_of_everything_and_of_the_picked_takes_the_same_forms(page):
    letter = a_letter()

    page.post("/runs/prepare", {"scope": "everything", "filter": ""})
    page.post("/runs/prepare", {"scope": "picked", "letter": [str(letter.pk)], "filter": "status=open"})
    refused = page.post("/runs/prepare", {"scope": "everything", "filter": "status=open"})
    assert [run.scope for run in RecoveryRun.objects.order_by("created_at")] == [
        {"filter": {}},
        {"letters": [str(letter.pk)]},
    ]
    assert refused.status_code == 422


def test_who_is_picked_is_changed_and_nobody_else(page):
    picked = [a_letter(), a_letter()]
    a_letter()

    asked = ask(page, scope="picked", letter=[str(each.pk) for each in picked], filter="status=open")
    response = confirm(page, asked)
    assert response.headers["Location"] == "/letters/?status=open"
    assert set(DeadLetter.objects.filter(recovery_status=HELD)) == set(picked)


def test_other_letters_by_now_are_409_with_the_new_number_and_nothing_done(page):
    a_letter()
    gone = a_letter()
    asked = ask(page, scope="matching", filter="status=open")
    DeadLetter.objects.filter(pk=gone.pk).update(recovery_status=HELD)

    response = confirm(page, asked)
    assert response.status_code == 409
    assert "Other letters match by now: 1." in response.content.decode()
    assert statuses() == [OPEN, HELD]
    confirm(page, response)
    assert statuses() == [HELD, HELD]


def test_letters_that_die_after_it_was_asked_are_left_out(page):
    a_letter()
    asked = ask(page, scope="matching", filter="status=open")
    late = a_letter(dead_lettered_at=timezone.now() + timedelta(hours=1))

    assert confirm(page, asked).status_code == 302
    assert DeadLetter.objects.get(pk=late.pk).recovery_status == OPEN


@pytest.mark.parametrize(
    ("until", "ends"), [("", NOON), ("2026-01-01", NOON - timedelta(days=14, hours=12)), ("2999-01-31", NOON)]
)
def test_a_frozen_filter_ends_now_or_sooner(until, ends):
    filters = many.frozen(LetterFilter(until=until), now=NOON)

    assert filters.times(NOON + timedelta(days=9))[1] == ends


@pytest.mark.parametrize(("n", "is_typed"), [(100, False), (101, True)])
def test_a_hundred_letters_are_confirmed_without_their_number_and_more_with_it(page, n, is_typed):
    for _ in range(n):
        a_letter()
    asked = ask(page, scope="matching", filter="status=open")

    assert (f"Type how many letters they are: {n}" in asked.content.decode()) is is_typed
    assert confirm(page, asked).status_code == (422 if is_typed else 302)
    assert statuses() == [OPEN if is_typed else HELD] * n


def test_above_the_threshold_the_number_is_typed(page, monkeypatch):
    monkeypatch.setattr(many, "CONFIRM_ABOVE", 1)
    for _ in range(2):
        a_letter()
    asked = ask(page, scope="matching", filter="status=open")
    assert "Type how many letters they are: 2" in asked.content.decode()

    for typed in ("", "1", "two"):
        response = confirm(page, asked, typed=typed, reason="kept")
        assert response.status_code == 422
        assert 'value="kept"' in response.content.decode()
    assert statuses() == [OPEN, OPEN]
    assert confirm(page, asked, typed=" 2 ").status_code == 302
    assert statuses() == [HELD, HELD]


def test_more_than_one_call_may_triage_is_refused(page, monkeypatch):
    monkeypatch.setattr(many, "MAX_LETTERS", 1)
    for _ in range(2):
        a_letter()

    response = ask(page, scope="matching", filter="status=open")
    assert response.status_code == 422
    assert "More than 1 letters match; narrow it down." in response.content.decode()


def test_letters_that_cannot_be_changed_so_are_left_alone_and_said_by_why(page):
    letters = [
        a_letter(status=status) for status in (OPEN, HELD, RecoveryStatus.RECOVERED, RecoveryStatus.RECOVERED, GIVEN_UP)
    ]
    letters.append(a_letter(status=HELD, operator_disposition=Disposition.HOLD_INDEFINITELY))

    confirm(page, ask(page, scope="picked", letter=[str(each.pk) for each in letters]))
    assert "Held 2 of 6 letters. Left alone: 2 recovered, 1 given up, 1 so already." in said(page)
    assert OperatorAction.objects.filter(action="triage").count() == 2


@pytest.mark.parametrize(
    ("verb", "before", "after"),
    [("hold", OPEN, HELD), ("release", HELD, OPEN), ("give_up", OPEN, GIVEN_UP), ("reopen", GIVEN_UP, OPEN)],
)
def test_each_decision_does_what_it_does_to_one_letter(page, operator, verb, before, after):
    one, other = a_letter(status=before), a_letter(status=before)
    changes = {"operator_disposition": many.next_disposition(0, many.DECISIONS[verb])}
    triage.change_letter(dead_letter_id=other.pk, user=operator, changes=changes)

    confirm(page, ask(page, verb, scope="picked", letter=[str(one.pk)]))
    columns = ("recovery_status", "operator_disposition", "row_version", "next_recovery_at")
    rows = DeadLetter.objects.values_list(*columns)
    assert rows.get(pk=one.pk)[:3] == rows.get(pk=other.pk)[:3]
    assert (rows.get(pk=one.pk)[3] is None) == (rows.get(pk=other.pk)[3] is None)
    assert DeadLetter.objects.get(pk=one.pk).recovery_status == after


def test_what_somebody_decided_after_it_was_asked_is_not_decided_again(page):
    held, free = a_letter(), a_letter()
    asked = ask(page, "give_up", scope="picked", letter=[str(held.pk), str(free.pk)])
    triage.triage_many(
        user=a_user("mei", "Operators"), ids=[held.pk], order=triage.Order(verb="hold"), scope_words="one"
    )

    confirm(page, asked)

    assert "Given up 1 of 2 letters. Left alone: 1 decided by somebody since it was asked." in said(page)
    assert DeadLetter.objects.get(pk=held.pk).operator_disposition == Disposition.HOLD_INDEFINITELY
    assert DeadLetter.objects.get(pk=free.pk).recovery_status == RecoveryStatus.PERMANENTLY_FAILED

    confirm(page, ask(page, "give_up", scope="picked", letter=[str(held.pk)]))
    assert DeadLetter.objects.get(pk=held.pk).recovery_status == RecoveryStatus.PERMANENTLY_FAILED


def test_an_owner_is_assigned_and_a_note_written_on_each(page):
    one, two = a_letter(owner="olga"), a_letter()
    picked = {"scope": "picked", "letter": [str(one.pk), str(two.pk)]}

    confirm(page, ask(page, "assign", **picked), value=" olga ")
    assert "Assigned 1 of 2 letters. Left alone: 1 so already." in said(page)
    confirm(page, ask(page, "note", **picked), value="called the bank")
    assert {note.dead_letter_id: note.text for note in Note.objects.all()} == dict.fromkeys(
        (one.pk, two.pk), "called the bank"
    )
    assert DeadLetter.objects.get(pk=two.pk).owner == "olga"
    assert OperatorAction.objects.filter(action="note").count() == 2


def test_a_bad_owner_or_note_is_422_with_what_was_typed_and_nothing_done(page):
    letter = a_letter()
    picked = {"scope": "picked", "letter": [str(letter.pk)]}

    long = confirm(page, ask(page, "assign", **picked), value="x" * 151)
    empty = confirm(page, ask(page, "note", **picked), value=" ")
    assert (long.status_code, empty.status_code) == (422, 422)
    assert "x" * 151 in long.content.decode()
    assert "A note needs some text." in empty.content.decode()
    assert ask(page, "burn", **picked).status_code == 422
    assert not OperatorAction.objects.exists()


def test_letters_are_triaged_in_batches_and_the_gone_are_counted(operator, monkeypatch):
    monkeypatch.setattr(many, "BATCH_ROWS", 2)
    made = [a_letter().pk for _ in range(5)]
    survivor = a_letter()
    superseded = a_letter(source_id=survivor.source_id, superseded_by=survivor.pk)

    done = triage.triage_many(
        user=operator, ids=[*made, superseded.pk], order=triage.Order(verb="hold"), scope_words="six"
    )
    assert (done.n, dict(done.left)) == (5, {"gone": 1})
    assert OperatorAction.objects.filter(action="triage_many").count() == 1


def test_it_takes_few_statements_for_many_letters(operator, django_assert_max_num_queries):
    made = [a_letter().pk for _ in range(40)]

    with django_assert_max_num_queries(14):
        triage.triage_many(user=operator, ids=made, order=triage.Order(verb="hold"), scope_words="forty")


def test_the_list_offers_it_by_right_and_without_script(page, signed_in, viewer):
    a_letter()

    content = page.get("/letters/", {"status": "open"}).content.decode()
    for part in ('name="scope" value="picked" checked', 'value="matching"', 'name="filter" value="status=open"'):
        assert part in content
    assert 'value="everything"' in page.get("/letters/").content.decode()
    assert 'id="pick"' not in signed_in(viewer).get("/letters/").content.decode()


def test_what_is_asked_for_has_an_address_to_come_back_to(page):
    letter = a_letter()

    answer = page.post(
        "/letters/many", {"verb": "hold", "scope": "picked", "letter": [str(letter.pk)], "reason": "why"}
    )
    assert answer.status_code == 302
    for _ in range(2):
        again = page.get(answer.headers["Location"])
        assert (again.status_code, again.context["n"], again.context["order"].reason) == (200, 1, "why")
    assert statuses() == [OPEN]
    page.post("/letters/many/do", {"verb": "hold", "scope": "picked", "letter": [str(letter.pk)], "count": "1"})
    assert page.get(answer.headers["Location"]).context["able"] == 0


def test_only_the_newest_of_what_was_asked_for_are_kept_and_that_is_said(page):
    letter = a_letter()
    form = {"verb": "hold", "scope": "picked", "letter": [str(letter.pk)]}
    first, *others = [page.post("/letters/many", form).headers["Location"] for _ in range(keptforms.MAX_KEPT + 1)]

    gone = page.get(first)
    assert gone.status_code == 404
    assert "Pick the letters again." in gone.content.decode()
    assert {page.get(other).status_code for other in others} == {200}
    assert page.get("/letters/many").headers["Location"] == "/letters/"


def test_more_than_is_kept_is_refused(page):
    answer = page.post("/letters/many", {"verb": "note", "scope": "everything", "value": "x" * 100_001})

    assert answer.status_code == 422


def test_what_was_picked_is_still_asked_after_the_session_ended(page, signed_in, operator):
    letter = a_letter()
    here = ask(page, scope="picked", letter=[str(letter.pk)], reason="a <lost> cause").redirect_chain[-1][0]
    Session.objects.all().delete()
    assert page.get(here).status_code == 302

    asked = signed_in(operator).get(here)
    assert asked.context["n"] == 1
    assert asked.context["order"].reason == "a <lost> cause"
    assert confirm(signed_in(operator), asked).status_code == 302
    again = confirm(signed_in(operator), asked)
    assert again.status_code == 302
    assert OperatorAction.objects.filter(action="triage").count() == 1


def test_what_another_person_picked_is_refused(page, signed_in):
    here = ask(page, scope="picked", letter=[str(a_letter().pk)]).redirect_chain[-1][0]

    refused = signed_in(a_user("vera", "Operators")).get(here)
    assert refused.status_code == 403
    assert "Somebody else was asked this" in refused.content.decode()
    assert "Hold 1 letter" not in refused.content.decode()


def test_what_was_picked_long_ago_is_said_to_be_kept_no_more(page):
    here = ask(page, scope="picked", letter=[str(a_letter().pk)]).redirect_chain[-1][0]
    KeptForm.objects.update(kept_at=timezone.now() - timedelta(hours=25))

    for old in (here, "/letters/many?asked=%00", "/letters/many?asked="):
        refused = page.get(old)
        assert refused.status_code == 404
        assert "is not kept any more" in refused.content.decode()
        assert "Pick the letters again." in refused.content.decode()
