"""What the tests of the pages share: people with and without rights, and their browsers."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client

from queues import wakeups
from tests.factories import a_user

HTMX = {"HX-Request": "true"}


def text_of(response: HttpResponse) -> str:
    """Return the page on one line, with single spaces."""
    return " ".join(response.content.decode().split())


@pytest.fixture
def operator(db) -> User:
    return a_user("olga", "Operators")


@pytest.fixture
def viewer(db) -> User:
    return a_user("vic", "Viewers")


@pytest.fixture
def stranger(db) -> User:
    return a_user("sam")


@pytest.fixture
def signed_in() -> Callable[[User], Client]:
    """Return a browser in which a user is signed in; CSRF is enforced as in a real one only where asked for."""

    def sign_in(user: User, *, csrf: bool = False) -> Client:
        client = Client(enforce_csrf_checks=csrf)
        client.force_login(user)
        return client

    return sign_in


@pytest.fixture
def page(signed_in, operator) -> Client:
    """An operator's browser."""
    return signed_in(operator)


@pytest.fixture
def woken(monkeypatch) -> list[str]:
    """Note the sources whose drainers would be woken."""
    sources: list[str] = []
    monkeypatch.setattr(wakeups, "wake", sources.append)
    return sources
