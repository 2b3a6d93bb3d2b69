"""Exports: what they hold, whom they are for, and that nothing in them is rounded, run or given away."""

import csv
import io
import json
from datetime import timedelta
from decimal import Decimal
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from deadletters import exports
from deadletters.models import DeadLetter, Note, OperatorAction
from deadletters.queries import exports as reads
from deadletters.words.errors import StaleChange
from tests.factories import NOON, a_letter, a_user

pytestmark = pytest.mark.django_db

LISTS = ("/letters/export.jsonl", "/letters/export.csv")


def body(response):
    assert response.status_code == 200, response.content
    return response.getvalue() if response.streaming else response.content


def json_lines(page, **filters):
    """Return the head, the letters and the end of an export as JSON Lines."""
    lines = body(page.get(LISTS[0], filters)).decode().splitlines()
    head, *letters, end = (json.loads(line, parse_float=Decimal) for line in lines)
    return head["export"], letters, end["end"]


def table(page, **filters):
    """Return the rows of an export as CSV, as dictionaries, and its last line."""
    rows = list(csv.reader(io.StringIO(body(page.get(LISTS[1], filters)).decode(), newline="")))
    *rows, last = rows
    names, *letters = rows or [[]]
    return [dict(zip(names, letter, strict=True)) for letter in letters], last


def one(page, letter):
    return json.loads(body(page.get(reverse("deadletters:export_letter", args=[letter.pk]))), parse_float=Decimal)


def download(browser, letter, reason="the bank asks"):
    return browser.post(reverse("deadletters:payload", args=[letter.pk]), {"reason": reason})


@pytest.fixture
def lead(signed_in):
    """The browser of somebody who may reveal."""
    return signed_in(a_user("lea", "Leads"))


def test_a_list_holds_what_the_filter_names_newest_first_and_says_so(page):
    kept = [a_letter(message_type="shop.Pay") for _ in range(3)]
    a_letter(message_type="shop.Ship")

    head, letters, end = json_lines(page, type="shop.Pay")
    assert [letter["dead_letter_id"] for letter in letters] == [str(letter.pk) for letter in reversed(kept)]
    assert (head["filter"], head["letters"]) == ("Dead letters type shop.Pay", 3)
    assert end["letters"] == 3
    assert end["said"].startswith("Dead letters type shop.Pay: 3 letters as of ")
    rows, last = table(page, type="shop.Pay")
    assert [row["dead_letter_id"] for row in rows] == [str(letter.pk) for letter in reversed(kept)]
    assert last[0].startswith("# Dead letters type shop.Pay: 3 letters as of ")


def test_both_forms_have_the_same_columns(page):
    a_letter(subjects=[("order", "42"), ("customer", "7")], destination="bank", owner="vera")

    (as_json,), (as_row,) = json_lines(page)[1], table(page)[0]
    assert [name for name in as_json if name != "payload"] == list(as_row)
    assert as_json["subjects"] == ["order:42", "customer:7"]
    assert as_row["subjects"] == "order:42\ncustomer:7"
    assert (as_row["owner"], as_row["status"], as_row["disposition"]) == ("vera", "open", "none")


def test_an_empty_list_is_an_export_of_nothing(page):
    assert json_lines(page, type="none")[1] == []
    rows, last = table(page, type="none")
    assert rows == []
    assert last[0].startswith("# Dead letters type none: 0 letters as of ")


@pytest.mark.parametrize("address", LISTS)
@pytest.mark.parametrize(
    ("query", "said"),
    [("nonsense=1", "There is no filter"), ("status=gone", "is no status"), ("type=a&type=b", "is given 2 times"),
     ("after=20260101T000000.000000_" + "0" * 32, "leave “after” out")],
)  # fmt: skip
def test_a_filter_that_is_not_understood_is_an_error_and_never_everything(page, address, query, said):
    a_letter(error="the letter")

    response = page.get(f"{address}?{query}")
    assert response.status_code == 400
    assert said in response.content.decode()
    assert "the letter" not in response.content.decode()
    assert not OperatorAction.objects.exists()


def test_an_unknown_form_is_not_found(page):
    assert page.get("/letters/export.xml").status_code == 404
    assert page.get("/letters/export.csvx").status_code == 404


def test_every_export_is_in_the_audit_with_its_filter_and_count(lead):
    letter = a_letter(message_type="shop.Pay")
    a_letter()
    for address in LISTS:
        lead.get(address, {"type": "shop.Pay"})
    one(lead, letter)
    download(lead, letter)

    actions = list(OperatorAction.objects.order_by("id").values_list("actor", "action", "dead_letter_id", "after"))
    said = {"filter": "Dead letters type shop.Pay", "letters": 1}
    assert actions == [
        ("lea", "export", None, {"form": "jsonl", **said}),
        ("lea", "export", None, {"form": "csv", **said}),
        ("lea", "export", letter.pk, {"form": "json"}),
        ("lea", "download_payload", letter.pk, {"bytes": len('{"order_id": "42"}')}),
    ]


@pytest.mark.parametrize("name", ["export.jsonl", "export.csv", "{}/export.json"])
def test_exports_are_for_those_who_may_view(client, signed_in, stranger, name):
    address = f"/letters/{name.format(a_letter(error='the letter').pk)}"

    assert client.get(address).status_code == 302
    refused = signed_in(stranger).get(address)
    assert (refused.status_code, b"the letter" in refused.content) == (403, False)
    assert signed_in(a_user("lea", "Leads")).post(address).status_code == 405
    assert not OperatorAction.objects.exists()


def test_exact_bytes_are_for_those_who_may_reveal(page, lead):
    letter = a_letter(payload='{"password": "hunter2"}')

    refused = download(page, letter)
    assert (refused.status_code, b"hunter2" in refused.content) == (403, False)
    assert body(download(lead, letter)) == b'{"password": "hunter2"}'


def test_exact_bytes_are_for_a_reason_which_the_audit_keeps(lead):
    letter = a_letter(payload='{"password": "hunter2"}')

    for reason in ("", "  "):
        refused = download(lead, letter, reason)
        assert refused.status_code == 422
        assert "Reason must say why" in refused.content.decode()
        assert b"hunter2" not in refused.content
    assert not OperatorAction.objects.exists()
    download(lead, letter, " the bank asks ")
    assert OperatorAction.objects.get().reason == "the bank asks"
    assert lead.get(reverse("deadletters:payload", args=[letter.pk])).status_code == 405


def test_downloads_are_saved_and_never_shown(lead):
    letter = a_letter()
    addresses = [*LISTS, reverse("deadletters:export_letter", args=[letter.pk])]

    for response in (download(lead, letter), *(lead.get(address) for address in addresses)):
        assert response["Content-Disposition"].startswith('attachment; filename="')
        assert response["X-Content-Type-Options"] == "nosniff"
        assert "no-store" in response["Cache-Control"]


def test_exact_bytes_come_in_pieces_and_whole(lead, monkeypatch):
    raw = bytes(range(256)) * 40
    letter = a_letter()
    DeadLetter.objects.filter(pk=letter.pk).update(envelope_raw=raw)
    monkeypatch.setattr(reads, "PIECE_BYTES", 1_000)

    response = download(lead, letter)
    assert response["Content-Type"] == "application/octet-stream"
    assert response["Content-Length"] == str(len(raw))
    assert body(response) == raw


def test_a_download_breaks_off_when_the_letter_is_changed_meanwhile(lead, monkeypatch):
    letter = a_letter()
    DeadLetter.objects.filter(pk=letter.pk).update(envelope_raw=b"x" * 10)
    monkeypatch.setattr(reads, "PIECE_BYTES", 4)

    pieces = reads.payload_of(letter.pk).pieces()
    next(pieces)
    DeadLetter.objects.filter(pk=letter.pk).update(row_version=9)
    with pytest.raises(StaleChange):
        list(pieces)


def test_numbers_keep_all_their_digits(page):
    numbers = [
        "1970670598291982291",
        "-9223372036854775808",
        "12345678901234567890123",
        "0.1000000000000000055",
        "1.10",
    ]
    letter = a_letter(payload=f'{{"n": [{", ".join(numbers)}]}}')

    texts = [body(page.get(LISTS[0])), body(page.get(reverse("deadletters:export_letter", args=[letter.pk])))]
    for text in texts:
        assert f'"payload":{{"n":[{",".join(numbers)}]}}' in text.decode()


def test_secrets_are_masked_in_every_form(page):
    letter = a_letter(
        payload='{"user": {"password": "hunter2", "list": ["Bearer abcdefghij"]}, "card_number": 4111111111111111}',
        metadata='{"headers": {"Authorization": "Basic hunter2", "Cookie": "sid=hunter2"}}',
        error="OperationalError: postgresql://app:hunter2@db/x\nAuthorization: Bearer abcdefghij",
        last_reported="password=hunter2",
        subjects=[("session", "token=hunter2")],
        destination="amqp://app:hunter2@mq/",
    )
    DeadLetter.objects.filter(pk=letter.pk).update(failure_detail={"detail": {"api_key": "hunter2"}})
    Note.objects.create(dead_letter=letter, text="try password=hunter2", author="olga")

    texts = [body(page.get(address)).decode() for address in LISTS]
    texts.append(body(page.get(reverse("deadletters:export_letter", args=[letter.pk]))).decode())
    for text in texts:
        assert "••••" in text
        assert not [secret for secret in ("hunter2", "abcdefghij", "4111111111111111") if secret in text]


@pytest.mark.parametrize("text", ["=HYPERLINK(1)", "+1", "-1+2", "@SUM(A1)", "\t=1", '=cmd|" /C calc"!A0'])
def test_no_cell_is_a_formula(page, text):
    a_letter(message_type=text, error=text, destination=text, owner=text, generation=text, subjects=[(text, text)])

    (row,), last = table(page)
    assert not [cell for cell in [*row.values(), *last] if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]
    assert row["type"] == f"'{text}"


def test_a_list_is_capped_and_its_last_line_says_so(page, monkeypatch):
    monkeypatch.setattr(exports, "MAX_LETTERS", 3)
    newest = [a_letter() for _ in range(5)][2:]

    _, letters, end = json_lines(page)
    assert [letter["dead_letter_id"] for letter in letters] == [str(letter.pk) for letter in reversed(newest)]
    assert "Cut: an export holds the newest 3 and there are more" in end["said"]
    rows, last = table(page)
    assert len(rows) == 3
    assert "Cut: an export holds the newest 3" in last[0]


def test_chunks_hold_each_letter_once_whatever_their_times(page, monkeypatch):
    monkeypatch.setattr(reads, "PAGE", 3)
    monkeypatch.setattr(reads, "CHUNK", 2)
    letters = [a_letter(dead_lettered_at=NOON + timedelta(microseconds=n // 4)) for n in range(10)]

    _, exported, end = json_lines(page)
    assert sorted(letter["dead_letter_id"] for letter in exported) == sorted(str(letter.pk) for letter in letters)
    assert end["letters"] == 10


def test_a_letter_that_dies_while_the_export_runs_is_not_in_it(operator, monkeypatch):
    monkeypatch.setattr(reads, "PAGE", 1)
    old = [a_letter() for _ in range(3)]
    export = exports.export_letters(
        filters=exports.LetterFilter(), form=exports.Form.JSON_LINES, user=operator, now=timezone.now()
    )

    a_letter(dead_lettered_at=timezone.now() + timedelta(seconds=1))
    lines = [next(export.lines), next(export.lines)]
    a_letter(dead_lettered_at=timezone.now() + timedelta(seconds=1))
    lines += export.lines
    assert [json.loads(line)["dead_letter_id"] for line in lines[1:-1]] == [str(letter.pk) for letter in reversed(old)]
    assert json.loads(lines[-1])["end"]["letters"] == 3


def test_reading_a_list_costs_the_same_statements_for_many_letters_and_no_heavy_column(operator):
    def statements():
        export = exports.export_letters(
            filters=exports.LetterFilter(), form=exports.Form.CSV, user=operator, now=timezone.now()
        )
        with CaptureQueriesContext(
            connection,
        ) as queries:
            list(export.lines)
        return [query["sql"] for query in queries]

    a_letter()
    few = statements()
    for _ in range(20):
        a_letter(subjects=[("order", "1")])
    many = statements()
    assert len(many) == len(few)
    for heavy in ('"envelope"', '"error_text"', '"metadata"', '"source_row"', '"failure_detail"'):
        assert not [sql for sql in many if f".{heavy}" in sql], heavy


def test_a_large_payload_is_left_out_of_a_list_and_cut_in_a_letter_and_both_say_so(page):
    letter = a_letter(payload=json.dumps({"text": "x" * exports.MAX_PAYLOAD}))
    DeadLetter.objects.filter(pk=letter.pk).update(envelope_bytes=exports.MAX_PAYLOAD + 11)

    (listed,), whole = json_lines(page)[1], one(page, letter)
    assert (listed["payload"], "payload_left_out" in listed) == (None, True)
    assert whole["payload"]["$deadletters"].startswith("cut: 2,09")
    assert len(json.dumps(whole)) < 20_000


def test_a_payload_of_a_foreign_writer_that_is_only_large_unpacked_is_cut(page):
    a_letter(payload=json.dumps({"text": "x" * 500_000}))

    ((letter,)) = json_lines(page)[1]
    assert letter["payload"]["$deadletters"].startswith("cut: 65,537")
    assert letter["payload"]["begins"].startswith('{"text": "xxx')


def test_a_secret_in_a_payload_that_is_cut_is_masked(page):
    letter = a_letter(payload=json.dumps({"password": "hunter2", "token": {"deep": "hunter2"}, "x": "x" * 70_000}))

    for text in (body(page.get(LISTS[0])), body(page.get(reverse("deadletters:export_letter", args=[letter.pk])))):
        assert b"hunter2" not in text


def test_a_deep_payload_is_shown_cut_and_its_neighbours_whole(page):
    deep, flat = a_letter(payload="[" * 10_000 + "]" * 10_000), a_letter()

    newest, oldest = json_lines(page)[1]
    assert newest["payload"] == {"order_id": "42"}
    assert oldest["payload"]["$deadletters"] == "cut: 20,000 characters, 10,000 levels"
    assert one(page, deep)["payload"]["$deadletters"].endswith("10,001 levels")
    assert one(page, flat)["payload"] == {"order_id": "42"}


def test_a_missing_letter_is_not_found(lead):
    assert lead.get(reverse("deadletters:export_letter", args=[uuid4()])).status_code == 404
    assert lead.post(reverse("deadletters:payload", args=[uuid4()]), {"reason": "x"}).status_code == 404


def test_one_letter_holds_all_that_belongs_to_it(page):
    letter = a_letter(
        metadata='{"headers": {"trace": "t1"}}', subjects=[("order", "42")], deaths=2, error="Declined: no\nTraceback"
    )
    Note.objects.create(dead_letter=letter, text="look at this", author="olga")

    whole = one(page, letter)
    assert whole["error"] == "Declined: no\nTraceback"
    assert whole["subjects"] == [{"type": "order", "id": "42"}]
    assert [death["number"] for death in whole["deaths"]] == [2, 1]
    assert whole["notes"][0]["text"] == "look at this"
    assert whole["metadata"] == {"headers": {"trace": "t1"}}
    assert whole["payload"] == {"order_id": "42"}


def test_pages_lead_to_the_exports(page, lead):
    letter = a_letter(message_type="shop.Pay")

    results = page.get("/letters/", {"type": "shop.Pay"}).content.decode()
    for address in LISTS:
        assert f'href="{address}?type=shop.Pay"' in results
    address = reverse("deadletters:letter", args=[letter.pk])
    assert reverse("deadletters:export_letter", args=[letter.pk]) in page.get(address).content.decode()
    assert reverse("deadletters:payload", args=[letter.pk]) not in page.get(address).content.decode()
    assert reverse("deadletters:payload", args=[letter.pk]) in lead.get(address).content.decode()
