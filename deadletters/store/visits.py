"""Visits of people to the dashboard, a row for each person."""

from dataclasses import dataclass
from datetime import datetime

import structlog
from django.db import connection

from deadletters.models.records import DASHBOARD

log = structlog.get_logger(__name__)

GAP_MINUTES = 30
"""A person who did not look for so long begins another visit when they do."""

_ARRIVE = "SELECT previous_at, is_known FROM note_visit(%s, %s, make_interval(mins => %s))"


@dataclass(frozen=True, kw_only=True)
class Visit:
    """When a person's visit before this one ended, None = this is the first; not known where it could not be read."""

    previous_at: datetime | None = None
    is_known: bool = True


def arrive(visitor_id: str) -> Visit:
    """Note that a person looks, unless that would have a page wait."""
    with connection.cursor() as cursor:
        cursor.execute(_ARRIVE, [visitor_id, DASHBOARD, GAP_MINUTES])
        previous_at, is_known = cursor.fetchone()
    if not is_known:
        log.warning("visit_not_noted")
    return Visit(previous_at=previous_at, is_known=is_known)
