"""Hostile text is shown as characters, on every page and in every fragment."""

import json
import re

import pytest
from django.urls import reverse

from deadletters import counting
from deadletters.models import DeadLetter, FailureGroup, Note, OperatorAction, RecoveryStatus
from queues.models import DeliveryLogEntry
from tests.factories import a_letter, a_user
from tests.web.conftest import HTMX

pytestmark = pytest.mark.django_db

HOSTILE = (
    "<img src=x onerror=\"document.title='owned'\">",
    "</textarea></pre></title><script>document.title='owned'</script>",
    '"><svg onload="document.title=\'owned\'">',
    "javascript:alert(1)",
    '<b hx-get="/accounts/logout/" hx-trigger="load">x</b>',
    "{% load i18n %}{{ user.password }}",
    "\x1b]8;;http://x\x07link\u202egnp.exe",
)
LIVE = re.compile(r"<(img|svg onload|b hx|script>)|href=.?javascript:|</pre></title>")


def a_hostile_letter(text):
    letter = a_letter(
        message_type=text,
        error=f"{text}\n{text}",
        last_reported=text,
        payload=json.dumps({text: text, "list": [text]}),
        metadata=json.dumps({"headers": {text: text}, text: text}),
        subjects=[(text, text)],
        generation=text,
        destination=text,
        status=RecoveryStatus.RECOVERING,
        actor=text,
        cause=text,
    )
    DeadLetter.objects.filter(pk=letter.pk).update(failure_detail={"detail": {text: text}})
    Note.objects.create(dead_letter=letter, text=text, author=text)
    OperatorAction.objects.create(actor=text, action=text, dead_letter_id=letter.pk, reason=text)
    DeliveryLogEntry.objects.create(
        source="wh_inbox",
        message_id=letter.source_id,
        attempt=1,
        outcome="failure",
        failure_message=text,
        generation=text,
    )
    return letter


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_characters_on_pages_and_in_fragments(page, text):
    letter = a_hostile_letter(text)
    address = reverse("deadletters:letter", args=[letter.pk])
    recover, note = (reverse(f"deadletters:{name}", args=[letter.pk]) for name in ("recover", "add_note"))

    answers = [
        page.get("/letters/"),
        page.get("/letters/", headers=HTMX),
        page.get("/letters/", {"q": text[:200], "type": text, "subject": f"{text}:{text}"[:200]}),
        page.get("/letters/", {"status": text}),
        page.get("/letters/", {text: "1"}),
        page.get(address),
        page.get(f"{address}live", headers=HTMX),
        page.post(recover),
        page.post(recover, headers=HTMX),
        page.post(note, {"text": text}, headers=HTMX),
        page.post(note, {"text": text + "x" * 4_000}, headers=HTMX),
        page.get(address),
    ]
    for answer in answers:
        content = answer.content.decode()
        assert answer.status_code < 500
        assert not LIVE.search(content), LIVE.search(content)
        assert "user.password" not in content or "{{ user.password }}" in content


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_characters_on_pages_of_groups_and_subjects_and_in_their_forms(page, text):
    letter = a_hostile_letter(text)
    counting.fold()
    group = FailureGroup.objects.get().pk
    version = DeadLetter.objects.get().row_version
    typed = {"owner": text[:100], "ticket": text, "runbook": text, "reason": text, "row_version": version}

    answers = [
        page.get("/groups/"),
        page.get("/groups/", {"q": text[:200], "owner": text[:200]}),
        page.get("/groups/", {"state": text}),
        page.post(reverse("deadletters:triage_group", args=[group]), typed),
        page.get(reverse("deadletters:group", args=[group])),
        page.post(reverse("deadletters:triage_letter", args=[letter.pk]), typed, headers=HTMX),
        page.post(reverse("deadletters:decide", args=[letter.pk]), {"decision": text}, headers=HTMX),
        page.get("/subjects/", {"q": text[:200]}),
        page.get(reverse("deadletters:subject"), {"type": text, "id": text}),
        page.get(reverse("deadletters:letter", args=[letter.pk])),
    ]
    for answer in answers:
        assert answer.status_code < 500
        assert not LIVE.search(answer.content.decode()), LIVE.search(answer.content.decode())


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_in_an_export_is_never_a_page(page, text):
    letter = a_hostile_letter(text)

    answers = [
        *(page.get(f"/letters/export.{form}") for form in ("csv", "jsonl")),
        *(page.get(f"/letters/export.{form}", {"status": text}) for form in ("csv", "jsonl")),
        page.get(reverse("deadletters:export_letter", args=[letter.pk])),
    ]
    for answer in answers:
        assert answer.status_code in (200, 400)
        assert answer["Content-Type"].startswith(("text/csv", "text/plain", "application/"))
        assert answer["X-Content-Type-Options"] == "nosniff"


def test_a_hostile_user_name_is_characters(signed_in, django_user_model):
    from django.contrib.auth.models import Group

    user = django_user_model.objects.create_user("<script>alert(1)</script>")
    user.groups.add(Group.objects.get(name="Operators"))

    content = signed_in(user).get("/letters/").content.decode()
    assert "<script>alert" not in content
    assert "&lt;script&gt;alert(1)" in content


def test_hostile_letters_are_characters_in_the_admin(admin_client):
    letter = a_hostile_letter(HOSTILE[1])

    for model, key in (("deadletter", letter.pk), ("operatoraction", None), ("deadletterdeath", None)):
        addresses = [reverse(f"admin:deadletters_{model}_changelist")]
        addresses += [reverse(f"admin:deadletters_{model}_change", args=[key])] if key else []
        for address in addresses:
            response = admin_client.get(address)
            assert response.status_code == 200
            assert "<script>document" not in response.content.decode()


ADMIN_PAGE = "/admin/deadletters/deadletter/{letter}/change/"


@pytest.mark.parametrize("path", ["/letters/", "/groups/", "/letters/{letter}/", ADMIN_PAGE])
@pytest.mark.django_db
def test_a_secret_in_a_name_is_masked_wherever_the_name_is_shown(path, signed_in):
    secret = "amqp://user:hunter2@host/q"
    letter = a_letter(
        source_table="wh_outbox",
        destination=secret,
        message_type=secret,
        generation=secret,
        perspective_name=secret,
        subjects=[("order", "https://u:hunter2@h/")],
    )
    counting.fold()
    browser = signed_in(a_user("root", is_superuser=True, is_staff=True))

    content = browser.get(path.format(letter=letter.pk)).content.decode()
    shown = re.sub(r'(href|hx-get)="[^"]*"', "", content)  # an address names its subject as it is
    assert "hunter2" not in shown
