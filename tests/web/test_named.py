"""A filter names in words what it filters by: the title of a fault, not its id."""

import pytest
from django.urls import reverse

from deadletters import savedviews
from deadletters.models import FailureGroup, GroupAlias, GroupFingerprint, OperatorAction
from tests.factories import a_letter, a_run
from tests.web.test_group_rows import a_group
from tests.web.test_many import ask

pytestmark = pytest.mark.django_db

SECRET = "password=hunter2hunter2"


@pytest.fixture
def group():
    made = a_group()
    FailureGroup.objects.update(title=f"CardDeclined {SECRET}")
    made.refresh_from_db()
    return made


def words_of(response):
    """Return the page without its attributes: what a person reads."""
    import re

    text = re.sub(r"<head>.*?</head>|<[^>]*>", " ", response.content.decode(), flags=re.DOTALL)
    return " ".join(text.split())


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("/letters/?group={0.pk}", "of group “CardDeclined"),
        ("/letters/?group={0.pk.hex}&status=open", "of group “CardDeclined"),
        ("/runs/?group={0.pk}", "Recovery runs on group “CardDeclined"),
        ("/audit/?group={0.pk}", "Actions on group “CardDeclined"),
    ],
)
def test_a_list_of_a_group_is_named_after_its_fault(page, group, address, said):
    response = page.get(address.format(group))

    assert said in words_of(response)
    assert SECRET not in response.content.decode()
    assert str(group.pk) not in words_of(response).partition("Administration")[0].partition("As commands")[0]


def test_a_fingerprint_is_named_with_its_fault_and_one_of_no_group_alone(page, group):
    value = GroupFingerprint.objects.get().fingerprint

    assert f"with fingerprint {value}, “CardDeclined" in words_of(page.get(f"/letters/?fingerprint={value}"))
    assert "with fingerprint 0123456789abcdef clear" in words_of(
        page.get("/letters/?fingerprint=0123456789abcdef")
    ).replace(" 0 ", " ")


def test_a_merged_group_is_named_by_the_one_that_took_its_place(page, group):
    old = a_letter().pk
    GroupAlias.objects.create(alias=old, group=group)

    assert "of group “CardDeclined" in words_of(page.get(f"/letters/?group={old}"))


def test_an_unknown_group_keeps_its_id(page):
    unknown = a_letter().pk

    assert f"of group {unknown}" in words_of(page.get(f"/letters/?group={unknown}"))


def test_the_wizard_and_what_is_asked_before_many_are_triaged_name_the_fault(page, group):
    filters = f"group={group.pk.hex}&status=open"

    run = page.post(reverse("deadletters:prepare_run"), {"scope": "matching", "filter": filters})
    assert "of group “CardDeclined" in words_of(page.get(run.headers["Location"]))
    assert "of group “CardDeclined" in words_of(ask(page, scope="matching", filter=filters))


def test_a_run_of_a_fingerprint_is_named_after_its_fault(page, group):
    value = GroupFingerprint.objects.get().fingerprint

    sent = {"scope": "matching", "filter": f"fingerprint={value}"}
    run = page.post(reverse("deadletters:prepare_run"), sent).headers["Location"]
    response = page.get(run)
    assert f"with fingerprint {value}, “CardDeclined" in words_of(response)
    assert SECRET not in response.content.decode()
    assert "with fingerprint" in words_of(page.get("/runs/"))


def test_a_letter_in_the_list_of_a_group_and_a_saved_view_name_it(page, operator, group):
    letter = a_letter(error=f"shop.{group.title}: gone")
    view = savedviews.save(user=operator, name="mine", query=f"group={group.pk}", is_shared=False)

    crumbs = page.get(reverse("deadletters:letter", args=[letter.pk]), {"in": f"group={group.pk}"})
    assert "of group “CardDeclined" in words_of(crumbs)
    assert "of group “CardDeclined" in words_of(page.get(reverse("deadletters:saved_view", args=[view.id])))


def test_the_audit_of_a_run_and_of_a_letter_names_them(page):
    letter = a_letter(message_type="shop.Pay")
    run = a_run([letter])
    OperatorAction.objects.create(actor="olga", action="note", dead_letter_id=letter.pk)

    assert "on letter shop.Pay" in words_of(page.get(f"/audit/?letter={letter.pk}"))
    assert f"on run “{run.scope_words}”" in words_of(page.get(f"/audit/?run={run.pk}"))
