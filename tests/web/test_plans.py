"""The hot reads of the list use their indexes."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from deadletters import counting
from deadletters.models import FailureGroup
from deadletters.queries import about, counts, letters, recent, subjects
from deadletters.queries.letterrows import LIST_FIELDS
from deadletters.words.filters import Cursor, LetterFilter, SubjectFilter
from tests.factories import NOON

pytestmark = pytest.mark.django_db

FILL = """
INSERT INTO wh_dead_letters (dead_letter_id, source_table, source_id, message_type, envelope, failure_reason,
                             attempts_when_dlq, generation, dead_lettered_at, recovery_status, recovered_at)
SELECT gen_random_uuid(), 'wh_inbox', gen_random_uuid(), 'type.' || n %% 50, '{}', n %% 90, 1, '',
       %s - n * interval '1 s',
       CASE n %% 100 WHEN 0 THEN 0 ELSE 3 END, %s
  FROM generate_series(1, 6000) n
"""
SUBJECTS = """
INSERT INTO dead_letter_subjects (dead_letter_id, position, type, id, subject_key)
SELECT dead_letter_id, 0, 'order', dead_letter_id::text, dead_letter_subject_key('order', dead_letter_id::text)
  FROM wh_dead_letters
"""


@pytest.fixture
def many():
    """Six thousand letters of fifty types, one in a hundred of them open."""
    with connection.cursor() as cursor:
        cursor.execute(FILL, [NOON, NOON])
        cursor.execute(SUBJECTS)
        cursor.execute("ANALYZE wh_dead_letters, dead_letter_subjects")


def plan(filters):
    (matching,) = letters.matching(filters, timezone.now())
    ordered = letters._after(matching, filters.after).order_by(*letters.ORDER)
    return ordered.only(*LIST_FIELDS)[:51].explain()


@pytest.mark.parametrize(
    ("filters", "index"),
    [
        (LetterFilter(), "wh_dead_letters_newest"),
        (LetterFilter(after=Cursor(at=NOON - timedelta(hours=1), id=letters.UUID(int=5))), "wh_dead_letters_newest"),
        (LetterFilter(status="open"), "wh_dead_letters_by_status"),
        (LetterFilter(reason="validation_error"), "wh_dead_letters_by_reason"),
        (LetterFilter(type="type.7"), "wh_dead_letters_by_type"),
        (LetterFilter(subject="order:42"), "dead_letter_subjects_key"),
        (LetterFilter(q="0192f0c0-1111-7000-8000-00000000aaaa"), "wh_dead_letters_one_current"),
    ],
    ids=["newest", "a later page", "state", "reason", "type", "subject", "id"],
)
def test_a_page_is_read_by_its_index_and_not_sorted_whole(many, filters, index):
    chosen = plan(filters)

    assert index in chosen
    assert "Seq Scan on wh_dead_letters" not in chosen


def plan_of(sql):
    """Return the plan of captured SQL."""
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {sql}")
        return "\n".join(line for (line,) in cursor.fetchall())


@pytest.fixture
def grouped(many):
    """The six thousand letters in ninety groups, and a subject that three hundred of them are about."""
    with connection.cursor() as cursor:
        cursor.execute("UPDATE wh_dead_letters SET error_fingerprint = lpad(failure_reason || '', 16, '0')", [])
        cursor.execute(
            "INSERT INTO dead_letter_subjects (dead_letter_id, position, type, id, subject_key)"
            " SELECT dead_letter_id, 1, 'customer', '7', dead_letter_subject_key('customer', '7')"
            "   FROM wh_dead_letters WHERE failure_reason < 5"
        )
        counting.fold()
        cursor.execute("ANALYZE wh_dead_letters, dead_letter_subjects, subject_counts, group_counts, group_hours")
        # These tables are small, and the plan is a near thing: what is asked is whether an index can.
        for way in ("seqscan", "bitmapscan", "sort"):
            cursor.execute(f"SET LOCAL enable_{way} = off")


def test_the_letters_of_a_group_are_read_by_its_index(grouped):
    group = FailureGroup.objects.first()

    chosen = plan(LetterFilter(group=str(group.pk)))
    assert "wh_dead_letters_by_group" in chosen
    assert "Sort" not in chosen


@pytest.mark.parametrize(
    ("read", "index"),
    [
        (lambda: recent.of_group(FailureGroup.objects.values_list("pk", flat=True)[0]), "wh_dead_letters_by_group"),
        (lambda: about.page("order", "x", None), "dead_letter_subjects_key"),
        (lambda: subjects.page(SubjectFilter()), "subject_counts_top"),
        (lambda: subjects.page(SubjectFilter(type="customer")), "subject_counts_top_of_type"),
        (subjects.top_of_types, "subject_counts_top_of_type"),
        (lambda: counts.of_subjects([letters.subject_key("customer", "7")]), "subject_counts_pkey"),
    ],
    ids=["letters of a group", "letters about a subject", "subjects", "subjects of a type", "types", "counts"],
)
def test_groups_and_subjects_are_read_by_their_indexes(grouped, read, index):
    with CaptureQueriesContext(connection) as queries:
        read()

    plans = [
        plan_of(query["sql"]) for query in queries if not query["sql"].startswith("SELECT dead_letter_subject_key")
    ]
    assert any(index in chosen for chosen in plans)
    assert not any("Seq Scan on wh_dead_letters" in chosen for chosen in plans)
    assert not any("Seq Scan on subject_counts" in chosen for chosen in plans)
