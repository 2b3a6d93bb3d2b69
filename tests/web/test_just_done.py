"""What was done just now stays in sight: on a filtered list the rows keep their places for one look."""

import re
from datetime import timedelta
from html import unescape

import pytest

from deadletters.models import DeadLetter, RecoveryStatus
from tests.factories import NOON, a_letter
from tests.web.test_group_rows import a_group
from tests.web.test_many import ask, confirm

pytestmark = pytest.mark.django_db

OPEN = "/letters/?status=open"


def shown(response):
    """Return (id, what its row says) of the rows of a list."""
    stay = response.context["stay"]
    return [(row.letter.pk, row.letter.pk in stay.ids) for row in response.context["page"].rows]


def test_rows_that_no_longer_match_stay_in_their_places_with_their_new_state_for_one_look(page):
    letters = [a_letter(dead_lettered_at=NOON - timedelta(minutes=n)) for n in range(4)]
    picked = [letters[1].pk, letters[3].pk]

    done = confirm(page, ask(page, scope="picked", letter=[str(pk) for pk in picked], filter="status=open"))
    after = page.get(done.headers["Location"])
    content = after.content.decode()
    assert shown(after) == [(letter.pk, letter.pk in picked) for letter in letters]
    assert content.count("Held by you just now.") == content.count('class="chip state-held"') == 2
    assert "2 rows do not match any more." in content
    assert after.context["counted"].value.n == 2

    assert [pk for pk, _ in shown(page.get(OPEN))] == [letters[0].pk, letters[2].pk]


def test_all_that_match_are_gone_from_the_filter_and_still_on_the_page(page):
    letters = [a_letter(dead_lettered_at=NOON - timedelta(minutes=n)) for n in range(3)]

    done = confirm(page, ask(page, "give_up", scope="matching", filter="status=open"))
    after = page.get(done.headers["Location"])
    assert [pk for pk, _ in shown(after)] == [letter.pk for letter in letters]
    assert after.content.decode().count("Given up by you just now.") == 3
    assert "Given up 3 of 3 letters." in after.content.decode()


def test_a_later_page_of_the_list_is_the_same_page_after_it(page):
    letters = [a_letter(dead_lettered_at=NOON - timedelta(minutes=n)) for n in range(60)]
    first = page.get(f"{OPEN}&size=25")
    place = str(first.context["page"].next)
    second = page.get(f"{OPEN}&size=25&after={place}")
    before = [pk for pk, _ in shown(second)]
    held_out = f'name="filter" value="status=open&amp;size=25&amp;after={place}"'
    assert held_out in second.content.decode()

    filters = f"status=open&size=25&after={place}"
    done = confirm(page, ask(page, scope="picked", letter=[str(pk) for pk in before], filter=filters))
    assert [pk for pk, _ in shown(page.get(done.headers["Location"]))] == before
    assert before == [letter.pk for letter in letters[25:50]]


def test_what_is_kept_is_of_one_page_of_the_list_only(page):
    letter = a_letter()

    confirm(page, ask(page, scope="picked", letter=[str(letter.pk)], filter="status=open"))
    assert shown(page.get(f"{OPEN}&type=shop.PlaceOrder")) == []
    assert shown(page.get(OPEN)) == []


def test_without_script_a_row_stays_and_says_what_was_done_in_it(page):
    letter = a_letter()
    seen = {"death": "1", "version": "1", "status": "0"}

    here = {"Referer": f"http://testserver{OPEN}"}
    page.post(f"/letters/{letter.pk}/act", {"verb": "hold", **seen}, headers=here)
    content = page.get(OPEN).content.decode()
    assert f'id="row-{letter.pk}"' in content
    assert '<span class="row-said">Held by you just now.</span>' in content
    assert DeadLetter.objects.get().recovery_status == RecoveryStatus.HELD
    assert f'id="row-{letter.pk}"' not in page.get(OPEN).content.decode()


def test_without_script_a_group_that_leaves_the_list_is_linked_in_what_is_said(page):
    group = a_group()

    sent = {"action": "resolve", "row_version": str(group.row_version)}
    page.post(f"/groups/{group.pk}/act", sent, headers={"Referer": "http://testserver/groups/?state=new"})
    content = page.get("/groups/?state=new").content.decode()
    assert "No group matches." in content
    assert f'<a href="/groups/{group.pk}/">' in content


def test_of_more_letters_than_a_page_shows_each_is_found_in_the_audit(page):
    for n in range(30):
        a_letter(dead_lettered_at=NOON - timedelta(minutes=n))

    done = confirm(page, ask(page, scope="matching", filter="status=open&size=25"))
    content = page.get(done.headers["Location"]).content.decode()
    assert content.count("Held by you just now.") == 25
    link = unescape(re.search(r'<a href="([^"]+)">Each of them, in the audit</a>', content)[1])
    audited = page.get(link).context["page"]
    assert audited.total == 30
    assert {row.action.dead_letter_id for row in audited.rows} == set(DeadLetter.objects.values_list("pk", flat=True))

    few = confirm(page, ask(page, "release", scope="picked", letter=[str(DeadLetter.objects.first().pk)]))
    assert "Each of them" not in page.get(few.headers["Location"]).content.decode()


def test_notes_on_more_letters_than_a_page_shows_are_found_in_the_audit(page):
    for _ in range(26):
        a_letter()

    done = confirm(page, ask(page, "note", scope="matching", filter="status=open&size=25"), value="called the bank")
    content = page.get(done.headers["Location"]).content.decode()
    link = unescape(re.search(r'<a href="([^"]+)">Each of them, in the audit</a>', content)[1])
    assert page.get(link).context["page"].total == 26
