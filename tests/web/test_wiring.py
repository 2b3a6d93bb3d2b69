"""Health, groups, checks, and a host project that brings little."""

import pytest
from django.apps import apps
from django.contrib.auth.models import Group
from django.db import OperationalError
from django.test import Client, override_settings

from deadletters import health
from deadletters.checks import check_middleware
from deadletters.defaults import make_groups
from deadletters.words.access import GROUPS
from tests.factories import a_letter

pytestmark = pytest.mark.django_db

SET_UP_VERBS = ("add", "change", "delete")


def test_health_is_open_and_says_nothing_but_health(client):
    a_letter()

    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/readyz").json() == {"status": "ok"}
    assert client.post("/readyz").status_code == 405


def test_not_ready_names_what_is_missing(client, monkeypatch):
    def unreachable(*_):
        raise OperationalError("could not connect to secret-host")

    monkeypatch.setattr(health.MigrationExecutor, "migration_plan", lambda *_: ["0009"])
    response = client.get("/readyz")
    assert (response.status_code, response.json()["missing"]) == (503, ["migrations"])
    monkeypatch.setattr(health, "MigrationExecutor", unreachable)
    response = client.get("/readyz")
    assert (response.status_code, response.json()["missing"]) == (503, ["database"])
    assert b"secret-host" not in response.content


def test_groups_carry_their_permissions():
    def codes(name):
        carried = Group.objects.get(name=name).permissions.values_list("content_type__app_label", "codename")
        return {codename for app, codename in carried if (app, codename[:5]) != ("queues", "view_")}

    set_up = {f"{verb}_{model}" for verb in SET_UP_VERBS for model in ("recoverypolicy", "legalhold", "sourcepause")}
    assert codes("Viewers") == {"view_deadletter"}
    assert codes("Operators") == {"view_deadletter", "triage", "recover"}
    assert codes("Leads") == {"view_deadletter", "triage", "recover", "edit_payload", "reveal", "purge", *set_up}


def test_every_permission_of_a_group_is_one_that_django_made():
    for name, permissions in GROUPS.items():
        carried = Group.objects.get(name=name).permissions.values_list("content_type__app_label", "codename")
        assert {f"{app}.{codename}" for app, codename in carried} == set(permissions)


def test_a_second_migrate_leaves_edited_groups_as_they_are_and_makes_missing_ones():
    Group.objects.get(name="Viewers").permissions.clear()
    Group.objects.get(name="Leads").delete()

    make_groups(apps.get_app_config("deadletters"), using="default")
    assert not Group.objects.get(name="Viewers").permissions.exists()
    assert Group.objects.get(name="Leads").permissions.count() == len(GROUPS["Leads"])


def test_checks_name_missing_middleware(settings):
    assert check_middleware() == []

    settings.MIDDLEWARE = []
    assert [warning.id for warning in check_middleware()] == ["deadletters.W001", "deadletters.W002"]
    settings.MIDDLEWARE = [
        "django_htmx.middleware.HtmxMiddleware",
        "django.middleware.csp.ContentSecurityPolicyMiddleware",
    ]
    assert check_middleware() == []


HOST = {
    "ROOT_URLCONF": "tests.web.host_urls",
    "LOGIN_URL": "/elsewhere/",
    "MIDDLEWARE": [
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.messages.middleware.MessageMiddleware",
    ],
}


@override_settings(**HOST)
def test_pages_render_in_a_host_without_our_sign_in_admin_and_optional_middleware(operator):
    letter = a_letter()
    client = Client()
    assert client.get("/triage/letters/").headers["Location"] == "/elsewhere/?next=/triage/letters/"

    client.force_login(operator)
    for address in ("/triage/letters/", f"/triage/letters/{letter.pk}/", "/triage/queues/", "/triage/queues/inbox/"):
        assert client.get(address).status_code == 200
    assert client.post(f"/triage/letters/{letter.pk}/notes", {"text": "x"}).status_code == 302
    assert client.post("/triage/queues/pause", {"what": "inbox"}).status_code == 302


def test_a_list_leads_to_where_the_pages_are_though_they_were_elsewhere_before(operator):
    letter, client = a_letter(), Client()
    client.force_login(operator)
    assert f'href="/letters/{letter.pk}/' in client.get("/letters/").content.decode()

    with override_settings(**HOST):
        client.force_login(operator)
        assert f'href="/triage/letters/{letter.pk}/' in client.get("/triage/letters/").content.decode()
    assert f'href="/letters/{letter.pk}/' in client.get("/letters/").content.decode()
