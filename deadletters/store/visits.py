"""Visits of people to the dashboard, a row for each person."""

from datetime import datetime

from django.db import connection

from deadletters.models.records import DASHBOARD

GAP_MINUTES = 30
"""A person who did not look for so long begins another visit when they do."""

_ARRIVE = """
INSERT INTO last_visits AS v (visitor_id, page, seen_at) VALUES (%s, %s, now())
ON CONFLICT (visitor_id, page) DO UPDATE
   SET previous_at = CASE WHEN v.seen_at < now() - make_interval(mins => %s) THEN v.seen_at ELSE v.previous_at END,
       seen_at = now()
RETURNING previous_at
"""


def arrive(visitor_id: str) -> datetime | None:
    """Note that a person looks; return when their visit before this one ended, None = this is the first."""
    with connection.cursor() as cursor:
        cursor.execute(_ARRIVE, [visitor_id, DASHBOARD, GAP_MINUTES])
        previous: datetime | None = cursor.fetchone()[0]
        return previous
