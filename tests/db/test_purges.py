"""Purges: what goes, what stays and why, and counts that stay exact."""

import json
import threading
from uuid import UUID, uuid4

import pytest
from django.core.exceptions import PermissionDenied
from django.db import connection, transaction

from deadletters import counting, triage
from deadletters.models import (
    DeadLetter,
    DeadLetterDeath,
    DeadLetterPayload,
    DeadLetterSubject,
    FailureGroup,
    LegalHold,
    Note,
    OperatorAction,
    RecoveryItem,
    RecoveryStatus,
)
from deadletters.recovery import runs
from deadletters.recovery.stepping import step_run
from deadletters.store.recovery import recover
from deadletters.triage.purges import MAX_PURGED, WHY_NOT
from deadletters.words.errors import BadChange, StaleChange
from deadletters.words.plans import Plan
from deadletters.words.scopes import Letters
from queues import Terminal, handles, send
from queues.models import Stream
from queues.testing import drain
from tests.db.conftest import at_once, until_somebody_waits_for_a_lock
from tests.factories import a_letter, a_user

pytestmark = pytest.mark.django_db


def purge(user, *letters, **named):
    return triage.purge(user=user, dead_letter_ids=[letter.pk for letter in letters], reason="asked to", **named)


def test_a_letter_goes_with_all_that_belongs_to_it_and_leaves_its_audit(lea):
    letter, other = a_letter(subjects=[("order", "42")], deaths=2), a_letter(subjects=[("order", "43")])
    triage.add_note(text="look", user=lea, dead_letter_id=letter.pk)
    triage.edit(user=lea, dead_letter_id=letter.pk, text="{}", reason="why not", row_version=1)

    done = purge(lea, letter)

    assert (done.purged, done.refused) == (1, {})
    assert list(DeadLetter.objects.all()) == [other]
    for model in (DeadLetterDeath, DeadLetterSubject):
        assert set(model.objects.values_list("dead_letter_id", flat=True)) == {other.pk}
    assert not Note.objects.exists()
    assert not DeadLetterPayload.objects.exists()
    assert set(OperatorAction.objects.values_list("action", flat=True)) == {"note", "edit", "purge"}
    kept = OperatorAction.objects.get(action="purge")
    assert (kept.dead_letter_id, kept.reason) == (letter.pk, "asked to")
    assert kept.before["message_id"] == str(letter.source_id)


def test_counts_of_groups_and_subjects_are_exact_afterwards(lea, sql):
    letters = [a_letter(subjects=[("order", "42")], status=RecoveryStatus(n % 2 * 2)) for n in range(6)]
    counting.fold()
    purge(lea, *letters[:3])

    for _ in range(2):
        assert sql("SELECT sum(n) AS n FROM group_totals")[0]["n"] == 3
        counted = "SELECT sum(n) AS n FROM (SELECT n FROM subject_counts UNION ALL SELECT n FROM subject_deltas) c"
        assert sql(counted)[0]["n"] == 3
        counting.fold()


def test_what_is_out_is_not_purged(lea):
    letter = a_letter()
    recover(letter.pk, "ann")

    assert purge(lea, letter).refused == {letter.pk: WHY_NOT["recovering"]}
    assert DeadLetter.objects.exists()
    assert not OperatorAction.objects.exists()


@pytest.mark.parametrize("status", [0, 2, 3, 4])
def test_what_is_open_held_recovered_or_given_up_is_purged(lea, status):
    assert purge(lea, a_letter(status=RecoveryStatus(status))).purged == 1


def held_by(letter, kind):
    if kind == "group":
        counting.fold()
        return {"group_id": FailureGroup.objects.get().pk}
    return {"dead_letter_id": letter.pk} if kind == "letter" else {"subject_type": "order", "subject_id": "42"}


@pytest.mark.parametrize("kind", ["letter", "group", "subject"])
def test_a_legal_hold_keeps_letters_until_it_is_lifted(lea, kind):
    letter = a_letter(subjects=[("order", "42")])
    hold = LegalHold.objects.create(reason="court", placed_by="lea", **held_by(letter, kind))

    assert purge(lea, letter).refused == {letter.pk: WHY_NOT["kept"]}

    hold.lifted_at, hold.lifted_by = letter.dead_lettered_at, "lea"
    hold.save()
    assert purge(lea, letter).purged == 1


def test_a_hold_on_another_letter_keeps_nothing_here(lea):
    kept, letter = a_letter(subjects=[("order", "42")]), a_letter(subjects=[("order", "421"), ("item", "42")])
    LegalHold.objects.create(reason="court", placed_by="lea", subject_type="order", subject_id="42")

    done = purge(lea, kept, letter)
    assert (done.purged, set(done.refused)) == (1, {kept.pk})


@pytest.mark.django_db(transaction=True)
def test_a_hold_that_is_being_placed_is_waited_for(lea):
    letter = a_letter()
    is_placed = threading.Event()

    @transaction.atomic
    def place():
        LegalHold.objects.create(reason="court", placed_by="lea", dead_letter_id=letter.pk)
        is_placed.set()
        until_somebody_waits_for_a_lock()

    def purge_meanwhile():
        assert is_placed.wait(20)
        return purge(lea, letter)

    (_, done) = at_once(place, purge_meanwhile)
    assert done.refused == {letter.pk: WHY_NOT["kept"]}
    assert DeadLetter.objects.exists()


def a_holder():
    @handles("test.Holds", after_death="hold")
    def fails(message):
        if message.payload == 1:
            raise Terminal("no")

    for number in (1, 2):
        send("test.Holds", number, stream="s")
    drain()
    return DeadLetter.objects.get()


def test_a_letter_that_holds_its_stream_is_purged_only_with_its_stream_let_go(lea, handlers):
    letter = a_holder()
    assert Stream.objects.get().held_by == letter.pk

    assert purge(lea, letter).refused == {letter.pk: WHY_NOT["holds its stream"]}
    assert purge(lea, letter, let_streams_go=True).purged == 1

    assert not Stream.objects.filter(held_by__isnull=False).exists()
    drain()
    assert not Stream.objects.exists()
    assert not DeadLetter.objects.exists()


def test_what_is_purged_after_it_was_frozen_is_skipped_by_the_run_and_its_report_stays(lea):
    letters = [a_letter(), a_letter()]
    run_id = runs.prepare(user=lea, scope=Letters(ids=[letter.pk for letter in letters]))
    purge(lea, letters[0])
    runs.start(user=lea, run_id=run_id, plan=Plan())
    for _ in range(3):
        step_run(run_id)

    items = RecoveryItem.objects.filter(run=run_id).values_list("dead_letter_id", "state")
    assert dict(items) == {letters[0].pk: "skipped", letters[1].pk: "sent"}
    assert "gone" in RecoveryItem.objects.get(state="skipped").why


def test_each_letter_of_a_batch_is_answered_for(lea):
    out, gone, free = a_letter(), a_letter(), a_letter()
    recover(out.pk, "ann")
    DeadLetter.objects.filter(pk=gone.pk).delete()

    done = purge(lea, out, gone, free, free)
    assert done.purged == 1
    assert done.refused == {out.pk: WHY_NOT["recovering"], gone.pk: WHY_NOT["gone"]}


def test_a_purge_is_bounded_and_says_so(lea):
    with pytest.raises(BadChange, match="at most 1,000"):
        triage.purge(user=lea, dead_letter_ids=[uuid4() for _ in range(MAX_PURGED + 1)], reason="x")


def test_a_purge_needs_a_reason_and_the_version_that_was_seen(lea):
    letter = a_letter()

    with pytest.raises(BadChange) as raised:
        triage.purge(user=lea, dead_letter_ids=[letter.pk], reason="")
    assert raised.value.field == "reason"
    with pytest.raises(StaleChange):
        purge(lea, letter, row_version=7)
    assert DeadLetter.objects.exists()


@pytest.mark.parametrize("group", ["Operators", "Viewers", None])
def test_only_those_who_may_purge(group):
    letter = a_letter()

    with pytest.raises(PermissionDenied):
        purge(a_user("ann", group), letter)
    assert DeadLetter.objects.exists()


def test_an_id_of_a_purged_letter_is_still_told_when_it_comes_again(lea, handlers):
    @handles("test.Dies", max_attempts=1)
    def dies(message):
        raise Terminal("no")

    receipt = send("test.Dies", {}, message_id=UUID(int=1))
    drain()
    purge(lea, DeadLetter.objects.get())

    assert receipt.is_new
    assert not send("test.Dies", {}, message_id=UUID(int=1)).is_new


@pytest.mark.django_db(transaction=True)
def test_of_a_purge_and_a_recovery_at_once_one_wins_whole(lea):
    for _ in range(5):
        letter = a_letter()
        sent, done = at_once(lambda letter=letter: _recovered(letter.pk), lambda letter=letter: purge(lea, letter))

        assert (sent is None) == (done.purged == 1)
        assert DeadLetter.objects.filter(pk=letter.pk).exists() == (done.purged == 0)


def _recovered(letter_id):
    with transaction.atomic():
        return recover(letter_id, "ann")


def test_what_is_kept_of_a_purge_holds_nothing_of_its_content(lea):
    purge(lea, a_letter(payload='{"note": "very private"}', error="very private"))

    kept = OperatorAction.objects.get()
    assert "very private" not in json.dumps([kept.before, kept.after, kept.reason])
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM dead_letter_deaths")
        assert cursor.fetchone() == (0,)
