"""The command that writes made-up dead letters."""

from datetime import UTC, datetime
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from deadletters.demo.seeding import loading
from deadletters.demo.seeding.faults import seeded_faults
from deadletters.demo.seeding.oddities import odd_bodies
from deadletters.models import DeadLetter, Disposition, FailureGroup, RecoveryStatus
from deadletters.words.fingerprints import fingerprint
from queues.models import Source
from queues.stats import stats
from queues.words.outcomes import Cause, FailureReason

pytestmark = pytest.mark.django_db

COUNT, GROUPS = 1_200, 60
UNTIL = "2026-05-01T12:00:00+00:00"


def seed(**options: Any) -> str:
    out = StringIO()
    given = {"count": COUNT, "groups": GROUPS, "until": datetime.fromisoformat(UNTIL), **options}
    call_command("seed_dead_letters", stdout=out, **given)
    return out.getvalue()


def rows(statement: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall()


def digest() -> list[tuple[Any, ...]]:
    """Return what was written, without what numbers itself."""
    return [
        rows(f"SELECT count(*), md5(string_agg({what}, ' ' ORDER BY {key})) FROM {table} t")[0]
        for table, what, key in (
            ("wh_dead_letters", "t::text", "dead_letter_id"),
            ("dead_letter_deaths", "(to_jsonb(t) - 'id')::text", "dead_letter_id, number"),
            ("dead_letter_subjects", "t::text", "dead_letter_id, position"),
        )
    ]


def wipe() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute(
            "TRUNCATE wh_inbox, wh_outbox, wh_perspective_events, wh_dead_letters, dead_letter_deaths,"
            " dead_letter_subjects CASCADE"
        )


def values(column: str) -> set[Any]:
    return set(DeadLetter.objects.values_list(column, flat=True))


def test_every_status_decision_cause_reason_and_source_is_there() -> None:
    seed()

    assert values("recovery_status") == set(RecoveryStatus.values)
    assert values("operator_disposition") == set(Disposition.values)
    assert values("cause") == {str(cause) for cause in Cause}
    assert values("failure_reason") == {int(reason) for reason in FailureReason}
    assert values("source_table") == set(Source.values)
    assert values("deaths") == {1, 2, 3, 4, 5}


def test_same_arguments_give_same_letters() -> None:
    seed()
    first = digest()
    wipe()

    seed()

    assert digest() == first
    assert first[0][0] == COUNT


def test_another_seed_gives_other_letters_beside_the_first() -> None:
    seed()
    seed(seed=2, add=True)

    assert DeadLetter.objects.count() == 2 * COUNT


def test_counts_of_groups_and_subjects_are_those_of_a_recount() -> None:
    seed()

    counted = rows(
        "SELECT fingerprint, version::integer, source_table, recovery_status::integer, operator_disposition::integer,"
        " n FROM group_counts WHERE n <> 0"
    )
    recounted = rows(
        "SELECT error_fingerprint, error_fingerprint_version::integer, source_table, recovery_status,"
        " operator_disposition, count(*) FROM wh_dead_letters GROUP BY 1, 2, 3, 4, 5"
    )
    assert sorted(counted) == sorted(recounted)
    assert sum(row[-1] for row in counted) == COUNT
    subjects = rows("SELECT subject_key, recovery_status::integer, n FROM subject_counts WHERE n <> 0")
    recounted_subjects = rows(
        "SELECT s.subject_key, l.recovery_status, count(*) FROM dead_letter_subjects s"
        " JOIN wh_dead_letters l USING (dead_letter_id) GROUP BY 1, 2"
    )
    assert sorted(subjects) == sorted(recounted_subjects)
    assert rows("SELECT count(*) FROM group_deltas UNION ALL SELECT count(*) FROM subject_deltas") == [(0,), (0,)]


def test_flows_of_the_sources_add_up_to_the_letters_that_are_dead() -> None:
    seed()
    dead = dict(
        rows(
            "SELECT source_table, count(*) FROM wh_dead_letters WHERE recovery_status NOT IN (1, 3)"
            " AND source_table <> 'broker' GROUP BY source_table"
        )
    )

    found = stats().sources
    assert {source.source: source.flow.dead for source in found} == dead
    assert [source.adds_up for source in found] == [True] * 3
    assert sum(source.flow.depth for source in found) > 0


def test_each_group_is_one_fingerprint_named_and_some_are_triaged() -> None:
    seed()

    assert FailureGroup.objects.count() == GROUPS
    assert not FailureGroup.objects.filter(title="").exists()
    assert {"new", "held", "fixed", "resolved"} <= set(FailureGroup.objects.values_list("state", flat=True))


def test_letters_have_the_fingerprint_of_their_own_error() -> None:
    seed()

    for letter in DeadLetter.objects.filter(error_fingerprint_version=2).defer("envelope"):
        own = fingerprint(letter.error_text, cause=letter.cause or "", reason=letter.failure_reason)
        assert own.value == letter.error_fingerprint, letter.error_text


def test_no_two_faults_have_one_fingerprint() -> None:
    known = [fault.fingerprint for fault in seeded_faults(2_000, seed=1) if fault.fingerprint]

    assert len(set(known)) == len(known) == 1_999


def test_odd_texts_are_there() -> None:
    seed()

    assert DeadLetter.objects.filter(error_text=None).exists()
    assert DeadLetter.objects.filter(error_text="").exists()
    assert DeadLetter.objects.filter(error_text__contains="<script>").exists()
    assert max(map(len, DeadLetter.objects.exclude(error_text=None).values_list("error_text", flat=True))) > 15_000
    assert DeadLetter.objects.exclude(envelope_raw=None).exists()
    assert len(odd_bodies()) > 15


def test_columns_fit_the_source() -> None:
    seed()

    outbox = DeadLetter.objects.filter(source_table=Source.OUTBOX)
    assert outbox.exists()
    assert not outbox.filter(destination=None).exists()
    perspectives = DeadLetter.objects.filter(source_table=Source.PERSPECTIVE)
    assert perspectives.exists()
    assert not perspectives.filter(perspective_name=None).exists()
    assert not perspectives.filter(stream_id=None).exists()
    inbox = DeadLetter.objects.filter(source_table=Source.INBOX)
    assert not inbox.exclude(destination=None, perspective_name=None).exists()


def test_deaths_are_numbered_and_end_with_the_letters_own() -> None:
    seed()

    assert rows(
        "SELECT count(*) FROM wh_dead_letters l WHERE l.deaths <> (SELECT count(*) FROM dead_letter_deaths d"
        " WHERE d.dead_letter_id = l.dead_letter_id) OR NOT EXISTS (SELECT FROM dead_letter_deaths d"
        " WHERE d.dead_letter_id = l.dead_letter_id AND d.number = l.deaths"
        " AND d.dead_lettered_at = l.dead_lettered_at AND d.error_text IS NOT DISTINCT FROM l.error_text)"
    ) == [(0,)]


def test_each_recovering_letter_has_its_waiting_row() -> None:
    seed()

    waiting = rows(
        "SELECT dead_letter_id FROM wh_inbox UNION ALL SELECT dead_letter_id FROM wh_outbox"
        " UNION ALL SELECT dead_letter_id FROM wh_perspective_events"
    )
    recovering = DeadLetter.objects.filter(recovery_status=RecoveryStatus.RECOVERING)
    assert sorted(row[0] for row in waiting) == sorted(recovering.values_list("dead_letter_id", flat=True))
    assert waiting


def test_letters_die_within_thirty_days_and_none_later() -> None:
    seed()

    until = datetime(2026, 5, 1, 12, tzinfo=UTC)
    times = values("dead_lettered_at")
    assert max(times) <= until
    assert (until - min(times)).days in (29, 30)
    assert len(values("generation")) == len(loading.BUILDS)


def test_a_database_with_letters_is_refused_without_add() -> None:
    seed()

    with pytest.raises(CommandError, match="--add"):
        seed()
    with pytest.raises(CommandError, match="--seed"):
        seed(add=True)
    assert DeadLetter.objects.count() == COUNT


def test_arguments_out_of_range_are_refused() -> None:
    for bad in ({"groups": 3}, {"count": 50}, {"seed": -1}, {"subjects": 0}):
        with pytest.raises(CommandError):
            seed(**bad)


@pytest.mark.django_db(transaction=True)
def test_batches_of_several_connections_come_to_the_same_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    seed()
    alone = digest()
    wipe()
    monkeypatch.setattr(loading, "BATCH", 250)

    said = seed()

    assert digest() == alone
    assert f"{COUNT:,} letters, " in said
