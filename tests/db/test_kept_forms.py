"""Forms that were filled and not sent: for their person, for a while, and never more than a few."""

from datetime import timedelta

import pytest
from django.db.models import F

from deadletters import keptforms, tasks, triage
from deadletters.models import KeptForm
from deadletters.words.errors import FormTooLong, NoSuchForm, NotYourForm
from tests.factories import a_letter, a_user

pytestmark = pytest.mark.django_db


def keep(person="1", query="a=b", **more):
    return keptforms.keep(**{"person_id": person, "about": "many", "query": query, "most": 100, **more})


def find(name, person="1", **more):
    return keptforms.find(**{"person_id": person, "about": "many", "name": name, **more})


def grow_old():
    KeptForm.objects.update(kept_at=F("kept_at") - timedelta(hours=keptforms.KEPT_HOURS))


def test_a_form_is_found_by_its_person_under_its_name_and_for_its_purpose_only():
    name = keep(query="letter=1&letter=2")

    assert find(name) == "letter=1&letter=2"
    with pytest.raises(NotYourForm):
        find(name, person="2")
    for other in ({"name": "elsewhere"}, {"about": "edit"}, {"dead_letter_id": a_letter().pk}):
        with pytest.raises(NoSuchForm):
            find(**{"name": name, **other})


def test_an_old_form_is_not_found_and_is_forgotten_by_the_house_keeping():
    name = keep()
    grow_old()
    new = keep(person="2")

    with pytest.raises(NoSuchForm):
        find(name)
    tasks.keep_house()
    assert [kept.name for kept in KeptForm.objects.all()] == [new]


def test_the_oldest_makes_room_for_a_new_one_of_the_same_person():
    other = keep(person="2")
    first, *others = [keep() for _ in range(keptforms.MAX_KEPT + 1)]

    with pytest.raises(NoSuchForm):
        find(first)
    assert [find(name) for name in others] == ["a=b"] * keptforms.MAX_KEPT
    assert find(other, person="2") == "a=b"


def test_a_form_that_is_too_long_is_not_kept():
    with pytest.raises(FormTooLong):
        keep(query="x" * 101)
    assert not KeptForm.objects.exists()


def test_nobody_forgets_the_form_of_another():
    name = keep()

    keptforms.forget(person_id="2", name=name)
    assert find(name) == "a=b"
    keptforms.forget(person_id="1", name=name)
    assert not KeptForm.objects.exists()


def test_a_purge_takes_what_was_typed_about_the_letter_with_it():
    letter, other = a_letter(), a_letter()
    keep(about="edit", dead_letter_id=letter.pk)
    keep(about="edit", dead_letter_id=other.pk)

    triage.purge(user=a_user("lea", "Leads"), dead_letter_ids=[letter.pk], reason="asked to")
    assert [kept.dead_letter_id for kept in KeptForm.objects.all()] == [other.pk]
