"""`manage.py send`: every good line is stored, every bad one is named."""

import io
import json
import uuid

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from queues.models import InboxMessage

pytestmark = pytest.mark.django_db


@pytest.fixture
def send_lines(monkeypatch):
    """Send bytes through standard input; return the exit code and what was reported."""

    def run(data):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        said = io.StringIO()
        try:
            call_command("send", "-", stderr=said)
        except SystemExit as exc:
            return exc.code, said.getvalue()
        return 0, said.getvalue()

    return run


def test_one_bad_line_is_named_with_its_reason_and_the_others_are_stored(send_lines):
    code, said = send_lines(b'{"type":"shop.PlaceOrder","payload":{"order_id":"42"}}\nnot json\n')

    assert code == 1
    assert InboxMessage.objects.get().message_type == "shop.PlaceOrder"
    assert "line 2: not JSON" in said
    assert "1 stored" in said


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"type": "a"}', '"payload"'),
        (b'{"type": "", "payload": 1}', "type"),
        (b'{"type": "a", "payload": 1, "typo": 1}', "typo"),
        (b'{"type": "a", "payload": NaN}', "NaN"),
        (b'{"type": "a", "payload": 1, "max_attempts": 0}', "max_attempts"),
        (b'{"type": "a", "payload": 1, "delay_seconds": -1}', "delay_seconds"),
        (b"\xff\xfe", "UTF-8"),
        (b"[1, 2]", "object"),
        (b"[" * 5000 + b"]" * 5000, "deep"),
    ],
)
def test_each_kind_of_bad_line_has_its_reason(send_lines, line, reason):
    code, said = send_lines(line + b"\n")

    assert code == 1
    assert reason in said
    assert not InboxMessage.objects.exists()


def test_a_cloud_event_is_stored_with_its_attributes_and_once(send_lines):
    event = {
        "specversion": "1.0",
        "type": "order.placed",
        "source": "/shop",
        "id": "A-1",
        "data": {"n": 1},
        "trace": "t",
    }
    line = json.dumps(event).encode() + b"\n"

    assert send_lines(line + line) == (0, "1 stored, 1 sent before, 0 refused\n")

    row = InboxMessage.objects.get()
    assert json.loads(row.event_data) == {"n": 1}
    assert json.loads(row.metadata)["headers"] == {"ce-id": "A-1", "ce-source": "/shop", "ce-trace": "t"}


def test_blank_lines_and_no_lines_are_no_error(send_lines):
    assert send_lines(b"\n  \n") == (0, "0 stored, 0 sent before, 0 refused\n")


def test_a_line_over_the_limit_is_refused_and_the_next_is_read(send_lines, settings):
    settings.QUEUES = {**settings.QUEUES, "MAX_PAYLOAD_BYTES": 2000}
    code, said = send_lines(b'{"type":"a","payload":"' + b"x" * 9000 + b'"}\n{"type":"b","payload":1}\n')

    assert code == 1
    assert said.startswith("line 1: ")
    assert InboxMessage.objects.get().message_type == "b"


def test_a_file_that_is_not_there_is_one_sentence(tmp_path):
    with pytest.raises(CommandError, match="No such file"):
        call_command("send", str(tmp_path / "missing"))


def test_more_lines_than_a_batch_are_all_stored_in_order(send_lines, tmp_path):
    lines = [json.dumps({"type": "n", "payload": n, "id": str(uuid.uuid4())}) for n in range(450)]

    assert send_lines("\n".join(lines).encode())[0] == 0

    stored = InboxMessage.objects.order_by("position").values_list("event_data", flat=True)
    assert [int(text) for text in stored] == list(range(450))
