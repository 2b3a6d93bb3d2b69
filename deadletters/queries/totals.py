"""How many letters a filter finds, exactly, out of the tables that count them; not every filter has one."""

from django.db import connection

from deadletters.words.filters import SOURCES, STATUSES, LetterFilter

_COUNTED = {"status", "source", "disposition"}
_TOTAL = """
SELECT coalesce(sum(n), 0)::bigint
  FROM (SELECT source_table, recovery_status, operator_disposition, n FROM group_counts
        UNION ALL
        SELECT source_table, recovery_status, operator_disposition, n FROM group_deltas) c
 WHERE (%(status)s::int IS NULL OR recovery_status = %(status)s)
   AND (%(source)s::text IS NULL OR source_table = %(source)s)
   AND (%(disposition)s::int IS NULL OR operator_disposition = %(disposition)s)
"""


def counted(filters: LetterFilter) -> int | None:
    """Return how many letters a filter finds that names no more than a state, a source and a decision.

    None: of such letters no count is kept.
    """
    if filters.is_of_other_sources or not {name for name, _ in filters.parts()} <= _COUNTED:
        return None
    wanted = {
        "status": STATUSES.get(filters.status),
        "source": SOURCES.get(filters.source),
        "disposition": filters.disposition_number,
    }
    with connection.cursor() as cursor:
        cursor.execute(_TOTAL, wanted)
        return int(cursor.fetchone()[0])
