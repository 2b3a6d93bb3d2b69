"""What an address says is understood, or answered with what is wrong: on every page alike, never a page in a page."""

from uuid import UUID, uuid4

import pytest
from django.urls import reverse

from deadletters.models import DeadLetter
from deadletters.words.errors import BadFilter
from deadletters.words.filters import LetterFilter, RunFilter
from tests.access_table import TABLE
from tests.addresses import address
from tests.factories import a_letter, a_user
from tests.web.conftest import HTMX, text_of

pytestmark = pytest.mark.django_db

NOBODYS = UUID(int=4711)
"""An id that no row has; the same in each process, since it is in the names of tests."""

READ = [name for name, entry in TABLE.items() if "get" in entry.methods]
"""All that answers a GET: pages, parts of pages and downloads."""


@pytest.fixture
def root(signed_in):
    return signed_in(a_user("rita", is_superuser=True))


def with_more(here, more):
    return f"{here}{'&' if '?' in here else '?'}{more}"


@pytest.mark.parametrize("headers", [{}, HTMX], ids=["plain", "htmx"])
@pytest.mark.parametrize("name", READ)
def test_a_parameter_that_an_address_does_not_know_is_400_and_named(root, name, headers):
    response = root.get(with_more(address(name), "stauts=open"), headers=headers)

    content = response.content.decode()
    assert response.status_code == 400
    assert "“stauts”" in content
    assert not headers or "<html" not in content


@pytest.mark.parametrize("name", READ)
def test_a_parameter_that_is_given_twice_is_400(root, name):
    of_page = {"overview": "trend", "region": "trend", "group": "trend", "letter": "before", "subject": "type"}
    known = of_page.get(name, "size")

    assert root.get(with_more(address(name), f"{known}=25&{known}=25")).status_code == 400


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("overview", "trend=x", "“x”; known are 24h, 7d, 30d."),
        ("region", "trend=x", "“x”; known are 24h, 7d, 30d."),
        ("group", "trend=", "“”; known are 24h, 7d, 30d."),
        ("letter", "before=yesterday", "must be a time with its zone"),
        ("letter", "before=2026-01-31T12:00", "must be a time with its zone"),
        ("letter", "before=0001-01-01T00:00:00%2B23:00", "must be a time with its zone"),
        ("letter", "in=stauts%3Dopen", "names a list that is not understood: There is no filter “stauts”"),
        ("version", "with=first", "must be the number of a version"),
        ("letters", "search=a&search=b", "given 2 times"),
    ],
)
def test_a_value_that_is_not_understood_is_400_with_what_is(root, name, given, said):
    response = root.get(with_more(address(name), given))

    assert response.status_code == 400
    assert said in text_of(response)


@pytest.mark.parametrize(
    "here",
    [
        "/subject/?id=42",
        "/subject/?type=order&id=42&after=soon",
        "/letters/views/4711",
        f"/letters/{NOBODYS}/",
        f"/letters/{NOBODYS}/edit",
        f"/letters/{NOBODYS}/versions/1",
        f"/groups/{NOBODYS}/",
        f"/groups/{NOBODYS}/menu",
        "/groups/of/0123456789abcdef",
        f"/runs/{NOBODYS}/",
        f"/runs/{NOBODYS}/preview",
        f"/runs/{NOBODYS}/live",
    ],
)
def test_what_is_not_there_is_a_line_of_text_inside_a_page_and_a_page_without(root, here):
    inside, alone = root.get(here, headers=HTMX), root.get(here)
    assert inside.status_code in (400, 404)
    assert inside.headers["Content-Type"] == "text/plain"
    assert 0 < len(inside.content) < 200
    assert "HX-Request" in inside.headers["Vary"]
    if not here.endswith("/live"):
        assert alone.status_code == inside.status_code
        assert "<h1" in alone.content.decode()


def test_a_verb_on_a_group_that_is_gone_is_a_page_without_script(page):
    response = page.post(f"/groups/{uuid4()}/act", {"action": "hold"})

    assert response.status_code == 404
    assert "There is no such group." in response.content.decode()
    assert "<h1" in response.content.decode()


@pytest.mark.parametrize(
    ("given", "meant", "value"),
    [("build", "generation", "build-7"), ("state", "status", "open"), ("decision", "disposition", "hold")],
)
def test_a_filter_goes_by_the_word_of_the_page_too(given, meant, value):
    assert LetterFilter.parse({given: value}) == LetterFilter.parse({meant: value})
    with pytest.raises(BadFilter, match="the same filter"):
        LetterFilter.parse({given: value, meant: value})


def test_runs_of_a_build_go_by_that_word_too():
    assert RunFilter.parse({"build": "build-7"}).generation == "build-7"


def test_letters_are_grouped_by_build_under_one_word(page):
    a_letter(generation="build-7")

    tabs = page.get("/groups/", {"by": "build"}).content.decode()
    assert '<a href="/groups/?by=build" aria-current="page">Build</a>' in tabs
    assert page.get("/groups/", {"by": "generation"}).status_code == 400


def test_letters_of_a_source_of_another_program_are_found_by_its_name(page):
    a_letter(source_table="legacy.queue")
    a_letter(source_table="older")

    response = page.get("/letters/", {"source": "legacy.queue"})
    content = response.content.decode()
    assert [row.letter.source_table for row in response.context["page"].rows] == ["legacy.queue"]
    assert "from the legacy.queue" in content
    assert "<option selected>legacy.queue</option>" in content
    assert response.context["counted"].value.n == 1
    assert 'href="/letters/?source=older"' in page.get("/letters/").content.decode()
    assert len(page.get("/letters/", {"source": "other"}).context["page"].rows) == 2
    assert "legacy.queue" in page.get("/letters/suggest", {"search": "source:leg"}, headers=HTMX).content.decode()


def test_a_run_of_a_source_of_another_program_takes_its_letters_only(page):
    wanted = a_letter(source_table="legacy.queue")
    a_letter(source_table="older")

    run = page.post(reverse("deadletters:prepare_run"), {"scope": "matching", "filter": "source=legacy.queue"})
    shown = page.get(run.headers["Location"])
    items = shown.context["items"]
    assert shown.status_code == 200
    assert [letter.pk for _, letter in items] == [wanted.pk]


def test_the_source_in_a_row_that_no_filter_can_name_leads_to_all_the_others(page):
    a_letter(source_table=" odd ")

    assert 'href="/letters/?source=other"' in page.get("/letters/").content.decode()
    assert DeadLetter.objects.count() == 1
