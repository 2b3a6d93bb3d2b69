"""An address for every URL of the pages, with the rows that it names; only a new kind of id needs a line here."""

from collections.abc import Callable
from typing import Any

from django.urls import URLPattern, reverse

from deadletters import counting, urls
from deadletters.models import DeadLetter, FailureGroup, RecoveryRun, SavedView
from deadletters.store import edits
from deadletters.store.audit import Actor
from queues.models import InboxMessage, SourcePause
from queues.words.payloads import Encoded
from tests.db.rows import write_row
from tests.factories import a_letter, a_run

SECRET = "the secret of the letter"
"""Stands in the error of every letter and message, and in the reason of every run and pause, that is made here."""

QUERIES = {"subject": "?type=order&id=42"}


def names() -> dict[str, URLPattern]:
    """Return every URL of the pages by its name."""
    return {str(pattern.name): pattern for pattern in urls.urlpatterns}


def parameters(name: str) -> list[str]:
    """Return what the URL names, by its names for it."""
    return list(names()[name].pattern.regex.groupindex)


def address(name: str, *named: Any) -> str:
    """Return the address of rows, given as such or by their keys; without any they are made where there are none."""
    given = [getattr(each, "pk", each) for each in named] or [VALUES[parameter]() for parameter in parameters(name)]
    here = reverse(f"deadletters:{name}", args=given)
    return here + QUERIES.get(name, "")


def letter() -> DeadLetter:
    return DeadLetter.objects.first() or a_letter(error=SECRET, subjects=[("order", "42")])


def group() -> FailureGroup:
    letter()
    counting.fold()
    return FailureGroup.objects.all()[0]


def fingerprint() -> str | None:
    """Return a fingerprint that a group has."""
    group()
    return letter().error_fingerprint


def run() -> RecoveryRun:
    return RecoveryRun.objects.first() or a_run([letter()], reason=SECRET)


def version() -> int:
    """Return the number of a version of the letter's payload; it is edited for that, once."""
    about = letter()
    if not about.payloads.exists():
        encoded = Encoded(json="{}", raw=None, size=2)
        edits.edit(about.pk, encoded, by=Actor(name="lea"), reason="", row_version=about.row_version, limit=9)
    return 1


def pause() -> SourcePause:
    known = SourcePause.objects.first()
    return known or SourcePause.objects.create(source="wh_inbox", kind="source", paused_by="lea", reason=SECRET)


def message_id() -> Any:
    known = InboxMessage.objects.values_list("message_id", flat=True).first()
    return known or write_row("wh_inbox", error=SECRET)


def view() -> SavedView:
    known = SavedView.objects.first()
    about = {"owner_id": "0", "owner": "lea", "page": "letters", "query": "status=open"}
    return known or SavedView.objects.create(name="night shift", is_shared=True, **about)


VALUES: dict[str, Callable[[], Any]] = {
    "name": lambda: "groups",  # a region of the overview
    "dead_letter_id": lambda: letter().pk,
    "number": version,
    "group_id": lambda: group().pk,
    "fingerprint": fingerprint,
    "run_id": lambda: run().pk,
    "source": lambda: "inbox",
    "message_id": message_id,
    "pause_id": lambda: pause().pk,
    "form": lambda: "csv",
    "view_id": lambda: view().pk,
}
"""What a parameter of a URL is given."""
