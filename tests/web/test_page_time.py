"""No page hangs: while a table is locked an answer comes, and it says what took too long."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from django.apps import apps
from django.db import DatabaseError, connection
from django.test import Client
from structlog.testing import capture_logs

from deadletters.models import LastVisit, Note, OperatorAction, SavedView
from deadletters.queries import deadlines
from deadletters.queries.deadlines import of_request
from tests.access_table import TABLE
from tests.addresses import address, group, letter
from tests.factories import a_user
from tests.locking import locked
from tests.web.conftest import HTMX

pytestmark = pytest.mark.django_db(transaction=True)

TABLES = [model._meta.db_table for app in ("queues", "deadletters") for model in apps.get_app_config(app).get_models()]
READ = [name for name, entry in TABLE.items() if "get" in entry.methods]
LOGGED = {"page_took_too_long", "region_took_too_long", "visit_not_noted"}
SILENT = {"suggest"}
"""What has no place to say it: a search offers less."""
WHOLE = {
    *("overview", "region", "letters", "groups", "group_menu", "subjects", "subject", "runs", "audit"),
    *("queues", "held_streams", "destinations", "workers", "live_messages"),
}
"""Pages that come whatever is locked, without what it takes."""
_READS: dict[str, set[str]] = {}
_LOCKED = """
SELECT relation::regclass::text FROM pg_locks
 WHERE pid = pg_backend_pid() AND locktype = 'relation' AND relation::regclass::text = ANY (%s)
"""


@pytest.fixture(autouse=True)
def _quick(settings):
    settings.DEADLETTERS = {"REGION_SECONDS": 0.03, "PAGE_SECONDS": 0.3}


@pytest.fixture
def reader(signed_in) -> Client:
    """The browser of somebody who may do everything, and is known."""
    browser = signed_in(a_user("rita", is_superuser=True))
    browser.get(address("overview"))
    OperatorAction.objects.create(actor="rita", action="assign", dead_letter_id=letter().pk, group_id=group().pk)
    return browser


def text_of(response) -> str:
    """Return what came of an answer, also of one that breaks off."""
    if not response.streaming:
        return response.content.decode()
    try:
        return b"".join(response.streaming_content).decode()
    except DatabaseError:
        return "broke off: took too long"


def asked(reader: Client, name: str, here: str) -> Any:
    return reader.get(here, headers=HTMX if TABLE[name].kind == "fragment" else {})


def reads_of(reader: Client, addresses: Mapping[str, str]) -> Mapping[str, set[str]]:
    """Return the tables that each page reads, also within functions: their locks last as long as its transaction."""
    if not _READS:
        found: dict[str, set[str]] = {name: set() for name in addresses}
        with pytest.MonkeyPatch.context() as patch:
            for name, here in addresses.items():
                patch.setattr(deadlines, "of_request", partial(noting, found[name]))
                text_of(asked(reader, name, here))
        _READS.update(found)
    return _READS


@contextmanager
def noting(noted: set[str], seconds: float) -> Iterator[None]:
    """Note what is locked when a request has read all that it reads."""
    with of_request(seconds):
        yield
        with connection.cursor() as cursor:
            cursor.execute(_LOCKED, [TABLES])
            noted.update(table for (table,) in cursor.fetchall())


@pytest.mark.parametrize("table", TABLES)
def test_every_page_answers_while_a_table_that_it_reads_is_locked_and_says_what_took_too_long(reader, settings, table):
    if table == "last_visits":  # of which a page waits for half a second, before it does without
        settings.DEADLETTERS = {"REGION_SECONDS": 0.05}
    addresses = {name: address(name) for name in READ}
    reading = [name for name, tables in reads_of(reader, addresses).items() if table in tables]
    answers, slow = {}, set()

    with locked(table):
        for name in reading:
            with capture_logs() as logged:
                response = asked(reader, name, addresses[name])
                answers[name] = response, text_of(response)
            if LOGGED & {line["event"] for line in logged}:
                slow.add(name)

    statuses = {name: response.status_code for name, (response, _) in answers.items()}
    assert slow == set(reading)
    assert set(statuses.values()) <= {200, 503}
    assert {name for name in WHOLE & set(reading) if statuses[name] != 200} == set()
    assert {name for name in slow - SILENT if "took too long" not in answers[name][1].lower()} == set()
    late = [response for response, _ in answers.values() if response.status_code == 503]
    assert all(response.headers["Retry-After"] and "HX-Request" in response.headers["Vary"] for response in late)


@pytest.mark.parametrize("table", ["last_visits", "saved_views"])
def test_what_a_page_can_do_without_does_not_take_it_away(reader, settings, table):
    settings.DEADLETTERS = {"REGION_SECONDS": 0.5}
    here = {name: address(name) for name in ("overview", "groups", "letters")}

    with locked(table):
        answers = {}
        for name, one in here.items():
            connection.close()  # nor where nobody has asked for it in this session before
            answers[name] = reader.get(one).status_code
        assert answers == dict.fromkeys(here, 200)


def test_a_group_whose_records_are_locked_comes_without_them(reader):
    with locked("operator_actions"):
        response = reader.get(address("group"))

    assert response.status_code == 200
    assert response.context["records"].trouble == "slow"
    assert "No notes yet" not in response.content.decode()


def test_a_page_that_takes_too_long_leads_to_itself_and_a_part_of_one_is_a_line(reader):
    here = address("letter")

    with locked("wh_dead_letters"):
        whole, part = reader.get(f"{here}?in=status%3Dopen"), reader.get(here, headers=HTMX)
    assert (whole.status_code, part.status_code) == (503, 503)
    assert f'href="{here}?in=status%3Dopen"' in whole.content.decode()
    assert part.headers["Content-Type"].startswith("text/plain")
    assert part.content.decode() == "It took too long, and was given up. Try again, or narrow it down."


def test_a_page_that_was_late_leaves_nothing_behind(reader):
    with locked("wh_dead_letters"):
        assert reader.get(address_of_groups := address("groups")).status_code == 200
        reader.get(address("region"))

    assert reader.get(address_of_groups).status_code == 200
    with connection.cursor() as cursor:
        cursor.execute("SHOW statement_timeout")
        assert cursor.fetchone() == ("0",)


@pytest.mark.parametrize("name", [name for name, entry in TABLE.items() if "post" in entry.methods])
def test_every_action_ends_while_what_it_changes_is_locked(reader, name):
    here = address(name)
    typed = {
        "text": "x", "scope": "everything", "verb": "hold", "action": "hold", "decision": "hold", "status": "0",
        "reason": "why", "field": "bytes", "name": "night", "query": "status=open", "what": "inbox", "owner": "o",
    }  # fmt: skip

    answers = []
    for table in ("wh_dead_letters", "operator_actions", "wh_inbox"):
        with locked(table):
            answers.append(reader.post(here, typed, headers=HTMX).status_code)
    assert set(answers) <= {200, 302, 400, 404, 409, 422, 503}


def test_an_action_that_is_late_writes_nothing_and_says_that_one_should_look(reader):
    here = address("add_note")

    with locked("operator_actions"):
        response = reader.post(here, {"text": "half a thought"}, headers=HTMX)
    assert response.status_code == 503
    assert "Look whether it was done" in response.content.decode()
    assert not Note.objects.exists()


def test_a_visit_is_noted_with_its_page(reader):
    LastVisit.objects.all().delete()
    SavedView.objects.all().delete()

    reader.get(address("groups"))
    assert LastVisit.objects.count() == 1
