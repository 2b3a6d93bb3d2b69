"""Every bound cuts, says so, and keeps what must be kept."""

import io
import json
import logging

import pytest
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from deadletters.models import DeadLetter, Note, OperatorAction
from queues import InvalidMessage, NewMessage, Subject, Terminal, attribute, detail, send, send_many
from queues.conf import conf
from queues.models import DeliveryLogEntry, InboxMessage
from queues.testing import drain
from queues.words.payloads import MARK
from tests.db import roundtrip
from tests.db.roundtrip import browser, downloaded, insert, looked_at, mortal, recovers, run_until_dead
from tests.factories import a_letter
from tests.web.conftest import HTMX

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("handlers")]

MAX_PAGE = 1_000_000
MIB = 1024 * 1024
DASHBOARD = ("list", "list fragment", "page", "live fragment")


# --- payloads


def test_a_payload_over_1_mib_is_kept_as_bytes_behind_a_marked_stub_and_handled_whole():
    handler = mortal()
    big = {"text": "x" * MIB, "id": 1970670598291982291}
    send(roundtrip.TYPE, big)

    row = InboxMessage.objects.get()
    assert json.loads(row.event_data)[MARK] == f"only the bytes are kept: {row.envelope_bytes:,}"
    assert len(row.event_data) < 3_000
    letter = run_until_dead()
    assert json.loads(downloaded(letter)) == big
    assert letter.envelope_bytes == len(downloaded(letter)) == row.envelope_bytes
    assert recovers(letter, handler)
    assert handler.got == [big, big]


def test_a_payload_of_1_mib_stays_readable_json():
    text = json.dumps({"text": "x" * (MIB - len('{"text":""}'))}, separators=(",", ":"))
    send_many([NewMessage(type=roundtrip.TYPE, raw=text.encode())])

    assert len(text) == MIB == conf().offload_payload_bytes
    assert InboxMessage.objects.get().envelope_raw is None


def test_a_payload_over_64_mib_is_refused_by_every_sender_with_its_size():
    too_long = b'"' + b"x" * (64 * MIB - 1) + b'"'
    assert len(too_long) == conf().max_payload_bytes + 1

    with pytest.raises(InvalidMessage, match=r"67,108,865 bytes; the limit is 67,108,864"):
        send_many([NewMessage(type=roundtrip.TYPE, raw=too_long)])
    with pytest.raises(InvalidMessage, match=r"67,108,86\d bytes; the limit is 67,108,864"):
        send(roundtrip.TYPE, "x" * (64 * MIB - 1))
    with pytest.raises(SystemExit):
        roundtrip.by_command(too_long.decode())
    assert not InboxMessage.objects.exists()


def test_pages_of_a_letter_with_a_large_payload_are_small_and_do_not_read_its_bytes():
    mortal()
    send(roundtrip.TYPE, {"text": "x" * 10 * MIB})
    letter = run_until_dead()
    reader = browser("Viewers")
    addresses = [reverse(f"deadletters:{name}", args=[letter.pk]) for name in ("letter", "live", "export_letter")]

    with CaptureQueriesContext(
        connection,
    ) as queries:
        answers = [reader.get(address) for address in [*addresses, "/letters/", "/letters/export.jsonl"]]
        sizes = [len(answer.getvalue() if answer.streaming else answer.content) for answer in answers]
    assert max(sizes) < 100_000
    read = [query["sql"] for query in queries if "envelope_raw" in query["sql"]]
    assert all('"envelope_raw" IS NOT NULL' in sql for sql in read)
    assert "only the bytes are kept" in answers[0].content.decode()


# --- what a writer in another language may have left: no bound of ours was asked


@pytest.mark.parametrize(
    "column",
    ["error", "last_reported", "message_type", "destination", "generation", "owner", "cause", "perspective_name"],
)
def test_a_foreign_text_of_2_mb_keeps_every_page_small(column):
    letter = a_letter(**{column: "ab cd " * 350_000})

    shown = looked_at(letter)
    assert {name: len(shown[name]) for name in DASHBOARD if len(shown[name]) > MAX_PAGE} == {}


@pytest.mark.parametrize(
    "given",
    [
        {"payload": json.dumps({"text": "x" * 2_000_000})},
        {"payload": json.dumps({"list": list(range(300_000))})},
        {"payload": json.dumps({f"key {n}": n for n in range(100_000)})},
        {"payload": json.dumps([[[[n]]] for n in range(30_000)])},
        {"metadata": json.dumps({"headers": {f"h{n}": "x" * 1_000 for n in range(2_000)}})},
        {"metadata": json.dumps({"headers": {"h": "x" * 250_000}})},
        {"subjects": [("order", "x" * 2_000_000)]},
        {"subjects": [(f"t{n}", "x" * 500) for n in range(3_000)]},
        {"deaths": 300},
    ],
    ids=lambda given: f"{next(iter(given))} {len(str(given)):,}",
)  # fmt: skip
def test_foreign_structures_of_any_size_keep_every_page_small(given):
    letter = a_letter(**given)

    shown = looked_at(letter)
    assert {name: len(shown[name]) for name in DASHBOARD if len(shown[name]) > MAX_PAGE} == {}


def test_what_a_page_cuts_says_so_and_how_long_it_was():
    letter = a_letter(error="x" * 200_000, last_reported="y" * 200_000, payload=json.dumps({"a": "z" * 50_000}))

    page = looked_at(letter)["page"]
    assert page.count("(cut, 200,000 characters)") == 2
    assert "(cut, 50,000 characters)" in page


# --- secrets

SECRETS = {
    "password": "hunter2-password",
    "bearer": "abcdefghijklmnop",
    "url": "hunter2-url",
    "card": "4111111111111111",
    "cookie": "hunter2-cookie",
}
SAID = (
    f"password={SECRETS['password']} Authorization: Bearer {SECRETS['bearer']} "
    f"amqp://app:{SECRETS['url']}@mq:5672/ card_number={SECRETS['card']}\nCookie: sid={SECRETS['cookie']}"
)
HELD = {
    "password": SECRETS["password"],
    "nested": [{"card_number": int(SECRETS["card"])}, f"Bearer {SECRETS['bearer']}"],
    "dsn": f"postgresql://app:{SECRETS['url']}@db/x",
    "Cookie": f"sid={SECRETS['cookie']}",
}
HEADERS = {
    "Authorization": f"Bearer {SECRETS['bearer']}",
    "Cookie": f"sid={SECRETS['cookie']}",
    "X-Password": SECRETS["password"],
    "X-Dsn": f"amqp://app:{SECRETS['url']}@mq/",
    "X-Card-Number": SECRETS["card"],
}


def leaks(text):
    return [name for name, secret in SECRETS.items() if secret in text]


@pytest.fixture
def telling():
    """A letter of a message and a failure that tell every secret, and the handler that it died of."""
    handler = mortal(
        lambda: detail(attribute(Terminal(f"refused: {SAID}"), Subject("order", "42")), {**HELD, "said": SAID})
    )
    send(roundtrip.TYPE, {**HELD, "said": SAID}, headers=HEADERS)
    letter = run_until_dead()
    Note.objects.create(dead_letter=letter, text=SAID, author="olga")
    return letter, handler


def test_secrets_are_masked_on_every_page_fragment_export_and_admin_page(telling):
    letter, _ = telling

    shown = looked_at(letter)
    shown["admin note"] = browser(admin=True).get("/admin/deadletters/note/").content.decode()
    shown["admin death"] = _admin("deadletters_deadletterdeath", letter.death_rows.get().pk)
    shown["admin log entry"] = _admin("queues_deliverylogentry", DeliveryLogEntry.objects.latest("id").pk)
    assert {name: leaks(content) for name, content in shown.items() if leaks(content)} == {}
    assert "••••" in shown["page"]


def test_secrets_reach_the_handler_and_the_download_unmasked(telling):
    letter, handler = telling

    assert leaks(downloaded(letter).decode()) == list(SECRETS)
    assert recovers(letter, handler)
    assert handler.got[-1] == {**HELD, "said": SAID}


def test_secrets_are_masked_in_the_live_fragment_after_a_second_death(telling):
    letter, _ = telling
    browser().post(reverse("deadletters:recover", args=[letter.pk]))
    drain()

    live = browser("Viewers").get(reverse("deadletters:live", args=[letter.pk]), headers=HTMX).content.decode()
    assert "refused" in live
    assert leaks(live) == []


def test_secrets_are_not_in_logs_or_in_what_commands_say(telling, caplog, capfd, monkeypatch):
    monkeypatch.setattr("signal.signal", lambda *_: None)
    caplog.set_level(logging.DEBUG)
    insert(json.dumps(HELD))
    insert("{}", raw=json.dumps(SAID).encode()[:-1])
    said = io.StringIO()
    call_command("drain", "inbox", "--until-empty", stdout=said, stderr=said)
    line = json.dumps({"type": roundtrip.TYPE, "payload": HELD, "headers": HEADERS, "unknown": SAID})
    with pytest.raises(SystemExit):
        roundtrip.send_lines(line.encode())

    out, err = capfd.readouterr()
    assert DeadLetter.objects.count() == 3
    assert "dead_lettered" in caplog.text + out + err
    assert leaks(caplog.text + out + err + said.getvalue()) == []


def test_secrets_are_not_in_the_audit(telling):
    letter, _ = telling
    browser().get("/letters/", {"q": SAID[:200]})
    browser().get("/letters/export.csv", {"q": SAID[:200]})
    browser().get(reverse("deadletters:export_letter", args=[letter.pk]))

    told = json.dumps(list(OperatorAction.objects.values_list("action", "after", "reason")))
    assert "export" in told
    assert leaks(told) == []


def _admin(model, key):
    answer = browser(admin=True).get(reverse(f"admin:{model}_change", args=[key]))
    assert answer.status_code == 200
    return answer.content.decode()
