"""Counts of groups and subjects: exact at every moment, whoever changes letters and however many at once."""

import random
import threading
from contextlib import closing
from datetime import UTC, datetime
from functools import partial

import pytest
from django.db import connection, transaction

from deadletters import counting
from deadletters.models import (
    DeadLetter,
    FailureGroup,
    GroupDelta,
    GroupFingerprint,
    GroupHour,
    RecoveryStatus,
    SubjectDelta,
)
from deadletters.store.recovery import dispose, recover
from queues import NewMessage, Subject, Terminal, attributed, handles, send, send_many
from queues.testing import drain
from tests.db.conftest import at_once, move_by_hand, until_somebody_waits_for_a_lock
from tests.factories import a_letter

GROUPS_RECOUNTED = """
    SELECT error_fingerprint, error_fingerprint_version, source_table, recovery_status, operator_disposition, count(*)
      FROM wh_dead_letters WHERE superseded_by IS NULL GROUP BY 1, 2, 3, 4, 5
"""
SUBJECTS_RECOUNTED = """
    SELECT s.subject_key::text, l.recovery_status, count(*)
      FROM wh_dead_letters l JOIN dead_letter_subjects s USING (dead_letter_id)
     WHERE l.superseded_by IS NULL GROUP BY 1, 2
"""
SUBJECTS_COUNTED = """
    SELECT subject_key::text, recovery_status, sum(n) FROM (
        SELECT subject_key, recovery_status, n FROM subject_counts
        UNION ALL SELECT subject_key, recovery_status, n FROM subject_deltas) c
     GROUP BY 1, 2
"""


def table(statement):
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return {row[:-1]: int(row[-1]) for row in cursor.fetchall() if row[-1]}


def assert_exact():
    assert table("SELECT * FROM group_totals") == table(GROUPS_RECOUNTED)
    assert table(SUBJECTS_COUNTED) == table(SUBJECTS_RECOUNTED)


def assert_groups_have_their_numbers():
    """Of letters whose faults have groups; other letters have none to be counted in."""
    folded = table(
        "SELECT group_id::text, 'all', letters FROM failure_groups"
        " UNION ALL SELECT group_id::text, 'open', open_letters FROM failure_groups"
    )
    assert folded == table(
        "SELECT f.group_id::text, k.kind, sum(t.n)"
        "  FROM group_totals t JOIN group_fingerprints f USING (fingerprint, version)"
        " CROSS JOIN LATERAL (VALUES ('all', true), ('open', t.recovery_status = 0)) AS k (kind, counts)"
        " WHERE k.counts GROUP BY 1, 2"
    )


ABOUT_42 = [("order", "42"), ("customer", "ada")]


@pytest.mark.django_db
def test_counts_are_exact_before_and_after_folding():
    for status in RecoveryStatus:
        a_letter(status=status, subjects=ABOUT_42)
    a_letter(error="KeyError: 'x'", source_table="wh_outbox", destination="bank")

    assert_exact()
    assert counting.fold() > 0
    assert_exact()
    assert_groups_have_their_numbers()
    assert not GroupDelta.objects.exists()
    assert not SubjectDelta.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize(
    "change",
    [
        "UPDATE wh_dead_letters SET recovery_status = 2",
        "UPDATE wh_dead_letters SET operator_disposition = 2",
        "UPDATE wh_dead_letters SET superseded_by = gen_random_uuid()",
        "UPDATE wh_dead_letters SET error_fingerprint = 'abcd', error_fingerprint_version = 2",
        "UPDATE wh_dead_letters SET source_table = 'broker', recovery_status = 4",
        "UPDATE wh_dead_letters SET owner = 'ann'",
        "DELETE FROM dead_letter_subjects",
        """UPDATE wh_dead_letters SET superseded_by = gen_random_uuid(); DELETE FROM dead_letter_deaths;
           DELETE FROM dead_letter_subjects; DELETE FROM wh_dead_letters""",
        "DELETE FROM dead_letter_deaths; DELETE FROM dead_letter_subjects; DELETE FROM wh_dead_letters",
        """INSERT INTO dead_letter_subjects (dead_letter_id, position, type, id, subject_key)
           SELECT dead_letter_id, 9, 'order', '42', gen_random_uuid() FROM wh_dead_letters""",
    ],
)
def test_any_writer_of_the_tables_keeps_the_counts_exact(change, sql):
    for status in RecoveryStatus:
        a_letter(status=status, subjects=[("customer", "ada"), ("tenant", str(status))])
    counting.fold()

    sql(change)

    assert_exact()
    counting.fold()
    assert_exact()
    assert_groups_have_their_numbers()


@pytest.mark.django_db
def test_a_change_that_no_count_knows_appends_nothing(sql):
    a_letter(subjects=ABOUT_42)
    counting.fold()

    sql("UPDATE wh_dead_letters SET owner = 'ann', row_version = 2")

    assert not GroupDelta.objects.exists()
    assert not SubjectDelta.objects.exists()


@pytest.mark.django_db
def test_a_batch_of_one_fault_appends_one_change():
    ids = [receipt.message_id for receipt in send_many([NewMessage(type="test.Any", payload=n) for n in range(20)])]
    moves = ", ".join(
        f"jsonb_build_object('source_id', '{message_id}', 'failure_reason', 2, 'error_text', 'boom')"
        for message_id in ids
    )
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT move_batch_to_dead_letters('wh_inbox', jsonb_build_array({moves}), NULL, 'g')")

    assert [(delta.n, delta.deaths) for delta in GroupDelta.objects.all()] == [(20, 20)]


@pytest.mark.django_db
def test_a_group_is_made_by_the_folder_with_the_sample_and_its_name():
    first = a_letter(error="shop.errors.CardDeclined [E51]: card 4242 of order 17", message_type="shop.Charge")
    newest = a_letter(error="shop.errors.CardDeclined [E51]: card 1111 of order 18", message_type="shop.Charge")
    assert not FailureGroup.objects.exists()

    counting.fold()

    group = FailureGroup.objects.get()
    assert group.sample_letter_id == newest.dead_letter_id
    assert (group.first_seen_at, group.last_seen_at) == (first.dead_lettered_at, newest.dead_lettered_at)
    assert group.title == "CardDeclined [E51]"
    assert "4242" not in group.template
    assert (group.message_type, group.state) == ("shop.Charge", "new")


@pytest.mark.django_db
def test_folding_twice_makes_no_second_group_and_counts_nothing_twice():
    a_letter()
    counting.fold()
    a_letter()
    counting.fold()
    counting.fold()

    assert FailureGroup.objects.count() == GroupFingerprint.objects.count() == 1
    assert_exact()


@pytest.mark.django_db
def test_the_trend_counts_deaths_by_hour_and_build(handlers):
    @handles("test.Dies", max_attempts=1)
    def dies(message):
        raise Terminal("no")

    for _ in range(2):
        send("test.Dies", {})
    drain()
    recover(DeadLetter.objects.first().dead_letter_id, "ann")
    drain()
    counting.fold()

    assert sum(GroupHour.objects.values_list("deaths", flat=True)) == 3


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("triage", "state"),
    [
        ("state = 'resolved', state_at = '2026-01-01'", "regressed"),
        ("state = 'resolved', state_at = '2027-01-01'", "resolved"),
        ("state = 'fixed', fixed_in_generation = 'build-1', state_at = '2027-01-01'", "fixed"),
        ("state = 'fixed', fixed_in_generation = 'build-1', state_at = '2026-01-01'", "regressed"),
        ("state = 'fixed', fixed_in_generation = 'build-2', state_at = '2026-01-01'", "fixed"),
        ("state = 'held'", "held"),
    ],
)
def test_a_death_after_a_fix_makes_the_group_regressed(triage, state, sql):
    a_letter()
    counting.fold()
    sql(f"UPDATE failure_groups SET {triage}")

    a_letter(generation="build-1")
    counting.fold()

    assert FailureGroup.objects.get().state == state


@pytest.mark.django_db
def test_a_group_knows_its_first_and_its_last_death_whatever_order_they_are_folded_in():
    for day in (5, 2, 9, 4):
        a_letter(dead_lettered_at=datetime(2026, 3, day, tzinfo=UTC))
        counting.fold()

    group = FailureGroup.objects.get()
    assert (group.first_seen_at.day, group.last_seen_at.day) == (2, 9)


@pytest.mark.django_db
def test_a_letter_that_is_fingerprinted_anew_takes_its_death_to_the_other_trend(sql):
    letter = a_letter(dead_lettered_at=datetime(2026, 3, 5, 10, 30, tzinfo=UTC))
    a_letter(dead_lettered_at=datetime(2026, 3, 5, 10, 40, tzinfo=UTC))
    counting.fold()
    sql("UPDATE wh_dead_letters SET error_fingerprint = 'new' WHERE dead_letter_id = %s", letter.pk)
    counting.fold()

    trends = dict(GroupHour.objects.values_list("fingerprint", "deaths"))
    assert trends == {letter.error_fingerprint: 1, "new": 1}
    assert FailureGroup.objects.get(fingerprints__fingerprint="new").first_seen_at == letter.dead_lettered_at


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("before", ["DELETE FROM dead_letter_subjects", "INSERT INTO dead_letter_subjects SELECT"])
def test_subjects_that_change_while_their_letter_does_stay_exact(before, sql):
    letter = a_letter(subjects=ABOUT_42)
    change = {
        "DELETE FROM dead_letter_subjects": before,
        "INSERT INTO dead_letter_subjects SELECT": (
            "INSERT INTO dead_letter_subjects (dead_letter_id, position, type, id, subject_key)"
            " SELECT dead_letter_id, 9, 'tenant', 'a', dead_letter_subject_key('tenant', 'a') FROM wh_dead_letters"
        ),
    }[before]
    changed, leave = threading.Event(), threading.Event()

    def change_subjects():
        with closing(connection), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(change)
            changed.set()
            assert leave.wait(20)

    def hold():
        with closing(connection), transaction.atomic():
            dispose(letter.pk, 2)

    threads = [threading.Thread(target=change_subjects), threading.Thread(target=hold)]
    threads[0].start()
    assert changed.wait(20)
    threads[1].start()
    try:
        until_somebody_waits_for_a_lock()
    finally:
        leave.set()
    for thread in threads:
        thread.join(20)

    assert_exact()


@pytest.mark.django_db(transaction=True)
def test_two_movers_of_one_new_fault_do_not_wait_for_each_other(sql):
    first, second = (send("test.Any", {}).message_id for _ in range(2))
    entered, leave = threading.Event(), threading.Event()

    def hold_open():
        with closing(connection), transaction.atomic():
            move_by_hand(first, error="SameError: x")
            entered.set()
            assert leave.wait(20)

    thread = threading.Thread(target=hold_open)
    thread.start()
    assert entered.wait(20)
    try:
        sql("SET lock_timeout = '3s'")
        assert move_by_hand(second, error="SameError: x") is not None
    finally:
        leave.set()
        thread.join()
        sql("RESET lock_timeout")
    assert_exact()


@pytest.mark.django_db(transaction=True)
def test_two_folders_at_once_count_everything_once():
    for n in range(5):
        a_letter(error=f"Error{n}: x", subjects=ABOUT_42)

    at_once(*[counting.fold] * 4)

    counting.fold()
    assert_exact()
    assert FailureGroup.objects.count() == 5
    assert set(FailureGroup.objects.values_list("title", flat=True)) == {f"Error{n}" for n in range(5)}


@pytest.mark.django_db(transaction=True)
def test_counts_are_exact_after_a_storm_of_moves_recoveries_and_folds(handlers):
    """Movers, recoverers, people, purgers and folders at once; afterwards counts and a recount agree."""

    @handles("test.Storm", max_attempts=1)
    def storm(message):
        with attributed(Subject("order", str(message.payload % 7)), Subject("tenant", "acme")):
            if message.meta.life == 1 or message.payload % 2:
                raise [ValueError, KeyError, LookupError][message.payload % 3](f"storm {message.payload}")

    send_many([NewMessage(type="test.Storm", payload=n) for n in range(150)])
    drain()
    letters = list(DeadLetter.objects.values_list("dead_letter_id", flat=True))
    assert len(letters) == 150

    at_once(
        *(partial(storm_of_recoveries, letters, seed) for seed in range(2)),
        partial(storm_of_dispositions, letters),
        partial(storm_of_purges, letters[:20]),
        drain_some,  # one to a process
        *[fold_some] * 2,
    )

    drain()
    assert_exact()
    counting.fold()
    assert_exact()
    assert sum(table("SELECT 'all', sum(n) FROM group_totals").values()) == DeadLetter.objects.count()


def storm_of_recoveries(letters, seed):
    for letter_id in random.Random(seed).sample(letters, len(letters)):
        with transaction.atomic():
            recover(letter_id, f"person {seed}")


def storm_of_dispositions(letters):
    chance = random.Random(3)
    for letter_id in chance.sample(letters, 60):
        with transaction.atomic():
            dispose(letter_id, chance.randrange(4))


def storm_of_purges(letters):
    for letter_id in letters:
        with transaction.atomic():
            letter = DeadLetter.objects.select_for_update().filter(pk=letter_id, recovery_status__in=(0, 2, 3, 4))
            if letter.exists():
                DeadLetter.objects.filter(pk=letter_id).delete()


def drain_some():
    for _ in range(5):
        drain()


def fold_some():
    for _ in range(20):
        counting.fold()
