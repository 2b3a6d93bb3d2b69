"""Sending in a web request that is one transaction: a drainer is woken by the commit, never before it."""

import pytest
from django.db import connection, connections, transaction
from django.http import HttpResponse
from django.test import Client
from django.urls import path

from queues import send
from queues.models import InboxMessage
from queues.words.errors import QueuesError

woken_inside: list[int] = []
woken: list[str] = []


class Refused(QueuesError):
    """The request fails after it has sent."""


def send_in_nested_transactions(request):
    with transaction.atomic():
        send("test.A", 1)
        with transaction.atomic():
            send("test.A", 2)
    woken_inside.append(len(woken))
    return HttpResponse()


def send_and_fail(request):
    send("test.A", 1)
    raise Refused


def send_one_that_is_rolled_back(request):
    with pytest.raises(Refused), transaction.atomic():
        send_and_fail(request)
    return HttpResponse()


urlpatterns = [
    path("nested", send_in_nested_transactions),
    path("fails", send_and_fail),
    path("rolls-back", send_one_that_is_rolled_back),
]


@pytest.fixture
def client(settings, monkeypatch, transactional_db):
    """A browser of a project in which each request is one transaction."""
    settings.ROOT_URLCONF = __name__
    settings.MIDDLEWARE = []
    monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", True)
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)
    woken.clear()
    woken_inside.clear()
    monkeypatch.setattr("celery.app.base.Celery.send_task", lambda self, name, **options: woken.append(name))
    return Client(raise_request_exception=False)


def test_a_request_wakes_once_after_it_has_committed_everything(client):
    assert client.get("/nested").status_code == 200

    assert woken_inside == [0]
    assert woken == ["queues.drain"]
    assert InboxMessage.objects.count() == 2


def test_a_request_that_fails_after_sending_stores_nothing_and_wakes_nobody(client):
    answer = client.get("/fails")
    assert answer.status_code == 500
    assert "Something went wrong on the server." in answer.content.decode()

    assert woken == []
    assert not InboxMessage.objects.exists()


def test_a_part_of_a_request_that_is_rolled_back_wakes_nobody(client):
    assert client.get("/rolls-back").status_code == 200

    assert woken == []
    assert not InboxMessage.objects.exists()
