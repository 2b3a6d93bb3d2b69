"""Triage through its one door: permission, transition, change and audit together."""

from datetime import UTC, datetime

import pytest
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied

from deadletters import counting, triage
from deadletters.models import DeadLetter, FailureGroup, OperatorAction, RecoveryStatus
from deadletters.store.recovery import dispose
from deadletters.words.errors import BadChange, NoSuchGroup, NoSuchLetter, StaleChange
from deadletters.words.policies import Event, next_status
from tests.factories import a_letter, a_user

pytestmark = pytest.mark.django_db

SOON = datetime(2027, 1, 1, tzinfo=UTC)
LETTER_CHANGES = {
    "owner": "ann",
    "operator_disposition": 2,
    "quiet_until": SOON,
    "quiet_until_generation": "build-9",
}
GROUP_CHANGES = {
    "owner": "ann",
    "state": "resolved",
    "fixed_in_generation": "build-9",
    "quiet_until": SOON,
    "quiet_until_generation": "build-9",
    "quiet_until_count": 100,
    "ticket": "OPS-1",
    "runbook": "https://wiki.example/42",
}


@pytest.fixture
def group(db):
    a_letter()
    counting.fold()
    return FailureGroup.objects.get()


@pytest.mark.parametrize("column", LETTER_CHANGES)
def test_each_triage_column_of_a_letter_is_changed_and_audited(ann, column):
    letter = a_letter()

    changed = triage.change_letter(
        dead_letter_id=letter.pk, user=ann, changes={column: LETTER_CHANGES[column]}, reason="night shift"
    )

    letter.refresh_from_db()
    assert getattr(letter, column) == LETTER_CHANGES[column] == changed.after[column]
    action = OperatorAction.objects.get()
    assert (action.actor, action.action, action.dead_letter_id) == ("ann", "triage", letter.pk)
    assert action.reason == "night shift"
    assert set(action.before) == set(action.after) == {column}


@pytest.mark.parametrize("column", GROUP_CHANGES)
def test_each_triage_column_of_a_group_is_changed_and_audited(ann, group, column):
    triage.change_group(group_id=group.pk, user=ann, changes={column: GROUP_CHANGES[column]})

    group.refresh_from_db()
    assert getattr(group, column) == GROUP_CHANGES[column]
    action = OperatorAction.objects.get()
    assert (action.group_id, action.after[column] is not None) == (group.pk, True)


def test_a_change_that_changes_nothing_writes_nothing(ann, group):
    assert not triage.change_group(group_id=group.pk, user=ann, changes={"owner": "  "})

    group.refresh_from_db()
    assert (group.row_version, group.state) == (1, "new")
    assert not OperatorAction.objects.exists()


def test_a_new_group_that_somebody_works_on_is_ongoing(ann, group):
    triage.change_group(group_id=group.pk, user=ann, changes={"owner": "ann"})

    group.refresh_from_db()
    assert (group.state, group.row_version) == ("ongoing", 2)


@pytest.mark.parametrize("name", ["vic", "sam", None])
def test_nobody_without_the_permission_changes_anything(group, name):
    user = AnonymousUser() if name is None else a_user(name, "Viewers" if name == "vic" else None)
    letter = DeadLetter.objects.get()

    with pytest.raises(PermissionDenied):
        triage.change_letter(dead_letter_id=letter.pk, user=user, changes={"owner": "x"})
    with pytest.raises(PermissionDenied):
        triage.change_group(group_id=group.pk, user=user, changes={"owner": "x"})
    with pytest.raises(PermissionDenied):
        triage.add_note(group_id=group.pk, user=user, text="x")
    assert not OperatorAction.objects.exists()


def test_a_change_of_what_somebody_changed_meanwhile_is_refused(ann, group):
    letter = DeadLetter.objects.get()
    triage.change_group(group_id=group.pk, user=ann, changes={"owner": "bob"}, row_version=1)
    triage.change_letter(dead_letter_id=letter.pk, user=ann, changes={"owner": "bob"}, row_version=1)

    with pytest.raises(StaleChange):
        triage.change_group(group_id=group.pk, user=ann, changes={"owner": "eve"}, row_version=1)
    with pytest.raises(StaleChange):
        triage.change_letter(dead_letter_id=letter.pk, user=ann, changes={"owner": "eve"}, row_version=1)
    assert FailureGroup.objects.get().owner == DeadLetter.objects.get().owner == "bob"


@pytest.mark.parametrize(
    "changes",
    [
        {"owner": "x" * 151},
        {"state": "regressed"},
        {"state": "nonsense"},
        {"state": "fixed"},
        {"quiet_until": datetime(2027, 1, 1)},  # noqa: DTZ001 - a time without a zone is what is refused
        {"quiet_until": "tomorrow"},
        {"quiet_until_count": 0},
        {"quiet_until_count": True},
        {"title": "mine"},
        {"row_version": 7},
    ],
)
def test_a_bad_change_says_which_column_and_changes_nothing(ann, group, changes):
    with pytest.raises(BadChange) as caught:
        triage.change_group(group_id=group.pk, user=ann, changes=changes)

    assert caught.value.field in {*changes, "fixed_in_generation"}
    assert FailureGroup.objects.get().row_version == 1
    assert not OperatorAction.objects.exists()


def test_a_fix_that_names_its_build_is_taken(ann, group):
    triage.change_group(group_id=group.pk, user=ann, changes={"state": "fixed", "fixed_in_generation": "build-9"})
    assert FailureGroup.objects.get().state == "fixed"


def test_letters_and_groups_that_are_not_there_say_so(ann):
    import uuid

    with pytest.raises(NoSuchLetter):
        triage.change_letter(dead_letter_id=uuid.uuid4(), user=ann, changes={"owner": "x"})
    with pytest.raises(NoSuchGroup):
        triage.change_group(group_id=uuid.uuid4(), user=ann, changes={"owner": "x"})
    with pytest.raises(NoSuchGroup):
        triage.add_note(group_id=uuid.uuid4(), user=ann, text="x")


def test_a_note_on_a_group_is_kept_with_its_author_and_audited(ann, group):
    note = triage.add_note(group_id=group.pk, user=ann, text=" the bank again ")

    assert (note.text, note.author, note.group_id, note.dead_letter_id) == ("the bank again", "ann", group.pk, None)
    assert OperatorAction.objects.get().group_id == group.pk


EVENTS = {0: (Event.RELEASE, Event.REOPEN), 1: (Event.RETRY_NOW,), 2: (Event.HOLD,), 3: (Event.GIVE_UP,)}


@pytest.mark.parametrize("status", RecoveryStatus)
@pytest.mark.parametrize("disposition", EVENTS)
def test_the_database_changes_the_status_as_the_table_of_transitions_says(status, disposition):
    letter = a_letter(status=status)
    following = [next_status(status, event) for event in EVENTS[disposition]]
    expected = next((status for status in following if status is not None), status)

    refused = dispose(letter.pk, disposition)

    letter.refresh_from_db()
    assert letter.recovery_status == expected
    allowed = any(status is not None for status in following) or disposition == 0 or expected == disposition + 1
    assert bool(refused) == (status == RecoveryStatus.RECOVERED or not allowed)
    assert letter.operator_disposition == (0 if refused else disposition)


def test_what_a_person_decides_of_a_letter_in_flight_waits_for_its_next_death(ann):
    letter = a_letter(status=RecoveryStatus.RECOVERING)

    triage.change_letter(dead_letter_id=letter.pk, user=ann, changes={"operator_disposition": 3})

    letter.refresh_from_db()
    assert (letter.recovery_status, letter.operator_disposition) == (RecoveryStatus.RECOVERING, 3)


def test_a_recovered_letter_cannot_be_held_and_the_refusal_changes_nothing(ann):
    letter = a_letter(status=RecoveryStatus.RECOVERED)

    with pytest.raises(BadChange, match="the letter is recovered"):
        triage.change_letter(dead_letter_id=letter.pk, user=ann, changes={"owner": "bob", "operator_disposition": 2})

    letter.refresh_from_db()
    assert (letter.owner, letter.operator_disposition) == (None, 0)
    assert not OperatorAction.objects.exists()
