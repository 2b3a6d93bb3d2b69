"""Every URL by every role and method, with htmx and without, as one table and the rights of the groups have it."""

import pytest
from django.test import Client
from django.urls import reverse

from deadletters.models import DeadLetter, FailureGroup, Note, OperatorAction, RecoveryItem, RecoveryRun
from deadletters.words import access
from queues.models import InboxMessage, SourcePause
from tests.access_table import OPEN, TABLE
from tests.addresses import SECRET, address, names
from tests.factories import a_letter, a_user
from tests.web.conftest import HTMX

pytestmark = pytest.mark.django_db

METHODS = ("get", "head", "post", "put", "patch", "delete", "options")
ROLES = {"stranger": None, "viewer": "Viewers", "operator": "Operators", "lead": "Leads", "administrator": None}
PAGE = (b"<!doctype", b"<html")
REFUSED, NO_METHOD = 403, 405


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


def everything() -> list[object]:
    """Return what an action could change."""
    return [
        sorted(DeadLetter.objects.values_list("pk", "recovery_status", "row_version")),
        sorted(FailureGroup.objects.values_list("pk", "row_version")),
        sorted(RecoveryRun.objects.values_list("pk", "state", "row_version")),
        *(model.objects.count() for model in (Note, OperatorAction, RecoveryItem, InboxMessage, SourcePause)),
    ]


def is_page(content: bytes) -> bool:
    return content.lstrip()[:20].lower().startswith(PAGE)


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
    entry, before = TABLE[name], everything()

    for method in METHODS:
        for headers in ({}, HTMX):
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
            if headers and (entry.kind != "page" or response.status_code >= 400):
                assert not is_page(content)
    if not may(role, name) or entry.kind != "file":  # a download is written down
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
