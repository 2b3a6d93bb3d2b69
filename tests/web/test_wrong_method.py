"""Who opens an address that only takes a form is told so, and led to the page that they want."""

import pytest
from django.urls import reverse

from tests.access_table import TABLE
from tests.addresses import address, letter
from tests.factories import a_user
from tests.web.conftest import HTMX

pytestmark = pytest.mark.django_db

ONLY_FORMS = [name for name, entry in TABLE.items() if entry.methods == ("post",)]


@pytest.fixture
def reader(signed_in):
    return signed_in(a_user("rita", is_superuser=True))


@pytest.mark.parametrize("name", ONLY_FORMS)
def test_an_address_that_only_takes_a_form_says_so_and_leads_to_a_page(reader, name):
    here = address(name)

    whole, part = reader.get(here), reader.get(here, headers=HTMX)
    assert (whole.status_code, part.status_code) == (405, 405)
    assert whole.headers["Allow"] == "POST"
    assert "Nothing was done." in whole.content.decode()
    assert reader.get(whole.context["above"], follow=True).status_code == 200
    assert f'href="{whole.context["above"]}"' in whole.content.decode()
    assert part.content.decode() == "Nothing was done: this address only takes a form."
    assert "HX-Request" in part.headers["Vary"]


@pytest.mark.parametrize(
    ("name", "above"),
    [("add_note", "letter"), ("restore", "version"), ("change_run", "run"), ("let_stream_go", "held_streams"),
     ("resume", "queues"), ("group_act", "group"), ("stop", "live_message"), ("save_view", "letters")],
)  # fmt: skip
def test_it_leads_to_what_the_form_is_about(reader, name, above):
    wanted = address(above)

    assert reader.get(address(name)).context["above"] == wanted


def test_it_leads_to_the_letter_in_its_list(reader):
    here = reverse("deadletters:add_note", args=[letter().pk])

    above = reader.get(f"{here}?in=status%3Dopen").context["above"]
    assert above == f"{reverse('deadletters:letter', args=[letter().pk])}?in=status%3Dopen"
