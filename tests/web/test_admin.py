"""The admin: each table is there, its pages show no secret and survive any row, and each role sees what it may."""

import pytest
from django.apps import apps
from django.contrib import admin
from django.db.models import CompositePrimaryKey
from django.urls import reverse

from deadletters.models import DeadLetter, FailureGroup, KeptForm, LegalHold, RecoveryPolicy
from queues.models import SourcePause
from tests.factories import a_letter, a_user
from tests.web.admin_rows import FINGERPRINT, SECRET, one_of_each

pytestmark = pytest.mark.django_db

MODELS = [model for label in ("deadletters", "queues") for model in apps.get_app_config(label).get_models()]
OWN = (KeptForm,)
"""What a person typed and has not sent: nobody else sees it."""
TABLES = [model for model in MODELS if not isinstance(model._meta.pk, CompositePrimaryKey) and model not in OWN]
SET_UP = (RecoveryPolicy, SourcePause, LegalHold)
TRIAGED = (DeadLetter, FailureGroup)
READ = [model for model in TABLES if model not in (*SET_UP, *TRIAGED)]
ROLES = ("Viewers", "Operators", "Leads")


def address(model, page, *key):
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}", args=key)


@pytest.fixture
def rows():
    return one_of_each()


@pytest.fixture
def browsers(signed_in):
    """A browser of somebody on the staff in each group, and of somebody in none."""
    return {group: signed_in(a_user(f"a {group}", group, is_staff=True)) for group in (*ROLES, None)}


def test_each_table_is_in_the_admin_but_those_with_a_key_of_several_columns_and_what_is_a_persons_own():
    assert [model for model in TABLES if not admin.site.is_registered(model)] == []
    assert [model for model in MODELS if model not in TABLES and admin.site.is_registered(model)] == []


@pytest.mark.parametrize("group", ROLES)
def test_each_role_opens_each_list_and_page(browsers, rows, group):
    for model in TABLES:
        for page in ("changelist", "change", "history"):
            there = address(model, page, *([] if page == "changelist" else [rows[model]]))
            response = browsers[group].get(there)
            content = response.content.decode()
            assert response.status_code == 200, there
            assert SECRET not in content, there
            assert "<script>alert(1)" not in content, there


def test_staff_in_no_group_sees_nothing(browsers, rows):
    for model in TABLES:
        for there in (address(model, "changelist"), address(model, "change", rows[model]), address(model, "add")):
            assert browsers[None].get(there).status_code == 403, there
    assert b"deadletters" not in browsers[None].get(reverse("admin:index")).content


@pytest.mark.parametrize("group", ROLES)
def test_who_may_write_what(browsers, rows, group):
    browser = browsers[group]

    def may(page, *key, **data):
        got = browser.post(address(model, page, *key), data)
        return got.status_code != 403

    for model in TABLES:
        sets_up, triages = group == "Leads" and model in SET_UP, group != "Viewers" and model in TRIAGED
        assert may("add") is sets_up, model
        assert may("change", rows[model]) is (sets_up or triages), model
        assert may("delete", rows[model], post="yes") is sets_up, model
        assert model._base_manager.filter(pk=rows[model]).exists() is not sets_up, model


def test_not_even_a_superuser_writes_what_was_recorded(admin_client, rows):
    for model in READ:
        assert admin_client.post(address(model, "change", rows[model]), {}).status_code == 403, model
    for model in (*READ, *TRIAGED):
        assert admin_client.post(address(model, "delete", rows[model]), {"post": "yes"}).status_code == 403, model
        assert admin_client.get(address(model, "add")).status_code == 403, model
        assert model._base_manager.filter(pk=rows[model]).exists()


def test_a_letter_shows_what_belongs_to_it(browsers, rows):
    content = browsers["Operators"].get(address(DeadLetter, "change", rows[DeadLetter])).content.decode()

    assert "&lt;b&gt;42&lt;/b&gt;" in content
    assert "payload versions" in content.lower()
    assert "budget spent" in content
    assert reverse("deadletters:letter", args=[rows[DeadLetter]]) in content


def test_a_group_shows_its_fingerprints_aliases_and_exact_counts(browsers, rows):
    content = browsers["Operators"].get(address(FailureGroup, "change", rows[FailureGroup])).content.decode()

    assert FINGERPRINT in content
    assert "<td>Inbox</td><td>Open</td><td>1</td>" in content


def test_an_event_and_a_message_show_cursor_and_stream(browsers, rows):
    from queues.models import InboxMessage, PerspectiveEvent, StoredEvent

    for model, shown in ((StoredEvent, "totals"), (PerspectiveEvent, "totals"), (InboxMessage, "leased by")):
        assert shown in browsers["Operators"].get(address(model, "change", rows[model])).content.decode()


def test_a_letter_that_another_took_the_place_of_is_found_by_its_id_alone(browsers):
    survivor = a_letter()
    gone = a_letter(superseded_by=survivor.pk)
    letters = address(DeadLetter, "changelist")

    assert str(gone.pk) not in browsers["Viewers"].get(letters).content.decode().replace(str(survivor.pk), "")
    assert str(gone.pk) in browsers["Viewers"].get(letters, {"q": str(gone.pk)}).content.decode()
