"""No page hangs: while a table is locked an answer comes, and it says what took too long."""

import pytest
from django.db import DatabaseError, connection
from django.test import Client
from structlog.testing import capture_logs

from deadletters.models import LastVisit, Note, SavedView
from tests.access_table import TABLE
from tests.addresses import address
from tests.factories import a_user
from tests.web.conftest import HTMX
from tests.web.locking import locked

pytestmark = pytest.mark.django_db(transaction=True)

TABLES = ("last_visits", "saved_views", "failure_groups", "operator_actions", "wh_inbox", "wh_dead_letters")
READ = [name for name, entry in TABLE.items() if "get" in entry.methods]
LOGGED = {"page_took_too_long", "region_took_too_long", "visit_not_noted"}
SILENT = {"suggest"}
"""What has no place to say it: a search offers less."""


@pytest.fixture(autouse=True)
def _quick(settings):
    settings.DEADLETTERS = {"REGION_SECONDS": 0.05, "PAGE_SECONDS": 0.2}


@pytest.fixture
def reader(signed_in) -> Client:
    """The browser of somebody who may do everything, and is known."""
    browser = signed_in(a_user("rita", is_superuser=True))
    browser.get(address("overview"))
    return browser


def text_of(response) -> str:
    """Return what came of an answer, also of one that breaks off."""
    if not response.streaming:
        return response.content.decode()
    try:
        return b"".join(response.streaming_content).decode()
    except DatabaseError:
        return "broke off: took too long"


@pytest.mark.parametrize("table", TABLES)
def test_every_page_answers_while_a_table_is_locked_and_says_what_took_too_long(reader, table):
    addresses = {name: address(name) for name in READ}
    answers, slow = {}, set()

    with locked(table):
        for name, here in addresses.items():
            headers = HTMX if TABLE[name].kind == "fragment" else {}
            with capture_logs() as logged:
                response = reader.get(here, headers=headers)
                answers[name] = response, text_of(response)
            if LOGGED & {line["event"] for line in logged}:
                slow.add(name)

    assert slow, "nothing reads this table"
    assert {
        name for name, (response, _) in answers.items() if response.status_code not in (200, 204, 302, 503)
    } == set()
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
