"""Saved views: filters under a name, one's own or for everybody, and never lost when they are not understood."""

import pytest

from deadletters import savedviews
from deadletters.models import OperatorAction, SavedView
from deadletters.queries.actions import describe
from tests.factories import a_letter, a_user

pytestmark = pytest.mark.django_db


def save(page, name="Night", query="status=open&q=boom", **form):
    return page.post("/letters/views", {"name": name, "query": query, **form})


def tabs(page, query=""):
    return page.get(f"/letters/?{query}").context["views"]


def names(page, query=""):
    return [tab.name for tab in tabs(page, query).tabs]


USUAL = ["All", "Open", "Held", "Recovering", "Failed again", "Mine"]


def test_everybody_has_the_usual_views_and_mine_is_what_one_owns(page):
    mine = a_letter(owner="olga")
    a_letter(deaths=2)

    assert names(page) == USUAL
    shown = page.get(f"/letters/?{tabs(page).tabs[-1].query}").context["page"]
    assert [row.letter.pk for row in shown.rows] == [mine.pk]
    assert len(page.get(f"/letters/?{tabs(page).tabs[-2].query}").context["page"].rows) == 1


def test_the_view_that_the_list_shows_is_marked(page):
    content = page.get("/letters/?status=held&size=25").content.decode()

    assert 'href="/letters/?status=held" aria-current="page">Held' in content
    assert content.count('aria-current="page">') - content.count("url_name") >= 1


def test_a_view_is_saved_renamed_and_removed_from_the_list(page):
    assert save(page, query="q=boom&status=open&size=25").headers["Location"] == "/letters/?status=open&q=boom"
    view = SavedView.objects.get()
    assert (view.name, view.query, view.owner, view.is_shared) == ("Night", "status=open&q=boom", "olga", False)
    assert names(page) == [*USUAL, "Night"]
    assert tabs(page, "status=open&q=boom").own.name == "Night"

    page.post(f"/letters/views/{view.pk}/change", {"name": "Day"})
    assert names(page)[-1] == "Day"
    assert SavedView.objects.get().query == "status=open&q=boom"
    page.post(f"/letters/views/{view.pk}/change", {"verb": "remove"})
    assert names(page) == USUAL


def test_what_has_a_tab_is_not_offered_to_be_saved(page):
    save(page)

    offered = [tabs(page, query).may_save for query in ("", "status=open", "status=open&q=boom", "q=other")]
    assert offered == [False, False, False, True]


def test_others_see_what_is_shared_and_change_nothing_of_it(page, signed_in):
    save(page, name="for all", shared="yes")
    save(page, name="for me", query="q=me")
    vera = signed_in(a_user("vera", "Operators"))
    shared, own = SavedView.objects.get(is_shared=True), SavedView.objects.get(is_shared=False)

    assert names(vera) == [*USUAL, "for all"]
    for form in ({"name": "taken"}, {"verb": "remove"}):
        assert vera.post(f"/letters/views/{shared.pk}/change", form).status_code == 404
    assert vera.get(f"/letters/views/{own.pk}").status_code == 404
    assert vera.get(f"/letters/views/{shared.pk}").status_code == 200
    assert {view.name for view in SavedView.objects.all()} == {"for all", "for me"}


def test_a_viewer_keeps_views_and_shares_none(signed_in, viewer):
    browser = signed_in(viewer)

    assert save(browser).status_code == 302
    assert save(browser, name="more", shared="yes").status_code == 403
    view = SavedView.objects.get()
    assert browser.post(f"/letters/views/{view.pk}/change", {"name": "x", "shared": "yes"}).status_code == 403
    assert not SavedView.objects.filter(is_shared=True).exists()


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"name": " "}, "A view needs a name."),
        ({"name": "x" * 61}, "A name has at most 60 characters"),
        ({"name": "taken"}, "You keep a view named “taken” already."),
        ({"query": "stauts=open"}, "There is no filter “stauts”"),
        ({"query": "q=a&q=b"}, "A filter is given twice"),
        ({"query": "type=" + "é" * 400}, "This filter is too long to be kept."),
    ],
)
def test_what_cannot_be_kept_is_422_with_what_was_typed(page, form, said):
    save(page, name="taken")

    response = save(page, **{"name": "typed", **form})
    assert response.status_code == 422
    content = response.content.decode()
    assert said in content
    assert f'value="{form.get("name", "typed")}"' in content
    assert SavedView.objects.count() == 1


def test_two_people_may_use_one_name(page, signed_in):
    save(page)

    assert save(signed_in(a_user("vera", "Operators"))).status_code == 302


def test_one_keeps_a_bounded_number_of_views(page, monkeypatch):
    monkeypatch.setattr(savedviews, "MAX_VIEWS", 1)
    save(page)

    response = save(page, name="one more")
    assert "You keep 1 views already" in response.content.decode()


def test_a_view_that_is_not_understood_any_more_says_so_and_loses_nothing(page):
    save(page)
    SavedView.objects.update(query="colour=red&q=boom")
    view = SavedView.objects.get()

    content = page.get("/letters/").content.decode()
    assert f'href="/letters/views/{view.pk}"' in content
    shown = page.get(f"/letters/views/{view.pk}").content.decode()
    assert "Its filter is not understood any more." in shown
    assert "There is no filter “colour”" in shown
    assert 'value="colour=red&amp;q=boom"' in shown
    wrong = page.post(f"/letters/views/{view.pk}/change", {"name": "Night", "query": "colour=red"})
    assert wrong.status_code == 422
    assert SavedView.objects.get().query == "colour=red&q=boom"
    mended = page.post(f"/letters/views/{view.pk}/change", {"name": "Night", "query": "q=boom"})
    assert mended.headers["Location"] == "/letters/?q=boom"


def test_markup_in_a_name_is_only_text(page):
    save(page, name="<b>x</b>", query="q=%3Ci%3E")

    content = page.get("/letters/?q=%3Ci%3E").content.decode()
    assert "&lt;b&gt;x&lt;/b&gt;" in content
    assert "<b>x</b>" not in content


def test_what_is_done_to_a_view_is_written_down_and_what_changes_nothing_is_not(page):
    save(page)
    view = SavedView.objects.get()
    change = f"/letters/views/{view.pk}/change"
    for form in ({"name": "Night"}, {"name": "Day"}, {"name": "Day", "shared": "yes"}, {"name": "Day"}):
        page.post(change, form)
    page.post(change, {"verb": "remove"})
    assert page.post(change, {"name": "Gone"}).status_code == 404

    actions = list(OperatorAction.objects.order_by("id"))
    assert [describe(action) for action in actions] == [
        "Saved the view “Night”",
        "Changed the view “Day”",
        "Shared the view “Day”",
        "Unshared the view “Day”",
        "Removed the view “Day”",
    ]
    assert {action.actor for action in actions} == {"olga"}
    assert (actions[1].before["view"], actions[1].after["view"]) == ("Night", "Day")
    assert "boom" in actions[0].after["filter"]


def test_a_view_that_cannot_be_written_down_is_not_saved(page, monkeypatch):
    def broken(**_):
        raise RuntimeError("no room")

    monkeypatch.setattr("deadletters.savedviews.audit.record", broken)
    with pytest.raises(RuntimeError):
        save(page)

    assert not SavedView.objects.exists()
