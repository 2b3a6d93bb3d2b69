"""Every URL by every role and method, with htmx and without, as one table and the rights of the groups have it."""

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from deadletters.models import OperatorAction
from deadletters.words import access
from tests.access_table import OPEN, TABLE, Entry
from tests.addresses import SECRET, address, names
from tests.factories import a_letter, a_user
from tests.web.changes import everything
from tests.web.conftest import HTMX

pytestmark = pytest.mark.django_db

METHODS = ("get", "head", "post", "put", "patch", "delete", "options")
ROLES = {"stranger": None, "viewer": "Viewers", "operator": "Operators", "lead": "Leads", "administrator": None}
PAGE = (b"<!doctype", b"<html")
REFUSED, NO_METHOD = 403, 405
REQUESTS = [
    *((method, headers) for method in METHODS for headers in ({}, HTMX)),
    ("get", {"X-HTTP-Method-Override": "POST"}),
]
FIELDS = "text={}&decision=hold&status=0&reason=x&row_version=1"
"""What a form would send; in the address, where no action looks for it."""


def may(role: str, name: str) -> bool:
    """Say whether a role has one of the permissions that a URL needs."""
    if role == "administrator":
        return True
    has = access.GROUPS.get(ROLES[role] or "", ())
    return any(permission in has for permission in TABLE[name].permissions)


def browser_of(role: str) -> Client:
    client = Client()
    if role != "anonymous":
        client.force_login(a_user(role, ROLES[role], is_superuser=role == "administrator"))
    return client


def is_page(content: bytes) -> bool:
    return content.lstrip()[:20].lower().startswith(PAGE)


def is_for_this_request_only(response: HttpResponse, entry: Entry) -> bool:
    """Say whether no cache keeps it, and none gives a fragment to who asks for the page."""
    varies = "HX-Request" in response.headers.get("Vary", "") or entry.kind == "file" or response.status_code != 200
    return varies and "no-store" in response.headers.get("Cache-Control", "")


def test_every_url_has_an_entry_and_every_entry_a_url():
    assert set(names()) == set(TABLE) | OPEN


@pytest.mark.parametrize("name", TABLE)
def test_without_a_session_everything_leads_to_the_sign_in_and_nothing_else(name):
    here, browser = address(name), browser_of("anonymous")
    before = everything()

    for method in METHODS:
        plain = getattr(browser, method)(here)
        assert plain.status_code == 302
        assert plain.headers["Location"].startswith(f"{reverse('login')}?next=")
        fragment = getattr(browser, method)(here, headers=HTMX)
        assert (fragment.status_code, fragment.content) == (200, b"")
        assert fragment.headers["HX-Redirect"].startswith(f"{reverse('login')}?next=")
    assert everything() == before


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("name", TABLE)
def test_a_role_reaches_what_it_has_the_right_for_and_changes_nothing_else(role, name):
    here, browser = address(name), browser_of(role)
    entry, before, written = TABLE[name], everything(), OperatorAction.objects.count()

    for method, headers in REQUESTS:
        if may(role, name) and method == "post" and "post" in entry.methods:
            continue  # what it does has tests of its own
        response = getattr(browser, method)(here, headers=headers)
        content = b"".join(response) if response.streaming else response.content
        if not may(role, name):
            assert response.status_code == REFUSED
            assert SECRET.encode() not in content
        elif method not in entry.methods:
            assert response.status_code == NO_METHOD
        else:
            assert response.status_code in (200, 302)
            assert is_for_this_request_only(response, entry)
        if headers == HTMX and (entry.kind != "page" or response.status_code >= 400):
            assert not is_page(content)
    assert everything() == before
    is_download = may(role, name) and entry.kind == "file"
    assert (OperatorAction.objects.count() > written) == is_download, "only a download is written down"


@pytest.mark.parametrize("name", [name for name, entry in TABLE.items() if "post" in entry.methods])
def test_what_a_form_would_send_changes_nothing_from_an_address(name):
    here, browser = address(name), browser_of("administrator")
    before = everything()

    for headers in (HTMX, {}):
        response = browser.get(f"{here}?{FIELDS}", headers=headers)
        assert response.status_code in (200, 302, 400, NO_METHOD)
    assert everything() == before


@pytest.mark.parametrize("name", [name for name, entry in TABLE.items() if "post" in entry.methods])
def test_an_empty_post_by_an_administrator_is_answered_and_never_a_page_for_htmx(name):
    here, browser = address(name), browser_of("administrator")

    for headers in (HTMX, {}):
        response = browser.post(here, headers=headers)
        assert response.status_code in (200, 302, 400, 404, 409, 422)
        if headers and TABLE[name].kind == "action":
            assert not is_page(response.content)


@pytest.mark.parametrize("name", [name for name, entry in TABLE.items() if "post" in entry.methods])
def test_nobody_acts_with_a_form_of_another_site(name):
    here = address(name)
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(a_user("root", is_superuser=True))
    before = everything()

    for headers in ({}, HTMX, {"Origin": "https://evil.example"}):
        response = browser.post(here, {"text": "x"}, headers=headers)
        assert response.status_code == REFUSED
        assert is_page(response.content) == (headers != HTMX)
        assert b"out of date" in response.content
    assert everything() == before


@pytest.mark.parametrize("name", [name for name, entry in TABLE.items() if entry.kind == "fragment"])
def test_who_asks_for_a_fragment_with_a_browser_gets_a_page(name):
    a_letter()
    browser = browser_of("viewer")
    here = address(name)

    fragment = browser.get(here, headers=HTMX)
    assert not is_page(fragment.content)
    restored = browser.get(here, headers={**HTMX, "HX-History-Restore-Request": "true"}, follow=True)
    assert is_page(restored.content)
    assert is_page(browser.get(here, follow=True).content)
