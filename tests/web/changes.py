"""What an operator can change, as one value to compare."""

from typing import Any

from django.db import connection

TABLES = (
    *("wh_dead_letters", "dead_letter_payloads", "notes", "failure_groups", "recovery_runs", "recovery_items"),
    *("source_pauses", "wh_streams", "destination_circuits", "wh_inbox", "wh_arrivals", "saved_views"),
    "kept_forms",
)
SUM = "(SELECT md5(coalesce(string_agg(t::text, '' ORDER BY t::text), '')) FROM {0} t)"


def everything() -> tuple[Any, ...]:
    """Return a sum of every table that an operator changes, but for the audit."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(SUM.format(table) for table in TABLES)}")
        return cursor.fetchone()
