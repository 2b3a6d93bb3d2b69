"""Writes of recovery runs and their items."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import F
from django.db.models.functions import Now

from deadletters.models import ItemState, RecoveryItem, RecoveryRun, RunKind, RunState

SKIPPED_AT_ONCE = 5_000
"""Letters that one transaction ends without sending them."""

_CANARIES = """
UPDATE recovery_items SET is_canary = true
 WHERE item_id = ANY (ARRAY(
       SELECT s.item_id FROM (
           SELECT i.item_id, row_number() OVER (PARTITION BY l.message_type, l.destination, l.perspective_name
                                                ORDER BY i.place DESC) AS turn
             FROM recovery_items i
            CROSS JOIN LATERAL (
                  SELECT d.message_type, d.destination, d.perspective_name FROM wh_dead_letters d
                   WHERE d.dead_letter_id = i.dead_letter_id LIMIT 1) l
            WHERE i.run_id = %s AND i.state = 'waiting' AND i.is_next) s
        ORDER BY s.turn, s.item_id LIMIT %s))
"""


FAULTS = 100
"""Fingerprints that a run is known by."""

_FAULTS = """
SELECT fingerprint FROM recovery_items WHERE run_id = %s AND fingerprint IS NOT NULL
 GROUP BY fingerprint ORDER BY count(*) DESC, fingerprint LIMIT %s
"""


def faults(run_id: UUID) -> Sequence[str]:
    """Return the fingerprints that most letters of a run have."""
    with connection.cursor() as cursor:
        cursor.execute(_FAULTS, [run_id, FAULTS])
        return [fingerprint for (fingerprint,) in cursor.fetchall()]


def change(run_id: UUID, **columns: Any) -> None:
    """Change a run that the caller has locked; its version moves."""
    RecoveryRun.objects.filter(pk=run_id).update(**columns, row_version=F("row_version") + 1)


def end(run_id: UUID, state: RunState, why: str) -> None:
    """End a run; `why` is empty for one that came to its end."""
    change(run_id, state=state, stop_reason=why, finished_at=Now())


def mark_canaries(run_id: UUID, count: int) -> None:
    """Choose the letters that go first: the newest of each type and destination in turn, heads of their streams."""
    if count:
        with connection.cursor() as cursor:
            cursor.execute(_CANARIES, [run_id, count])


def send(
    run: RecoveryRun, limit: int, *, deadline: timedelta, include_held: bool, as_canary: bool
) -> Mapping[str, int]:
    """Send the next letters of a run; return how many by source, '' = those that were skipped."""
    waiting = RecoveryItem.objects.filter(run=run, state=ItemState.WAITING, is_next=True)
    items = list(waiting.order_by("-is_canary", "place").values_list("item_id", flat=True)[:limit])
    if not items:
        return {}
    if as_canary:
        RecoveryItem.objects.filter(pk__in=items, is_canary=False).update(is_canary=True)
    build = run.generation if run.kind == RunKind.REPLAY else None
    arguments: list[Any] = [items, run.actor, run.kind, build, deadline, include_held]
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM send_recovery_items(%s, %s, %s, %s, %s, %s)", arguments)
        return dict(cursor.fetchall())


def skip_waiting(run_id: UUID, why: str) -> int:
    """End up to SKIPPED_AT_ONCE letters of a run that were not sent; return how many."""
    waiting = RecoveryItem.objects.filter(run=run_id, state=ItemState.WAITING).order_by("place")
    items = waiting.values("item_id")[:SKIPPED_AT_ONCE]
    return RecoveryItem.objects.filter(pk__in=items).update(state=ItemState.SKIPPED, why=why, ended_at=Now())


def end_overdue(limit: int) -> int:
    """Say of letters whose time for an answer is over that there was none; return how many."""
    return _call("end_overdue_items(%s)", limit)


def hold_lost(limit: int, grace: timedelta) -> int:
    """Hold recovering letters whose message is nowhere since `grace`; return how many."""
    return _call("hold_lost_letters(%s, %s)", limit, grace)


def _call(function: str, *arguments: Any) -> int:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {function}", arguments)
        return int(cursor.fetchone()[0])
