"""The hot reads at 100,000 rows: each by its index, none of the whole table."""

import uuid

import pytest
from django.db import connection, transaction

from deadletters.models import DeadLetter, FailureGroup, GroupFingerprint
from deadletters.queries import letters
from deadletters.queries.letterrows import LIST_FIELDS
from deadletters.store.recovery import Sent, recover
from deadletters.words.filters import LetterFilter
from queues import NewMessage, send, send_many
from tests.db.conftest import move_by_hand
from tests.factories import NOON

pytestmark = pytest.mark.django_db

WAITING = {
    "wh_inbox": """
        INSERT INTO wh_inbox (message_id, message_type, event_data, stream_id, scheduled_for)
        SELECT gen_random_uuid(), 'type.' || n % 50, '{}', {stream}, now() - n * interval '1 s'
          FROM generate_series(1, 100000) n
    """,
    "wh_outbox": """
        INSERT INTO wh_outbox (message_id, message_type, destination, event_data, stream_id, scheduled_for)
        SELECT gen_random_uuid(), 'type.' || n % 50, 'bank', '{}', {stream}, now() - n * interval '1 s'
          FROM generate_series(1, 100000) n
    """,
    "wh_perspective_events": """
        INSERT INTO wh_perspective_events (event_work_id, stream_id, perspective_name, event_id, scheduled_for)
        SELECT gen_random_uuid(), {stream}, 'p' || n % 3, gen_random_uuid(), now() - n * interval '1 s'
          FROM generate_series(1, 100000) n
    """,
}
A_STREAM = "md5((n % 2000)::text)::uuid"
CASES = [
    ("wh_inbox", "wh_inbox", "NULL::uuid"),
    ("wh_outbox", "wh_outbox", A_STREAM),
    ("wh_perspective_events", "wh_perspective_events:p1", A_STREAM),
]
BATCH, PER_STREAM = 500, 50


@pytest.mark.parametrize(("table", "queue", "stream"), CASES)
def test_a_claim_among_100_000_rows_reads_by_index_and_only_what_it_takes(table, queue, stream, sql):
    sql(WAITING[table].replace("{stream}", stream).replace("%", "%%"))
    sql("SELECT admit_arrivals(%s, 200000)", queue)
    sql(f"ANALYZE {table}, wh_streams")
    before = reads_of(table, sql)

    claimed = sql(
        f"SELECT * FROM claim_{table}(%s, %s, %s, %s, %s, '30 s')",
        queue,
        uuid.uuid4(),
        uuid.uuid4(),
        BATCH,
        PER_STREAM,
    )

    assert len(claimed) == BATCH
    sequential, by_index = (after - was for after, was in zip(reads_of(table, sql), before, strict=True))
    assert sequential == 0
    # streams are read PER_STREAM deep, half a batch of them; each row then once more to lease or to return it
    assert by_index <= (BATCH // 2) * PER_STREAM + 4 * BATCH


@pytest.mark.parametrize(("table", "queue", "stream"), CASES)
def test_a_claim_that_was_planned_on_an_empty_table_still_reads_by_index_when_rows_have_come(table, queue, stream, sql):
    """A drainer keeps its plans; no statistics tell it that the table has grown."""

    def claim():
        statement = f"SELECT message_id FROM claim_{table}(%s, gen_random_uuid(), %s, 20, 5, '30 s')"
        token = uuid.uuid4()
        ids = [row["message_id"] for row in sql(statement, queue, token)]
        sql(f"SELECT record_{table}(%s, '[]')", ids)
        sql(f"SELECT release_{table}(%s, %s, %s, '{{}}')", queue, token, ids)
        return ids

    sql(f"ANALYZE {table}")
    for _ in range(8):
        claim()
    sql(WAITING[table].replace("100000", "5000").replace("{stream}", stream).replace("%", "%%"))
    sql("SELECT admit_arrivals(%s, 200000)", queue)
    before = reads_of(table, sql)

    assert claim()

    assert sum(reads_of(table, sql)) - sum(before) < 1000


def reads_of(table, sql):
    (row,) = sql("SELECT seq_tup_read, idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relid = %s::regclass", table)
    return row["seq_tup_read"], row["idx_tup_fetch"]


LETTERS = """
    INSERT INTO wh_dead_letters (dead_letter_id, source_table, source_id, message_type, envelope, failure_reason,
                                 attempts_when_dlq, generation, dead_lettered_at, recovery_status, recovered_at,
                                 operator_disposition, next_recovery_at, error_fingerprint, error_fingerprint_version)
    SELECT gen_random_uuid(), 'wh_inbox', gen_random_uuid(), 'type.' || n %% 50, '{}', n %% 90, 1, '',
           %s - n * interval '1 s', status, CASE status WHEN 3 THEN %s END,
           CASE status WHEN 2 THEN 2 WHEN 4 THEN 3 ELSE 0 END,
           CASE WHEN n %% 3 = 0 THEN %s - n * interval '1 s' WHEN n %% 3 = 1 THEN %s + interval '1 day' END,
           lpad(to_hex(n %% 1000), 16, '0'), 2
      FROM generate_series(1, 100000) n, LATERAL (SELECT ((ARRAY[0, 1, 2, 3, 4])[n %% 5 + 1]) AS status) s
"""


@pytest.fixture
def letters_100_000(sql):
    sql(LETTERS, NOON, NOON, NOON, NOON)
    sql("ANALYZE wh_dead_letters")


def plan(statement, *arguments):
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {statement}", arguments)
        return "\n".join(line for (line,) in cursor.fetchall())


def test_the_due_scan_among_100_000_letters_of_all_states_is_an_index_scan(letters_100_000, sql):
    chosen = plan(
        "SELECT l.dead_letter_id FROM wh_dead_letters l WHERE l.recovery_status = 0 AND l.superseded_by IS NULL"
        " AND l.next_recovery_at <= %s ORDER BY l.next_recovery_at, l.dead_letter_id LIMIT 200",
        NOON,
    )
    assert "Index Only Scan using wh_dead_letters_due" in chosen
    assert "Sort" not in chosen

    before = reads_of("wh_dead_letters", sql)
    due = sql("SELECT due_dead_letters(200, %s) AS id", NOON)
    sequential, by_index = (a - b for a, b in zip(reads_of("wh_dead_letters", sql), before, strict=True))
    assert (len(due), sequential) == (200, 0)
    assert by_index <= 210


MOVE_ALL = """
    SELECT m.* FROM move_batch_to_dead_letters('wh_inbox', (
        SELECT jsonb_agg(jsonb_build_object(
                   'source_id', message_id, 'failure_reason', 2,
                   'failure_detail', '{"subjects": [{"type": "order", "id": "42"}]}'::jsonb)) FROM wh_inbox),
        NULL, 'g') m
"""


def test_a_move_and_a_recovery_among_100_000_letters_read_no_whole_table(letters_100_000, sql):
    tables = ("wh_dead_letters", "dead_letter_subjects", "dead_letter_deaths")
    sql(
        "INSERT INTO dead_letter_subjects (dead_letter_id, position, type, id, subject_key)"
        " SELECT dead_letter_id, 1, 'order', '42', dead_letter_subject_key('order', '42') FROM wh_dead_letters"
    )
    sql(
        "INSERT INTO dead_letter_deaths (dead_letter_id, number, generation, cause, failure_reason, attempts)"
        " SELECT dead_letter_id, 1, 'g', 'terminal', 2, 1 FROM wh_dead_letters"
    )
    sql("ANALYZE dead_letter_subjects, dead_letter_deaths")
    send_many([NewMessage(type="test.Any", payload=n) for n in range(50)])
    before = [reads_of(table, sql) for table in tables]

    moved = sql(MOVE_ALL)
    for row in moved:
        sql("SELECT recover_dead_letter(%s, 'ann')", row["dead_letter_id"])
    sql("SELECT settle_recovered(%s)", [row["dead_letter_id"] for row in moved])

    assert len(moved) == 50
    for table, was in zip(tables, before, strict=True):
        sequential, by_index = (a - b for a, b in zip(reads_of(table, sql), was, strict=True))
        assert sequential == 0, table
        assert by_index <= 50 * 20, table


def a_group_of(fingerprint):
    group = FailureGroup.objects.create(group_id=uuid.uuid4(), title="x")
    GroupFingerprint.objects.create(fingerprint=fingerprint, version=2, group=group)
    return group


def test_a_page_of_the_list_among_100_000_letters_is_an_index_scan_whatever_the_filter(letters_100_000):
    filters = {
        "wh_dead_letters_newest": LetterFilter(),
        "Index Scan": LetterFilter(status="held"),  # one letter in five: either index will do
        "wh_dead_letters_by_reason": LetterFilter(reason="validation_error"),
        "wh_dead_letters_by_type": LetterFilter(type="type.7"),
        "wh_dead_letters_by_group": LetterFilter(group=str(a_group_of("00000000000003e7").pk)),
    }
    for index, chosen in filters.items():
        (matching,) = letters.matching(chosen, NOON)
        page = matching.order_by(*letters.ORDER).only(*LIST_FIELDS)[:51].explain()
        assert index in page
        assert "Seq Scan" not in page
        assert "Sort" not in page


FILL_LETTERS = """
INSERT INTO wh_dead_letters (dead_letter_id, source_table, source_id, message_type, envelope, failure_reason,
                             attempts_when_dlq, generation, cause)
SELECT gen_random_uuid(), 'wh_inbox', gen_random_uuid(), 'test.Old', '{}', 99, 1, 'build-0', 'operator'
  FROM generate_series(1, 5000)
"""
SEVERAL_OF_ONE_MESSAGE = (
    FILL_LETTERS.replace("5000", "3")
    .replace("'wh_inbox', gen_random_uuid()", "'wh_inbox', '00000000-0000-0000-0000-000000000001'")
    .replace("cause)", "cause, superseded_by)")
    .replace("'operator'", "'operator', gen_random_uuid()")
)
READ_OF_LETTERS = """
SELECT coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) AS read
  FROM pg_stat_xact_user_tables WHERE relname = 'wh_dead_letters'
"""


@pytest.mark.parametrize("again", [False, True], ids=["a first death", "a death that re-opens its letter"])
def test_a_move_reads_no_other_letters_though_its_plan_is_of_an_empty_table(again, sql):
    sql(SEVERAL_OF_ONE_MESSAGE)
    sql("ANALYZE wh_dead_letters")  # from now on it looks as if every letter were of one message
    sql("DELETE FROM wh_dead_letters")
    for _ in range(12):
        message_id = send("test.Any", {}).message_id
        move_by_hand(message_id)
        if again:
            send_back(message_id)
            move_by_hand(message_id)
        sql("DELETE FROM wh_dead_letters")
    sql(FILL_LETTERS)
    message_id = send("test.Any", {}).message_id
    if again:
        move_by_hand(message_id)
        send_back(message_id)
    before = sql(READ_OF_LETTERS)[0]["read"]

    assert move_by_hand(message_id) is not None

    assert sql(READ_OF_LETTERS)[0]["read"] - before < 100


@pytest.fixture
def once_full(sql, transactional_db):
    """Letters of which there were many: the index of their ids is large, and says nothing of how few there are."""
    sql(FILL_LETTERS.replace("5000", "100000"))
    sql("DELETE FROM wh_dead_letters")
    sql("VACUUM ANALYZE wh_dead_letters")
    with transaction.atomic():
        sql(FILL_LETTERS)
        transaction.set_rollback(True)


def test_a_move_reads_no_other_letters_though_there_were_many_once(once_full, sql):
    for again in (False, True):  # of one fill: it takes longer than all that is done with it
        with transaction.atomic():
            test_a_move_reads_no_other_letters_though_its_plan_is_of_an_empty_table(again, sql)
            transaction.set_rollback(True)
        sql("DISCARD PLANS")


@pytest.fixture
def large_by_source(sql, transactional_db):
    """The index of the letters' sources once was large, and the others were made anew since."""
    sql(FILL_LETTERS.replace("5000", "60000"))
    sql("DELETE FROM wh_dead_letters")
    for index in ("newest", "by_status", "by_reason", "by_type", "by_group"):
        sql(f"REINDEX INDEX wh_dead_letters_{index}")


def test_a_move_reads_no_other_letters_though_the_index_of_sources_is_dearer_than_others(large_by_source, sql):
    with transaction.atomic():
        test_a_move_reads_no_other_letters_though_its_plan_is_of_an_empty_table(True, sql)
        transaction.set_rollback(True)
    sql("VACUUM wh_dead_letters")


def send_back(message_id):
    assert recover(DeadLetter.objects.get(source_id=message_id).pk, "olga") is Sent.SENT
