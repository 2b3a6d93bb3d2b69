"""Who somebody is, accounts and the admin have their time too: nothing waits for a locked table without an end."""

import pytest
from django.urls import reverse

from deadletters.models import DeadLetter, Note
from queues.models import InboxMessage
from tests.addresses import address
from tests.factories import PASSWORD, a_letter, a_user
from tests.locking import locked
from tests.web.conftest import HTMX, text_of

pytestmark = pytest.mark.django_db(transaction=True)

OF_PEOPLE = ("django_session", "auth_user", "auth_user_groups")


@pytest.fixture(autouse=True)
def _quick(settings):
    settings.DEADLETTERS = {"REGION_SECONDS": 0.2, "PAGE_SECONDS": 0.4}


@pytest.fixture
def browser(signed_in):
    """The browser of somebody who administers, and may see dead letters as a member of a group only."""
    return signed_in(a_user("lea", "Leads", is_staff=True))


@pytest.mark.parametrize("table", OF_PEOPLE)
@pytest.mark.parametrize("name", ["overview", "letters", "queues", "export"])
def test_a_page_that_cannot_say_who_asks_is_503_in_its_time(browser, table, name):
    here = address(name)

    with locked(table):
        response = browser.get(here)
    assert response.status_code == 503
    assert response.headers["Retry-After"]
    assert f'href="{here}"' in response.content.decode()
    assert "This took too long." in text_of(response)


@pytest.mark.parametrize("table", OF_PEOPLE)
def test_an_action_and_a_part_of_a_page_say_so_in_a_line(browser, table):
    here, note = address("letter"), address("add_note")

    with locked(table):
        part, action = browser.get(here, headers=HTMX), browser.post(note, {"text": "x"}, headers=HTMX)
    assert (part.status_code, action.status_code) == (503, 503)
    assert part.headers["Content-Type"].startswith("text/plain")
    assert "Look whether it was done" in action.content.decode()
    assert not Note.objects.exists()


@pytest.mark.parametrize(
    ("model", "table"), [(DeadLetter, "wh_dead_letters"), (InboxMessage, "wh_inbox"), (DeadLetter, "django_session")]
)
def test_the_admin_is_503_in_its_time(browser, model, table):
    letter = a_letter()
    pages = [
        reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist"),
        reverse("admin:deadletters_deadletter_change", args=[letter.pk]),
    ]

    with locked(table):
        answers = [browser.get(page) for page in pages[: 1 if model is InboxMessage else 2]]
    assert {answer.status_code for answer in answers} == {503}
    assert all("This took too long." in text_of(answer) for answer in answers)


@pytest.mark.parametrize("table", ["auth_user", "django_session"])
def test_a_sign_in_is_503_in_its_time(client, table):
    a_user("olga", "Operators")

    with locked(table):
        answer = client.post(reverse("login"), {"username": "olga", "password": PASSWORD})
    assert answer.status_code == 503
    assert "Look whether it was done" in text_of(answer)


def test_the_admin_does_what_it_did_where_nothing_is_locked(browser):
    answer = browser.get(reverse("admin:index"))

    assert (answer.status_code, answer.is_rendered) == (200, True)
    assert browser.get(reverse("admin:deadletters_deadletter_changelist")).status_code == 200
