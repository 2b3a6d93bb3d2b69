"""A locked table takes its own part of a page, and what a page cannot do without ends it soon."""

import pytest

from deadletters.models import FailureGroup, OperatorAction
from tests.addresses import address
from tests.addresses import group as a_group
from tests.addresses import letter as the_letter
from tests.factories import a_user
from tests.locking import locked
from tests.web.conftest import HTMX, text_of

pytestmark = pytest.mark.django_db(transaction=True)

LATE = "Took too long."


@pytest.fixture(autouse=True)
def _quick(settings):
    """Let a page that waits for more than a region wait until the test fails."""
    settings.DEADLETTERS = {"REGION_SECONDS": 0.4, "PAGE_SECONDS": 600}


@pytest.fixture
def group(db) -> FailureGroup:
    return a_group()


@pytest.fixture
def reader(signed_in, group):
    """The browser of an operator, before a letter, its group, and something that was done to both."""
    OperatorAction.objects.create(
        actor="olga", action="assign", dead_letter_id=the_letter().pk, group_id=group.pk, after={"owner": "olga"}
    )
    return signed_in(a_user("olga", "Operators"))


@pytest.mark.parametrize("table", ["wh_dead_letters", "failure_groups", "recovery_runs"])
def test_the_audit_is_shown_without_the_names_of_what_was_done_to(reader, table):
    with locked(table):
        response = reader.get(address("audit"))

    assert (response.status_code, response.context["region"].trouble) == (200, None)
    content = text_of(response)
    assert "What it was done to: took too long." in content
    assert f'href="{address("letter")}"' in content
    assert f'href="{address("group")}"' in content
    assert ">gone<" not in content


@pytest.mark.parametrize("table", ["operator_actions", "notes", "dead_letter_deaths"])
def test_a_subject_is_shown_without_what_happened_to_its_letters(reader, table):
    with locked(table):
        response = reader.get(address("subject"))

    assert response.status_code == 200
    assert len(response.context["found"].value.rows) == 1
    assert response.context["told"].trouble == "slow"
    assert text_of(response).count(LATE) == 1


@pytest.mark.parametrize(("name", "table"), [("group", "failure_groups"), ("letter", "wh_dead_letters")])
def test_a_page_without_which_there_is_nothing_ends_in_the_time_of_a_region(reader, name, table):
    here = address(name)

    with locked(table):
        response = reader.get(here)

    assert response.status_code == 503
    assert "This took too long." in text_of(response)


@pytest.mark.parametrize("headers", [{}, HTMX])
@pytest.mark.parametrize("table", ["failure_groups", "group_fingerprints"])
def test_the_menu_of_a_group_says_in_its_place_that_it_took_too_long(reader, group, table, headers):
    here = address("group_menu")

    with locked(table):
        response = reader.get(here, headers=headers)

    assert response.status_code == 200
    is_known = table != "failure_groups"
    assert (LATE in text_of(response)) == (not is_known)
    assert ("Assign to me" in text_of(response)) == is_known


@pytest.mark.parametrize(
    ("table", "headers", "said"),
    [
        ("wh_dead_letters", {}, "The letters: took too long."),
        ("wh_dead_letters", HTMX, "The letters: took too long."),
        ("operator_actions", {}, LATE),
    ],
)
def test_a_run_is_shown_without_what_a_locked_table_takes(reader, table, headers, said):
    here = address("run")
    letter = address("letter")

    with locked(table):
        response = reader.get(here, headers=headers)
    assert response.status_code == 200
    content = text_of(response)
    assert said in content
    assert f'href="{letter}"' in content
    assert "the letter was purged" not in content
