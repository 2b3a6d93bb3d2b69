"""The page of all components shows each of them in each state: nothing, one, many, slow, broken, disabled."""

import re

import pytest

from deadletters.queries.regions import Trouble
from deadletters.views import overview

pytestmark = pytest.mark.django_db


@pytest.fixture
def shown(page, settings):
    settings.DEBUG = True
    return page.get("/patterns")


def read(response):
    """Return what a person reads or is told of the page."""
    content = response.content.decode()
    titles = re.findall(r'title="([^"]*)"', content)
    return " ".join([*re.sub(r"<[^>]*>", " ", content).split(), *titles]).replace(" …", "…")


def test_every_region_of_the_overview_is_there_in_every_state(shown):
    parts = shown.context["parts"]

    assert [part.title for part in parts] == [part.title for part in overview.PARTS.values()]
    for part in parts:
        names = [state.name for state in part.states]
        assert {"empty", "one", "many", *Trouble} <= set(names), part.title
    assert shown.content.decode().count("Took too long.") > len(parts)
    assert shown.content.decode().count("Could not be read.") > len(parts)


def test_each_state_of_the_components_is_shown(shown):
    text = read(shown)

    wanted = (
        *("Nothing died.", "This is your first visit.", "Nothing is open.", "No group has an open letter."),
        *("No recovery is under way.", "No build has reported in.", "Nobody else did anything."),
        *("Held by you just now.", "Sent back to its queue.", "Recover all that match: 312…"),
        *("Recover all that match: 10,000+…", "Recover all that match: up to 5,432…", "Recover all about it: 312…"),
        *("Recover all that match, not counted…", "None of them is open or held.", "Counting took too long."),
        *("Give it back: nobody owns it", "Release it: 316 are held", "Hold its 312 open letters, new ones too"),
        *("1,000+ failed again", "New since your last visit", "View run", "Recover 60 letters"),
        *("Recover 37 of 60 letters", "Recover up to 60 letters", "No notes yet.", "A note needs some text."),
        *("Nothing yet.", "everything: 336", "all 10,000+ that match"),
    )
    assert [said for said in wanted if said not in text] == []


def test_nothing_of_the_page_asks_the_server_by_itself(shown):
    content = shown.content.decode()

    assert "data-poll" not in content
    assert not re.search(r'hx-trigger="(load|every)', content)


def test_bars_and_menus_are_shown_with_rights_and_without(shown):
    content = shown.content.decode()

    assert content.count('class="bulk"') == len(shown.context["totals"]) + 1
    without = content.partition("Menus of a row")[2].partition("without rights")[2].partition("</section>")[0]
    assert "Copy the link" in without
    assert "Hold its" not in without
