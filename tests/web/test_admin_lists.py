"""The admin's lists cost the same over a million rows: no whole count, no join, no sort, no scan."""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from deadletters.models import (
    DeadLetter,
    DeadLetterDeath,
    FailureGroup,
    GroupDelta,
    Note,
    OperatorAction,
    RecoveryItem,
    RecoveryRun,
    SubjectDelta,
)
from queues.admin import bounds
from queues.models import (
    Arrival,
    DeliveryLogEntry,
    FlowDelta,
    InboxMessage,
    OutboxMessage,
    PerspectiveEvent,
    SeenMessage,
    StoredEvent,
)
from tests.web.admin_rows import DEEP, sql
from tests.web.test_admin import TABLES, address, one_of_each

pytestmark = pytest.mark.django_db

ROWS = 3_000
CAP = 500
FILL = {
    DeadLetter: "(dead_letter_id, source_table, source_id, message_type, envelope, failure_reason, attempts_when_dlq,"
    " generation, dead_lettered_at, recovery_status, stream_id, error_fingerprint, error_fingerprint_version)"
    " SELECT gen_random_uuid(), 'wh_inbox', gen_random_uuid(), 't', '{}', mod(n, 4), 1, '', now() - n * interval '1 s',"
    " (ARRAY[0, 2])[1 + mod(n, 2)], gen_random_uuid(), md5(n::text)::char(16), 2",
    DeadLetterDeath: "(dead_letter_id, number, generation, cause, failure_reason, attempts)"
    " SELECT (ARRAY(SELECT dead_letter_id FROM wh_dead_letters))[n], n, '', 'operator', 99, 1",
    FailureGroup: "(group_id, title, last_seen_at) SELECT gen_random_uuid(), 't', now() - n * interval '1 s'",
    GroupDelta: "(fingerprint, version, source_table, recovery_status, operator_disposition, n)"
    " SELECT md5(n::text)::char(16), 2, 'wh_inbox', 0, 0, 1",
    SubjectDelta: "(subject_key, subject_type, subject_id, recovery_status, n)"
    " SELECT gen_random_uuid(), 'order', n::text, 0, 1",
    Note: "(dead_letter_id, text, author) SELECT (ARRAY(SELECT dead_letter_id FROM wh_dead_letters))[n], 't', 'olga'",
    OperatorAction: "(at, actor, action, dead_letter_id)"
    " SELECT now() - n * interval '1 s', 'a', 'b', gen_random_uuid()",
    RecoveryRun: "(run_id, kind, scope, plan, actor, created_at)"
    " SELECT gen_random_uuid(), 'person', '{}', '{}', 'olga', now() - n * interval '1 s'",
    RecoveryItem: "(item_id, run_id, dead_letter_id, place, life, row_version)"
    " SELECT gen_random_uuid(), (ARRAY(SELECT run_id FROM recovery_runs))[n], gen_random_uuid(), n, 1, 1",
    InboxMessage: "(message_id, message_type, event_data, stream_id)"
    " SELECT gen_random_uuid(), 't', '{}', gen_random_uuid()",
    OutboxMessage: "(message_id, message_type, event_data, stream_id)"
    " SELECT gen_random_uuid(), 't', '{}', gen_random_uuid()",
    PerspectiveEvent: "(event_work_id, stream_id, perspective_name, event_id)"
    " SELECT gen_random_uuid(), gen_random_uuid(), 'totals', gen_random_uuid()",
    StoredEvent: "(event_id, stream_id, event_type, version, event_data)"
    " SELECT gen_random_uuid(), gen_random_uuid(), 't', 1, '{}'",
    DeliveryLogEntry: "(source, message_id, attempt, outcome) SELECT 'wh_inbox', gen_random_uuid(), 1, 'failure'",
    SeenMessage: "(message_id) SELECT gen_random_uuid()",
    FlowDelta: "(source, sent) SELECT 'wh_inbox', n",
    Arrival: "(queue, stream_id) SELECT 'wh_inbox', gen_random_uuid()",
}
BIG = list(FILL)


@pytest.fixture
def many(request):
    """ROWS rows of a table, and of those that it refers to."""
    model = request.param
    needs = {DeadLetterDeath: [DeadLetter], Note: [DeadLetter], RecoveryItem: [RecoveryRun]}.get(model, [])
    for each in (*needs, model):
        table = each._meta.db_table
        sql(f"INSERT INTO {table} {FILL[each]} FROM generate_series(1, {ROWS}) n")
        sql(f"ANALYZE {table}")
    return model


def statements_of(browser, model, query=""):
    with CaptureQueriesContext(connection) as queries:
        response = browser.get(address(model, "changelist") + query)
    assert response.status_code == 200
    table = f'FROM "{model._meta.db_table}"'
    return [query["sql"] for query in queries if table in query["sql"]], response.content.decode()


def plan_of(statement):
    with connection.cursor() as cursor:
        cursor.execute("EXPLAIN " + statement.replace("%", "%%"), [])
        return "\n".join(line for (line,) in cursor.fetchall())


def is_count(statement):
    return "COUNT(" in statement


@pytest.mark.parametrize("many", BIG, indirect=True, ids=lambda model: model.__name__)
def test_a_list_is_read_by_an_index_and_counted_no_further_than_the_cap(admin_client, many, monkeypatch):
    monkeypatch.setattr(bounds, "COUNT_CAP", CAP)

    statements, content = statements_of(admin_client, many, "?o=2.-3")

    assert f"{CAP:,}+" in content
    assert [s for s in statements if is_count(s) and f"LIMIT {CAP + 1}" not in s] == []
    assert len(statements) == 2
    assert not any(re.search(r"\bJOIN\b|\bDISTINCT\b", statement) for statement in statements)
    (page,) = (statement for statement in statements if not is_count(statement))
    chosen = plan_of(page)
    scanned = re.findall(r"Seq Scan on (\w+).*?rows=(\d+)", chosen)
    assert [table for table, rows in scanned if int(rows) >= ROWS] == []
    assert "Index" in chosen
    assert not re.search(r'"(envelope|envelope_raw|event_data|metadata|source_row|failure_detail|scope|plan)"', page)


@pytest.mark.parametrize("many", BIG, indirect=True, ids=lambda model: model.__name__)
def test_a_search_is_answered_by_indexes(admin_client, many):
    from django.contrib import admin

    columns = admin.site._registry[many].searched
    for column in columns:
        wanted = many.objects.defer(*admin.site._registry[many].heavy).order_by("pk").values_list(column, flat=True)[0]
        if wanted is None:
            continue
        statements, content = statements_of(admin_client, many, f"?q={wanted}")

        assert str(wanted) in content
        for statement in statements:
            chosen = plan_of(statement)
            scanned = re.findall(r"Seq Scan on (\w+).*?rows=(\d+)", chosen)
            assert [table for table, rows in scanned if table == many._meta.db_table] == [], chosen


@pytest.mark.parametrize("many", [DeadLetter], indirect=True)
@pytest.mark.parametrize("query", ["?recovery_status__exact=2", "?failure_reason=3"])
def test_a_filter_of_letters_is_answered_by_its_index(admin_client, many, query):
    statements, _ = statements_of(admin_client, many, query)

    (page,) = (statement for statement in statements if not is_count(statement))
    assert "Seq Scan" not in plan_of(page)
    assert "Sort" not in plan_of(page)


@pytest.mark.parametrize("term", ["x", "%", "{0}", "9" * 60, "0" * 32, "é\N{SNOWMAN}", "a b 'c", '"', "\x00", "1,2"])
def test_a_search_for_anything_is_a_page(admin_client, term):
    for model in TABLES:
        assert admin_client.get(address(model, "changelist"), {"q": term}).status_code == 200, model


def test_an_address_spells_out_no_column_that_is_not_filtered_by(admin_client):
    """Else a masked value is guessed letter by letter, and a scan is had for the asking."""
    for model in TABLES:
        text = next((f.name for f in model._meta.fields if f.get_internal_type() in ("TextField", "CharField")), "pk")
        for lookup in (f"{text}__startswith", f"{text}__regex", "pk__in"):
            assert admin_client.get(address(model, "changelist"), {lookup: "a"}).status_code == 400, model


@pytest.mark.parametrize("query", ["?_facets=True", "?all=", "?p=9999", "?e=1", "?o=-1.2", "?p=x"])
def test_no_address_makes_a_list_count_or_sort_everything(admin_client, query, monkeypatch):
    monkeypatch.setattr(bounds, "COUNT_CAP", CAP)
    sql(f"INSERT INTO wh_dead_letters {FILL[DeadLetter]} FROM generate_series(1, {ROWS}) n")

    with CaptureQueriesContext(connection) as queries:
        admin_client.get(address(DeadLetter, "changelist") + query)
    of_letters = [query["sql"] for query in queries if 'FROM "wh_dead_letters"' in query["sql"]]
    assert of_letters
    assert all("LIMIT" in statement for statement in of_letters)
    orders = [re.search(r"ORDER BY 1?\d? ?(.*) LIMIT", statement) for statement in of_letters]
    assert not any(found and "message_type" in found[1] for found in orders)


def test_lists_of_rows_that_nest_deep_open_with_many_of_them(admin_client):
    one_of_each()
    sql("UPDATE wh_inbox SET event_data = %s::jsonb", DEEP)

    for model in TABLES:
        assert admin_client.get(address(model, "changelist")).status_code == 200


def test_the_history_of_a_page_is_paged(admin_client):
    rows = one_of_each()

    assert admin_client.get(reverse("admin:queues_inboxmessage_history", args=[rows[InboxMessage]])).status_code == 200
