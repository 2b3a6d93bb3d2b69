"""The admin reads, and only for those who may."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from queues.models import DeliveryLogEntry
from tests.factories import a_letter

pytestmark = pytest.mark.django_db

LISTS = (
    "deadletters_deadletter",
    "deadletters_deadletterdeath",
    "deadletters_operatoraction",
    "queues_deliverylogentry",
)


@pytest.mark.parametrize("name", LISTS)
def test_lists_open_and_offer_no_change(admin_client, name):
    letter = a_letter()
    DeliveryLogEntry.objects.create(source="wh_inbox", message_id=letter.source_id, attempt=1, outcome="failure")

    response = admin_client.get(reverse(f"admin:{name}_changelist"))
    assert response.status_code == 200
    assert admin_client.get(reverse(f"admin:{name}_add")).status_code == 403


def test_the_list_reads_no_body_and_a_letter_cannot_be_saved_or_deleted(admin_client):
    letter = a_letter(error="token=s3cret")

    with CaptureQueriesContext(connection) as queries:
        admin_client.get(reverse("admin:deadletters_deadletter_changelist"))
    assert not any('"envelope"' in query["sql"] for query in queries)
    change = reverse("admin:deadletters_deadletter_change", args=[letter.pk])
    content = admin_client.get(change).content.decode()
    assert "s3cret" not in content
    assert reverse("deadletters:letter", args=[letter.pk]) in content
    assert admin_client.post(change, {"message_type": "x"}).status_code == 403
    assert admin_client.post(reverse("admin:deadletters_deadletter_delete", args=[letter.pk])).status_code == 403


def test_staff_without_the_right_sees_no_letters(signed_in, stranger):
    stranger.is_staff = True
    stranger.save()

    response = signed_in(stranger).get(reverse("admin:deadletters_deadletter_changelist"))
    assert response.status_code == 403
