"""A form that is sent without a session: nothing is done, that is said, and what was typed comes back."""

import re
from html import unescape
from html.parser import HTMLParser

import pytest
from django.contrib.sessions.models import Session
from django.urls import reverse

from deadletters.models import Note, OperatorAction
from deadletters.views import unsent
from tests.access_table import TABLE
from tests.addresses import address
from tests.factories import PASSWORD, a_letter, a_user
from tests.web.conftest import HTMX

pytestmark = pytest.mark.django_db

TYPED = "half a <b>thought</b>"
NOTHING_DONE = "Nothing was done: you were signed out when the form was sent."
FREE = {"text", "search", "number", "datetime-local", "email", "url", "tel"}


def sign_in(browser, response, name="olga"):
    """Sign in where an answer leads to, and return the page after that."""
    target = response.headers.get("HX-Redirect") or response.headers["Location"]
    form = browser.get(target)
    after = unescape(re.search(r'name="next" value="([^"]*)"', form.content.decode())[1])
    return browser.post(
        reverse("login"), {"username": name, "password": PASSWORD, "next": after}, follow=True
    ).content.decode()


@pytest.mark.parametrize("headers", [{}, HTMX], ids=["plain", "htmx"])
def test_what_was_typed_is_on_the_page_after_the_sign_in_once_and_nothing_was_done(page, headers):
    letter = a_letter()
    here = reverse("deadletters:letter", args=[letter.pk])
    where = {"HX-Current-URL": f"http://testserver{here}"} if headers else {"Referer": f"http://testserver{here}"}
    page.get(here)
    Session.objects.all().delete()

    response = page.post(f"{here}notes", {"text": TYPED, "row_version": "1"}, headers={**headers, **where})
    assert "/accounts/login/" in (response.headers.get("HX-Redirect") or response.headers["Location"])
    content = sign_in(page, response)

    assert NOTHING_DONE in content
    assert f'data-unsent="{here}notes"' in content
    assert 'data-unsent-field="text">half a &lt;b&gt;thought&lt;/b&gt;</textarea>' in content
    assert "row_version</span>" not in content
    assert not Note.objects.exists()
    assert NOTHING_DONE not in page.get(here).content.decode()


def test_a_button_without_text_says_so_too(page):
    letter = a_letter()
    Session.objects.all().delete()

    response = page.post(reverse("deadletters:recover", args=[letter.pk]))

    assert NOTHING_DONE in sign_in(page, response)


def test_what_is_too_long_to_be_kept_is_said_to_be_undone(page, settings, monkeypatch):
    monkeypatch.setattr(unsent, "MAX_CHARACTERS", 5)
    page.get("/letters/")
    Session.objects.all().delete()

    content = sign_in(page, page.post(address("add_note"), {"text": TYPED}))
    assert NOTHING_DONE in content
    assert "data-unsent-field" not in content


def test_who_signs_in_on_the_same_browser_sees_nothing_of_what_another_typed(page):
    here = address("letter")
    page.get(here)
    Session.objects.all().delete()
    response = page.post(address("add_note"), {"text": TYPED}, headers={"Referer": f"http://testserver{here}"})
    a_user("lea", "Leads")

    content = sign_in(page, response, "lea")
    assert "half a" not in content
    assert NOTHING_DONE not in content


def test_what_a_browser_sends_that_nobody_signed_in_on_is_not_kept(client):
    a_user("olga", "Operators")

    content = sign_in(client, client.post(address("add_note"), {"text": TYPED}))
    assert NOTHING_DONE in content
    assert "half a" not in content


@pytest.mark.parametrize(
    ("here", "verb", "said"),
    [("/letters/many", {"verb": "hold"}, "Hold 2 letters…"), ("/runs/prepare", {}, "Recover 2 letters…")],
)
def test_what_was_picked_is_sent_again_by_a_button_that_says_how_many(page, here, verb, said):
    picked = [str(a_letter().pk), str(a_letter().pk)]
    page.get("/letters/")
    Session.objects.all().delete()

    form = {"scope": "picked", "letter": picked, "filter": "", **verb, "csrfmiddlewaretoken": "old"}
    content = sign_in(page, page.post(here, form, headers={"Referer": "http://testserver/letters/"}))
    button = re.search(rf'<form class="go-on" method="post" action="{here}">(.*?)</form>', content)[1]
    again = re.findall(r'name="(\w+)" value="([^"]*)"', button)
    assert f"<button>{said}</button>" in button
    assert sorted(value for name, value in again if name == "letter") == sorted(picked)
    assert "old" not in dict(again).values()

    sent = {"letter": picked, **{name: value for name, value in again if name != "letter"}}
    assert page.post(here, sent, follow=True).status_code == 200
    assert not OperatorAction.objects.filter(action="triage").exists()


def test_nobody_sees_it_without_signing_in(client):
    a_user("olga", "Operators")
    client.post(address("add_note"), {"text": TYPED})

    assert TYPED not in unescape(client.get(reverse("login")).content.decode())


class Fields(HTMLParser):
    """The names of what is typed into the forms of a page that act."""

    def __init__(self, html):
        super().__init__()
        self.names, self.acts = set(), False
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag == "form":
            self.acts = given.get("method") == "post"
        is_free = tag == "textarea" or (tag == "input" and given.get("type", "text") in FREE)
        if self.acts and is_free and "readonly" not in given:
            self.names.add(given["name"])

    def handle_endtag(self, tag):
        if tag == "form":
            self.acts = False


def test_every_field_into_which_people_type_is_kept(signed_in):
    browser = signed_in(a_user("rita", is_superuser=True))
    pages = [name for name, entry in TABLE.items() if entry.kind == "page" and "get" in entry.methods]

    found = {name: Fields(browser.get(address(name), follow=True).content.decode()).names for name in pages}

    assert {"text", "reason", "owner", "canary", "ticket"} <= set().union(*found.values())
    assert {name: names - set(unsent.LABELS) for name, names in found.items() if names - set(unsent.LABELS)} == {}
