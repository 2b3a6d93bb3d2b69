"""A group's hold and quiet time reach its letters, new ones too, and nothing that a person decided about a letter."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from deadletters import counting, refingerprinting, triage
from deadletters.models import DeadLetter, FailureGroup, RecoveryPass, RecoveryPolicy
from deadletters.recovery import passes
from deadletters.store import decisions, walks
from deadletters.store.decisions import Decided
from deadletters.words.errors import BadChange
from deadletters.words.policies import Decision
from tests.db.conftest import at_once
from tests.factories import a_letter

pytestmark = pytest.mark.django_db

HOLD, RELEASE = {"operator_disposition": 2}, {"operator_disposition": 0}


def a_group_of(*letters: DeadLetter) -> FailureGroup:
    counting.fold()
    return FailureGroup.objects.get(fingerprints__fingerprint=letters[0].error_fingerprint)


def new_letter(**fields: Any) -> DeadLetter:
    return a_letter(dead_lettered_at=timezone.now() - timedelta(seconds=5), **fields)


def state_of(letter: DeadLetter) -> tuple[int, int]:
    letter.refresh_from_db()
    return letter.recovery_status, letter.operator_disposition


def change(group: FailureGroup, user: Any, changes: dict[str, Any]) -> None:
    triage.change_group(group_id=group.pk, user=user, changes=changes)
    passes.step(seconds=60)


def test_a_group_that_is_held_holds_its_open_letters_at_once(ann):
    letters = [new_letter(next_recovery_at=timezone.now()) for _ in range(3)]
    other = new_letter(error="KeyError: other", next_recovery_at=timezone.now())
    group = a_group_of(*letters)

    triage.change_group(group_id=group.pk, user=ann, changes=HOLD)

    group.refresh_from_db()
    assert (group.state, group.held_at is not None) == ("held", True)
    assert [state_of(letter) for letter in letters] == [(2, 2)] * 3
    assert {letter.next_recovery_at for letter in letters} == {None}
    assert {letter.held_by_group for letter in letters} == {group.pk}
    assert state_of(other) == (0, 0)


def test_a_letter_in_flight_is_held_from_its_next_death_on_and_a_recovered_one_never(ann):
    flying, recovered = new_letter(status=1), new_letter(status=3)
    group = a_group_of(flying)

    change(group, ann, HOLD)
    assert (state_of(flying), state_of(recovered)) == ((1, 2), (3, 0))

    change(group, ann, RELEASE)
    assert (state_of(flying), state_of(recovered)) == ((1, 0), (3, 0))


def test_a_letter_that_dies_in_a_held_group_is_held_within_a_tick(ann):
    first = new_letter()
    change(a_group_of(first), ann, HOLD)
    late = new_letter(next_recovery_at=timezone.now())
    counting.fold()

    passes.step(seconds=60)

    assert state_of(late) == (2, 2)


@pytest.mark.parametrize("decided", [1, 2, 3])
def test_what_a_person_decided_about_a_letter_is_not_written_over(ann, decided):
    letter, other = new_letter(), new_letter()
    group = a_group_of(letter)
    triage.change_letter(dead_letter_id=letter.pk, user=ann, changes={"operator_disposition": decided})
    before = state_of(letter)

    change(group, ann, HOLD)
    assert (state_of(letter), state_of(other)) == (before, (2, 2))

    change(group, ann, RELEASE)
    assert (state_of(letter), state_of(other)) == (before, (0, 0))


@pytest.mark.parametrize(("status", "disposition"), [(0, 1), (2, 2), (1, 3), (0, 3)])
def test_a_hold_that_was_decided_before_a_person_decided_is_not_written(ann, status, disposition):
    """Nor where the decision was made in plain SQL, that counts no versions."""
    letter, other = new_letter(status=status), new_letter()
    group = a_group_of(other)
    looked = decisions.look_at([letter.pk, other.pk])
    DeadLetter.objects.filter(pk=letter.pk).update(operator_disposition=disposition)

    written = decisions.write([Decided(letter=each, decision=Decision.GROUP_HOLD) for each in looked])

    assert written == {other.pk: Decision.GROUP_HOLD}
    assert (state_of(letter), letter.held_by_group) == ((status, disposition), None)
    assert (state_of(other), other.held_by_group) == ((2, 2), group.pk)

    change(group, ann, RELEASE)
    assert state_of(letter) == (status, disposition)


def test_a_letter_that_a_person_took_out_of_the_hold_stays_out(ann):
    letter, other = new_letter(), new_letter()
    group = a_group_of(letter)
    change(group, ann, HOLD)
    triage.change_letter(dead_letter_id=letter.pk, user=ann, changes=RELEASE)

    change(group, ann, {"quiet_until": timezone.now() + timedelta(hours=1)})

    assert (state_of(letter), state_of(other)) == ((0, 0), (2, 2))


def test_a_letter_that_a_person_held_stays_held_when_its_group_is_not_any_more(ann):
    letter = new_letter()
    group = a_group_of(letter)
    change(group, ann, HOLD)
    for decision in (RELEASE, HOLD):
        triage.change_letter(dead_letter_id=letter.pk, user=ann, changes=decision)

    change(group, ann, RELEASE)

    assert state_of(letter) == (2, 2)


def test_lifting_a_hold_puts_letters_back_in_the_schedule_as_their_policy_says(ann):
    automatic, never = new_letter(), new_letter(cause="terminal")
    group = a_group_of(automatic)
    change(group, ann, HOLD)

    change(group, ann, RELEASE)

    group.refresh_from_db()
    assert (group.state, group.held_at) == ("ongoing", None)
    assert (state_of(automatic), state_of(never)) == ((0, 0), (0, 0))
    wait = automatic.next_recovery_at - automatic.dead_lettered_at
    assert timedelta(minutes=30) <= wait <= timedelta(minutes=60)
    assert never.next_recovery_at is None


def test_a_letter_that_died_differently_meanwhile_is_let_go_with_the_group_that_held_it(ann):
    letter = new_letter()
    group = a_group_of(letter)
    change(group, ann, HOLD)
    DeadLetter.objects.filter(pk=letter.pk).update(error_fingerprint="0" * 16)

    change(group, ann, RELEASE)

    assert state_of(letter) == (0, 0)


def test_a_quiet_group_puts_its_letters_off_and_back_when_it_is_not_quiet_any_more(ann):
    letter = new_letter()
    group = a_group_of(letter)
    late = timezone.now() + timedelta(days=3)

    change(group, ann, {"quiet_until": late})
    letter.refresh_from_db()
    assert letter.next_recovery_at == late

    change(group, ann, {"quiet_until": None})
    letter.refresh_from_db()
    assert letter.next_recovery_at < timezone.now() + timedelta(hours=1)


def test_a_big_group_is_held_in_batches_that_any_worker_goes_on_with(ann, monkeypatch):
    letters = [new_letter() for _ in range(7)]
    group = a_group_of(*letters)
    monkeypatch.setattr(passes, "BATCH_ROWS", 2)

    triage.change_group(group_id=group.pk, user=ann, changes=HOLD)
    assert DeadLetter.objects.filter(recovery_status=2).count() == 2
    assert RecoveryPass.objects.get().group_id == group.pk

    passes.step(seconds=60)
    assert DeadLetter.objects.filter(recovery_status=2).count() == 7
    assert not RecoveryPass.objects.exists()


def test_letters_that_died_at_one_moment_are_all_met_by_a_walk_in_parts():
    moment = timezone.now()
    letters = {a_letter(dead_lettered_at=moment).pk for _ in range(5)}
    met, last = [], None

    while (part := walks.open_of("budget_spent", None, after=last, limit=2)).last is not None:
        met += part.ids
        last = part.last

    assert len(met) == 5
    assert set(met) == letters


@pytest.mark.parametrize("wrong", [1, 3, True, "hold"])
def test_a_group_is_only_held_or_not(ann, wrong):
    group = a_group_of(new_letter())

    with pytest.raises(BadChange):
        triage.change_group(group_id=group.pk, user=ann, changes={"operator_disposition": wrong})


def test_a_pass_brings_the_open_letters_of_a_policy_in_line_and_changes_nothing_the_second_time(sql):
    spent = new_letter(recovery_attempts=1)
    early = new_letter()
    closed = new_letter(status=4)
    RecoveryPolicy.objects.filter(cause="budget_spent", failure_reason=None).update(cooldown_seconds=60, then="give_up")

    for _ in range(2):
        passes.of_policy("budget_spent", None)
        passes.step(seconds=60)
        versions = list(DeadLetter.objects.order_by("pk").values_list("row_version", "next_recovery_at"))

    assert [state_of(letter) for letter in (spent, early, closed)] == [(4, 0), (0, 0), (4, 0)]
    assert timedelta(seconds=30) <= early.next_recovery_at - early.dead_lettered_at <= timedelta(seconds=60)
    assert versions == list(DeadLetter.objects.order_by("pk").values_list("row_version", "next_recovery_at"))
    assert DeadLetter.objects.get(pk=spent.pk).row_version == 2


@pytest.mark.parametrize(
    ("fields", "is_scheduled"),
    [({}, True), ({"recovery_attempts": 1}, False), ({"cause": "terminal"}, False), ({"failure_reason": 4}, False)],
    ids=["something is left", "spent", "never automatic", "without recoveries"],
)
def test_a_letter_that_a_person_opens_is_scheduled_again_if_anything_is_left_and_never_held_again(
    ann, fields, is_scheduled
):
    letter = new_letter(status=2, operator_disposition=2, **fields)

    triage.change_letter(dead_letter_id=letter.pk, user=ann, changes=RELEASE)
    passes.of_policy(letter.cause, None)
    passes.step(seconds=60)

    assert state_of(letter) == (0, 0)
    assert (letter.next_recovery_at is not None) is is_scheduled


@pytest.mark.django_db(transaction=True)
def test_a_group_is_held_while_its_letters_are_fingerprinted_anew(ann):
    """The one locks the group and wants letters, the other letters and a key of the group."""
    letters = [new_letter(error_fingerprint_version=1, error_fingerprint="1" * 16) for _ in range(20)]
    group = a_group_of(*letters)

    at_once(
        lambda: triage.change_group(group_id=group.pk, user=ann, changes=HOLD),
        refingerprinting.refingerprint,
    )
    passes.step(seconds=60)

    assert {state_of(letter) for letter in letters} == {(2, 2)}


def test_a_letter_s_page_says_that_it_is_held_with_its_group(ann, client):
    letter = new_letter()
    group = a_group_of(letter)
    change(group, ann, HOLD)

    client.force_login(ann)
    content = client.get(f"/letters/{letter.pk}/").content.decode()

    assert f'/groups/{group.pk}/">with its group</a>' in content


def test_a_group_is_held_and_let_go_on_its_page(ann, client):
    letter = new_letter()
    group = a_group_of(letter)
    client.force_login(ann)
    page = f"/groups/{group.pk}/"

    for decision, state in (("2", (2, 2)), ("0", (0, 0))):
        version = FailureGroup.objects.get().row_version
        client.post(f"{page}triage", {"operator_disposition": decision, "row_version": version})
        assert state_of(letter) == state
        is_selected = '<option value="2" selected>' in client.get(page).content.decode()
        assert is_selected is (decision == "2")
