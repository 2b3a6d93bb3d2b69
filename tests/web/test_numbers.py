"""Every button names to how many: those that can go, at least so many where not all were counted."""

import pytest
from django.urls import reverse

from deadletters import counting
from deadletters.models import RecoveryRun, RecoveryStatus
from deadletters.queries import letters, previews, totals
from deadletters.views import runs
from tests.factories import a_letter, a_run
from tests.web.conftest import HTMX
from tests.web.test_group_rows import a_group
from tests.web.test_many import ask, confirm

pytestmark = pytest.mark.django_db

EACH = (*RecoveryStatus.values, RecoveryStatus.PENDING)
"""Of these, the two open ones and the held one can go."""


def text_of(response):
    return " ".join(response.content.decode().split())


def button(response, words):
    """Return the button that begins with these words, whole."""
    whole = [part.partition("</button>")[0] for part in text_of(response).split("<button")[1:]]
    found = [part for part in whole if words in part]
    assert len(found) == 1, whole
    return found[0]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("", "Recover everything: 3…"),
        ("type=shop.PlaceOrder", "Recover all that match: 3…"),
        ("q=no+such", "Recover all that match: 3…"),
        ("status=open", "Recover all that match: 2…"),
        ("status=held&reason=unknown", "Recover all that match: 1…"),
    ],
)
@pytest.mark.parametrize("size", ["25", ""])
def test_the_list_recovers_what_is_open_or_held(page, query, words, size, monkeypatch):
    for status in EACH:
        a_letter(status=status)
    if not size:  # counted, not taken from the rows of the only page
        monkeypatch.setattr("deadletters.views.letters._whole", lambda *_: None)

    assert words in button(page.get(f"/letters/?{query}&size={size}"), words.partition(":")[0])


def test_what_cannot_go_is_offered_to_nobody(page):
    a_letter(status=RecoveryStatus.PERMANENTLY_FAILED)

    offered = button(page.get("/letters/?status=given_up"), "Recover all that match: 0…")
    assert "disabled" in offered
    assert "None of them is open or held." in offered


def test_where_not_all_were_counted_it_is_at_least_so_many(page, monkeypatch):
    monkeypatch.setattr(letters, "COUNT_CAP", 2)
    monkeypatch.setattr("deadletters.templatetags.lists.COUNT_CAP", 2)
    monkeypatch.setattr("deadletters.views.letters._whole", lambda *_: None)
    for _ in range(4):
        a_letter()

    content = text_of(page.get("/letters/?type=shop.PlaceOrder"))
    assert "Recover all that match: 2+…" in content
    assert "all 2+ that match" in content
    assert "Take all 2+ that match" in content


def test_of_more_than_are_looked_at_it_is_the_most_that_can_go(page, monkeypatch):
    monkeypatch.setattr(totals, "AMONG", 1)
    monkeypatch.setattr("deadletters.views.letters._whole", lambda *_: None)
    for status in (RecoveryStatus.PENDING, RecoveryStatus.RECOVERED):
        a_letter(status=status)

    assert "Recover all that match: up to 2…" in text_of(page.get("/letters/?type=shop.PlaceOrder"))
    assert "Recover all that match: 1…" in text_of(page.get("/letters/?type=shop.PlaceOrder&status=open"))


def test_where_counting_took_too_long_the_button_says_that_it_is_not_known(page, monkeypatch):
    from deadletters.queries.regions import Region, Trouble

    slow = Region(name="letters_count", value=None, trouble=Trouble.SLOW)
    monkeypatch.setattr("deadletters.views.letters._whole", lambda *_: slow)
    a_letter()

    assert "Recover all that match, not counted…" in text_of(page.get("/letters/?status=open"))


def test_a_group_and_a_subject_recover_what_is_open_or_held(page):
    group = a_group(subjects=[("order", "42")])
    for status in EACH[1:]:
        a_letter(error=f"shop.{group.title}: gone", status=status, subjects=[("order", "42")])
    counting.fold()

    assert "Recover the group: 3…" in text_of(page.get(reverse("deadletters:group", args=[group.pk])))
    assert "Recover all about it: 3…" in text_of(page.get("/subject/?type=order&id=42"))


@pytest.mark.parametrize(
    ("verb", "said"),
    [("hold", "Hold 4 of 7 letters"), ("reopen", "Open again 1 of 7 letters"), ("note", "Write a note on 7 letters")],
)
def test_the_last_button_names_both_numbers_where_some_are_left_alone(page, verb, said):
    for status in EACH:
        a_letter(status=status)
    a_letter(status=RecoveryStatus.HELD, operator_disposition=2)

    ids = [str(pk) for pk in letters.DeadLetter.objects.values_list("pk", flat=True)]
    asked = ask(page, verb, scope="picked", letter=ids)
    assert said in button(asked, said)
    done = confirm(page, asked, value="so it is")
    assert asked.context["able"] == int(page.get(done.headers["Location"]).content.decode().count("row-said"))


def test_a_verb_that_changes_nothing_cannot_be_confirmed(page):
    letter = a_letter(status=RecoveryStatus.RECOVERED)

    asked = ask(page, "give_up", scope="picked", letter=[str(letter.pk)])
    assert "disabled" in button(asked, "0 of 1 letter")


def test_a_long_run_names_the_most_until_it_is_known_how_many_would_go(page, monkeypatch):
    monkeypatch.setattr(runs, "INLINE", 1)
    run = a_run([a_letter(), a_letter(status=RecoveryStatus.HELD, operator_disposition=2)])
    here = reverse("deadletters:run", args=[run.pk])

    assert "Recover up to 2 letters" in text_of(page.get(here))
    looked = text_of(page.get(f"{here}preview", headers=HTMX))
    assert 'id="start-line" hx-swap-oob="true"' in looked
    assert "Recover 1 of 2 letters" in looked
    monkeypatch.setattr(previews, "MAX_ITEMS", 1)
    assert "Recover up to 2 letters" in text_of(page.get(f"{here}preview"))


def test_who_may_not_recover_gets_no_button_with_the_preview(signed_in, viewer, monkeypatch):
    monkeypatch.setattr(runs, "INLINE", 1)
    run = a_run([a_letter(), a_letter()])

    seen = text_of(signed_in(viewer).get(reverse("deadletters:run_preview", args=[run.pk]), headers=HTMX))
    assert "What would be sent" in seen
    assert "start-line" not in seen
    assert RecoveryRun.objects.get().state == run.state
