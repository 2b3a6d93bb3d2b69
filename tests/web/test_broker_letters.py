"""Letters of the source `broker`, which never were in a queue: they are shown and recovered like the others."""

import threading
import uuid

import pytest
from django.urls import reverse
from kombu import Connection, Exchange, Producer

from deadletters.models import DeadLetter, RecoveryStatus
from queues.models import InboxMessage
from queues.receiving import receive

pytestmark = pytest.mark.django_db

URL = "memory://"


@pytest.fixture
def letter():
    """Return the letter of a message that is no JSON, received from a broker in this process."""
    queue = f"q-{uuid.uuid4()}"
    received(queue)  # declares it
    headers = {"ce-type": "test.Paid", "authorization": "Bearer hunter2"}
    with Connection(URL) as broker:
        Producer(broker.channel(), Exchange(queue), auto_declare=False).publish(
            b"{half a <message>",
            routing_key=queue,
            headers=headers,
            content_type="application/json",
            content_encoding="binary",
        )
    received(queue)
    return DeadLetter.objects.get()


def received(queue):
    receive(queue, url=URL, stop=threading.Event(), until_empty=True)


def test_the_page_shows_where_it_came_from_why_it_died_and_its_bytes(page, letter):
    content = page.get(reverse("deadletters:letter", args=[letter.pk])).content.decode()

    assert "Broker" in content
    assert letter.destination in content
    assert "cannot be received" in content
    assert "half a &lt;message&gt;" in content
    assert "hunter2" not in content


def test_the_list_shows_it_under_its_source(page, letter):
    content = page.get(reverse("deadletters:letters"), {"source": "broker"}).content.decode()

    assert "test.Paid" in content


def test_recover_sends_it_to_the_inbox(page, letter):
    response = page.post(reverse("deadletters:recover", args=[letter.pk]))

    assert response.status_code in (200, 302)
    letter.refresh_from_db()
    assert letter.recovery_status == RecoveryStatus.RECOVERING
    assert InboxMessage.objects.get(dead_letter_id=letter.pk).message_id == letter.source_id
