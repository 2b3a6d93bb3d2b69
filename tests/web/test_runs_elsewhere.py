"""Recovery runs on the pages of others: the list, a letter, a group and the admin lead to them and offer new ones."""

import pytest
from django.urls import reverse

from deadletters import counting
from deadletters.models import FailureGroup, ItemState, RecoveryItem, RecoveryRun, RunState
from tests.addresses import address
from tests.factories import a_letter, a_run
from tests.web.conftest import text_of

pytestmark = pytest.mark.django_db


def test_a_letter_says_in_which_runs_it_was_and_with_what_verdict(page):
    letter = a_letter()
    run = a_run([letter], states=[ItemState.FAILED_AGAIN], scope_words="the night's letters", state=RunState.FINISHED)

    content = text_of(page.get(reverse("deadletters:letter", args=[letter.pk])))
    assert address("run", run) in content
    assert "the night&#x27;s letters" in content
    assert "Failed again" in content
    assert "It was in none." in text_of(page.get(reverse("deadletters:letter", args=[a_letter().pk])))


def test_a_group_shows_its_runs_and_what_worked_last_time(page):
    letter = a_letter(error="CardDeclined: no funds")
    counting.fold()
    group = FailureGroup.objects.get()
    worked = a_run([letter], states=[ItemState.RECOVERED], group_id=group.pk, state=RunState.FINISHED, reason="bank up")
    a_run([letter], states=[ItemState.FAILED_AGAIN], group_id=group.pk, state=RunState.STOPPED)

    content = text_of(page.get(reverse("deadletters:group", args=[group.pk])))
    told = content.partition("What worked last time")[2]
    assert "<b>50 %</b> of 2 letters handled" in told.partition("</ul>")[0]
    assert f'href="{address("run", worked)}"' in told
    assert "bank up" in content
    assert "Recover the group: 1…" in content
    assert f'name="filter" value="group={group.pk}"' in content
    FailureGroup.objects.update(state="fixed", fixed_in_generation="build-9")
    content = text_of(page.get(reverse("deadletters:group", args=[group.pk])))
    assert "Recover what build build-9 should fix: 1…" in content


def test_lists_offer_a_run_of_what_matches_and_of_what_is_picked(page, signed_in, viewer):
    letter = a_letter(subjects=[("order", "42")])

    for where, wanted in (
        ("/letters/?type=shop.PlaceOrder", "type=shop.PlaceOrder"),
        ("/subject/?type=order&id=42", "subject=order%3A42"),
    ):
        content = text_of(page.get(where))
        assert f'name="filter" value="{wanted}"' in content
        assert f'name="letter" value="{letter.pk}" form="pick"' in content
        assert 'name="everything"' not in content
        offered = text_of(signed_in(viewer).get(where))
        assert "prepare" not in offered
        assert 'name="letter"' not in offered
    assert "Recover everything: 1…" in text_of(page.get("/letters/"))


def test_the_admin_leads_to_the_page_of_a_run(signed_in, viewer):
    viewer.is_staff = True
    viewer.save()
    run = a_run([a_letter()])

    content = text_of(signed_in(viewer).get(reverse("admin:deadletters_recoveryrun_change", args=[run.pk])))
    assert f'href="{address("run", run)}"' in content


def test_what_worked_counts_the_letters_of_the_group_in_runs_that_were_not_of_it(page):
    mine = [a_letter(error="CardDeclined: no funds") for _ in range(3)]
    other = a_letter(error="shop.Torn: gone")
    counting.fold()
    group = FailureGroup.objects.get(title="CardDeclined")
    ids = [str(letter.pk) for letter in (*mine, other)]

    picked = page.post(reverse("deadletters:prepare_run"), {"scope": "picked", "letter": ids}).headers["Location"]
    items = RecoveryItem.objects.filter(dead_letter_id__in=ids)
    items.update(state=ItemState.RECOVERED)
    items.filter(dead_letter_id=mine[0].pk).update(state=ItemState.FAILED_AGAIN)
    items.filter(dead_letter_id=other.pk).update(state=ItemState.FAILED_DIFFERENTLY)

    content = text_of(page.get(reverse("deadletters:group", args=[group.pk])))
    told = content.partition("What worked last time")[2]
    assert "<b>66 %</b> of 3 letters handled" in told.partition("</ul>")[0]
    assert f'href="{picked}"' in told
    assert "failed differently" not in told.partition("</table>")[0]


def test_a_run_of_one_group_is_known_by_it_and_any_other_by_the_faults_of_its_letters(page):
    letters = [a_letter(error="CardDeclined: no funds"), a_letter(error="CardDeclined: no funds"), a_letter()]
    counting.fold()
    group = FailureGroup.objects.get(title="CardDeclined")
    fingerprints = [letters[0].error_fingerprint, letters[2].error_fingerprint]

    page.post(reverse("deadletters:prepare_run"), {"scope": "everything", "filter": ""})
    page.post(reverse("deadletters:prepare_run"), {"scope": "matching", "filter": f"group={group.pk}"})
    runs = RecoveryRun.objects.order_by("created_at")
    assert [list(run.fingerprints) for run in runs] == [fingerprints, []]


def test_runs_over_picked_letters_cost_a_group_no_statement_each(page, django_assert_max_num_queries):
    letters = [a_letter(error="CardDeclined: no funds") for _ in range(5)]
    counting.fold()
    for letter in letters:
        page.post(reverse("deadletters:prepare_run"), {"scope": "picked", "letter": [str(letter.pk)]})

    here = reverse("deadletters:group", args=[FailureGroup.objects.get().pk])
    with django_assert_max_num_queries(12):
        content = text_of(page.get(here))
    assert content.count("1 picked letter</a>") == 5
