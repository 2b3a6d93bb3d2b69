"""A message's whole way, as tests walk it: into any source, run, dead, looked at everywhere, recovered."""

import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.urls import reverse

from deadletters.models import DeadLetter, DeadLetterDeath, RecoveryStatus
from queues import Terminal, append_event, handles, projects, publish, send
from queues.conf import conf
from queues.perspectives import subscribe
from queues.testing import drain
from queues.transports.base import Outgoing
from queues.transports.inbox import InboxTransport
from queues.words.messages import stream_uuid
from queues.words.payloads import decode_payload
from queues.words.sources import OUTBOX, PERSPECTIVES
from tests.factories import a_user
from tests.web.conftest import HTMX

TYPE = "test.Mortal"
PERSPECTIVE = "test.totals"
DESTINATION = "test.orders"


@dataclass
class Mortal:
    """A handler or projection that raises `error` until it works, and the payloads that it was given."""

    error: Callable[[], BaseException] = lambda: Terminal("it cannot be done")
    works: bool = False
    got: list[Any] = field(default_factory=list)

    def __call__(self, message: Any) -> None:
        self.take(message.payload)

    def take(self, payload: Any) -> None:
        self.got.append(payload)
        if not self.works:
            raise self.error()


@dataclass
class MortalTransport(Mortal):
    """A transport of that kind, and the exact bytes that it was given as well."""

    sent: list[bytes] = field(default_factory=list)

    def __call__(self, message: Outgoing) -> None:
        raw = message.envelope_raw
        self.sent.append(message.event_data.encode() if raw is None else raw)
        self.take(decode_payload(message.event_data, raw, limits=conf().payload_limits()))


def mortal(error: Callable[[], BaseException] | None = None, **options: Any) -> Mortal:
    """Register a handler that dies, in the test's own registry."""
    handler = Mortal() if error is None else Mortal(error=error)
    handles(TYPE, **options)(handler)
    return handler


# --- three ways into the inbox


def by_send(text: str) -> None:
    """Send the value of a JSON text with Python's `send`."""
    send(TYPE, json.loads(text))


def by_command(text: str) -> None:
    """Send a JSON text as a line of `manage.py send -`."""
    line = f'{{"type":"{TYPE}","payload":{text}}}\n'.encode()
    send_lines(line)


def by_sql(text: str) -> None:
    """Insert a JSON text as a writer in another language does."""
    insert(text)


WAYS = (by_send, by_command, by_sql)


def send_lines(data: bytes) -> str:
    """Give lines to `manage.py send -` and return what it said."""
    import sys

    said, before = io.StringIO(), sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(data))
    try:
        call_command("send", "-", stderr=said)
    finally:
        sys.stdin = before
    return said.getvalue()


def insert(text: str, *, raw: bytes | None = None, message_type: str = TYPE) -> UUID:
    """Insert a row into the inbox with the least that a foreign writer must give."""
    message_id = uuid4()
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO wh_inbox (message_id, message_type, event_data, envelope_raw) VALUES (%s, %s, %s::jsonb, %s)",
            [message_id, message_type, text, raw],
        )
    return message_id


# --- the other sources: what fails there, and two ways in


@dataclass(frozen=True, kw_only=True)
class Other:
    """A source beside the inbox: what makes its messages fail, and how they get in by Python and by SQL.

    `insert` takes a JSON text, exact bytes beside it, and the name of a stream.
    """

    source: str
    mortal: Callable[..., Mortal]
    write: Callable[[str], object]
    insert: Callable[..., UUID]


def mortal_transport(patch: pytest.MonkeyPatch, error: Callable[[], BaseException] | None = None) -> MortalTransport:
    """Let the transport of the destination die; the destination needs a route to the inbox."""
    transport = MortalTransport() if error is None else MortalTransport(error=error)
    patch.setattr(InboxTransport, "publish", lambda _, message: transport(message))
    return transport


def mortal_projection(_: pytest.MonkeyPatch, error: Callable[[], BaseException] | None = None) -> Mortal:
    """Register and subscribe a projection that dies, in the test's own registry."""
    projection = Mortal() if error is None else Mortal(error=error)
    projects(PERSPECTIVE, TYPE, after_death="continue")(projection)
    subscribe()
    return projection


def insert_outgoing(text: str, *, raw: bytes | None = None, stream: str | None = None) -> UUID:
    """Insert a row into the outbox with the least that a foreign writer must give."""
    message_id = uuid4()
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO wh_outbox (message_id, message_type, destination, event_data, envelope_raw, stream_id)"
            " VALUES (%s, %s, %s, %s::jsonb, %s, %s)",
            [message_id, TYPE, DESTINATION, text, raw, stream_uuid(stream)],
        )
    return message_id


def insert_event(text: str, *, raw: bytes | None = None, stream: str | None = None) -> UUID:
    """Insert an event as the last of its stream, without a name as the only one of a new stream."""
    event_id = uuid4()
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO wh_event_store (event_id, event_type, event_data, envelope_raw, stream_id, version)"
            " SELECT %s, %s, %s::jsonb, %s, s.id, 1 + (SELECT count(*) FROM wh_event_store WHERE stream_id = s.id)"
            "   FROM (SELECT %s::uuid) AS s(id)",
            [event_id, TYPE, text, raw, stream_uuid(stream) or uuid4()],
        )
    return event_id


OTHERS = (
    Other(
        source=OUTBOX,
        mortal=mortal_transport,
        write=lambda text: publish(TYPE, json.loads(text), destination=DESTINATION),
        insert=insert_outgoing,
    ),
    Other(
        source=PERSPECTIVES,
        mortal=mortal_projection,
        write=lambda text: append_event("order-1", TYPE, json.loads(text)),
        insert=insert_event,
    ),
)


# --- the ends


def run_until_dead(runs: int = 1, source: str = "wh_inbox") -> DeadLetter:
    """Drain until the one message of the source has used its runs, and return its letter."""
    for _ in range(runs):
        make_due(source)
        drain(source)
    return DeadLetter.objects.get()


def make_due(source: str = "wh_inbox") -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE {source} SET scheduled_for = now() - interval '1 second'")
        cursor.execute("UPDATE wh_streams SET due_at = now() - interval '1 second'")


def recovers(letter: DeadLetter, handler: Mortal) -> bool:
    """Press Recover on the letter's page, let the handler work, and say whether the letter is recovered."""
    handler.works = True
    press_recover(letter)
    drain(letter.source_table)
    letter.refresh_from_db(fields=["recovery_status"])
    death = DeadLetterDeath.objects.filter(dead_letter=letter).latest("number")
    return letter.recovery_status == RecoveryStatus.RECOVERED and death.verdict == "recovered"


def press_recover(letter: DeadLetter) -> None:
    pressed = browser().post(reverse("deadletters:recover", args=[letter.pk]))
    assert pressed.status_code == 302


# --- the places


def browser(group: str = "Leads", *, admin: bool = False) -> Client:
    """Return a browser of somebody of the group; a server error is an answer, as it is for a person."""
    name = f"{group}-admin" if admin else group
    user = User.objects.filter(username=name).first() or a_user(name, group, is_staff=admin, is_superuser=admin)
    client = Client(raise_request_exception=False)
    client.force_login(user)
    return client


def looked_at(letter: DeadLetter) -> dict[str, str]:
    """Return every place that shows the letter, by name: pages, fragments, exports and the admin; all answer 200."""
    reader, administrator = browser("Viewers"), browser(admin=True)
    page = reverse("deadletters:letter", args=[letter.pk])
    places = {
        "list": reader.get("/letters/"),
        "list fragment": reader.get("/letters/", headers=HTMX),
        "page": reader.get(page),
        "live fragment": reader.get(f"{page}live", headers=HTMX),
        "export": reader.get(reverse("deadletters:export_letter", args=[letter.pk])),
        "jsonl": reader.get("/letters/export.jsonl"),
        "csv": reader.get("/letters/export.csv"),
        "admin list": administrator.get("/admin/deadletters/deadletter/"),
        "admin page": administrator.get(f"/admin/deadletters/deadletter/{letter.pk}/change/"),
        "admin deaths": administrator.get("/admin/deadletters/deadletterdeath/"),
        "admin log": administrator.get("/admin/queues/deliverylogentry/"),
    }
    assert {name: answer.status_code for name, answer in places.items()} == dict.fromkeys(places, 200)
    return {name: _text(answer) for name, answer in places.items()}


def downloaded(letter: DeadLetter) -> bytes:
    """Return the payload's bytes as they are downloaded."""
    answer = browser().post(reverse("deadletters:payload", args=[letter.pk]), {"reason": "a test"})
    assert answer.status_code == 200
    return answer.getvalue()


def found_by(letters: Sequence[DeadLetter], **filters: str) -> bool:
    """Say whether the list finds exactly these letters."""
    answer = browser("Viewers").get("/letters/", filters)
    assert answer.status_code == 200
    return {row.letter.pk for row in answer.context["page"].rows} == {letter.pk for letter in letters}


def _text(answer: Any) -> str:
    return (answer.getvalue() if answer.streaming else answer.content).decode()
