"""How the tests of the pages ask for one and read it."""

from typing import Any

from django.http import HttpResponse
from django.urls import reverse


def address(name: str, *named: Any) -> str:
    """Return the address of a page; what it names are rows or their keys."""
    return reverse(f"deadletters:{name}", args=[getattr(each, "pk", each) for each in named])


def text_of(response: HttpResponse) -> str:
    """Return the page on one line, with single spaces."""
    return " ".join(response.content.decode().split())
