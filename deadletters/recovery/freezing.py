"""The scope of a run, frozen: its letters as items, before anything is sent."""

from collections.abc import Sequence
from uuid import UUID

from django.db import DatabaseError, connection, transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from deadletters.models import DeadLetter, RecoveryRun, RunState
from deadletters.queries import deadlines, letters
from deadletters.queries.replays import replayable
from deadletters.store import runs as writing
from deadletters.words.errors import BadFilter, BadScope
from deadletters.words.scopes import MAX_PICKED, Letters, Matching, Replay, Scope, scope_of

MAX_ITEMS = 1_000_000
"""Letters that one run may bring back."""

FREEZE_SECONDS = 120

# An item's id is that of its run with its place, so that neighbours lie side by side in each index.
_FREEZE = """
WITH letters AS MATERIALIZED (
    SELECT l.dead_letter_id, l.stream_id, l.life, l.row_version, l.recovery_status AS status, l.error_fingerprint,
           l.error_fingerprint_version, l.dead_lettered_at, dead_letter_position(l) AS position
      FROM wh_dead_letters l
     WHERE l.superseded_by IS NULL AND l.dead_letter_id IN ({chosen})
     LIMIT %s
), placed AS (
    SELECT l.*, l.status IN (0, 2) AS is_dead,
           row_number() OVER (ORDER BY l.position, l.dead_lettered_at, l.dead_letter_id) AS place
      FROM letters l
)
INSERT INTO recovery_items (item_id, run_id, dead_letter_id, place, stream_id, state, is_next, life, row_version,
                            fingerprint, fingerprint_version, ended_at, why)
SELECT (left(md5(r.id::text), 20) || lpad(to_hex(l.place), 12, '0'))::uuid, r.id, l.dead_letter_id, l.place,
       l.stream_id,
       CASE WHEN l.is_dead THEN 'waiting' ELSE 'skipped' END,
       l.stream_id IS NULL OR row_number() OVER (PARTITION BY l.stream_id, l.is_dead ORDER BY l.place) = 1,
       l.life, l.row_version, l.error_fingerprint, l.error_fingerprint_version,
       CASE WHEN NOT l.is_dead THEN now() END,
       CASE WHEN NOT l.is_dead THEN recovery_skip_words(
            (ARRAY['recovering', NULL, 'recovered', 'given_up'])[l.status],
            (SELECT d FROM wh_dead_letters d WHERE d.dead_letter_id = l.dead_letter_id)) ELSE '' END
  FROM placed l CROSS JOIN (SELECT %s::uuid AS id) r
 ORDER BY l.place
"""

_MISSING = """
INSERT INTO recovery_items (item_id, run_id, dead_letter_id, place, state, life, row_version, ended_at, why)
SELECT gen_random_uuid(), r.run_id, p.id, %s + row_number() OVER (ORDER BY p.id), 'skipped', 0, 0, now(),
       recovery_skip_words(CASE WHEN l.dead_letter_id IS NULL THEN 'gone' ELSE 'superseded' END, l)
  FROM recovery_runs r
 CROSS JOIN (SELECT DISTINCT unnest(%s::uuid[]) AS id) p
  LEFT JOIN wh_dead_letters l ON l.dead_letter_id = p.id
 WHERE r.run_id = %s
   AND NOT EXISTS (SELECT FROM recovery_items i WHERE i.run_id = r.run_id AND i.dead_letter_id = p.id)
"""


def freeze(run: RecoveryRun) -> bool:
    """Write the items of a run that the caller has locked, in one statement: what matches at one moment.

    Letters of one stream are placed in its order. A letter that is not dead any more, or was given up, is skipped at
    once. A run that comes to nothing or to more than MAX_ITEMS ends, and says so. Takes no lock on letters.
    """
    try:
        with transaction.atomic(), deadlines.limited(FREEZE_SECONDS):
            scope = scope_of(run.scope)
            count = _insert(run.run_id, _chosen(scope))
            count += _insert_missing(run.run_id, scope.ids) if isinstance(scope, Letters) else 0
    except (BadScope, BadFilter, ValueError) as exc:
        writing.end(run.run_id, RunState.STOPPED, f"its scope is not understood: {exc}")
    except DatabaseError as exc:
        if not deadlines.is_over(exc):
            raise
        writing.end(run.run_id, RunState.STOPPED, f"its letters were not found within {FREEZE_SECONDS} s")
    else:
        _note(run, count)
    return True


def _note(run: RecoveryRun, count: int) -> None:
    if count > MAX_ITEMS:
        run.items.all().delete()
        writing.end(run.run_id, RunState.STOPPED, f"more than {MAX_ITEMS:,} letters match: narrow it down")
    elif count == 0:
        writing.end(run.run_id, RunState.FINISHED, "no letter matches")
    else:
        faults = [] if run.group_id else writing.faults(run.run_id)
        writing.change(run.run_id, state=RunState.READY, frozen_at=Now(), frozen_count=count, fingerprints=faults)


def _insert(run_id: UUID, parts: Sequence[QuerySet[DeadLetter]]) -> int:
    """Insert the items in the caller's transaction; return how many, at most MAX_ITEMS + 1."""
    chosen = [part.values("dead_letter_id").order_by().query.sql_with_params() for part in parts]
    statement = _FREEZE.format(chosen=" UNION ALL ".join(f"({sql})" for sql, _ in chosen))
    arguments = [argument for _, of_part in chosen for argument in of_part]
    with connection.cursor() as cursor:
        cursor.execute(statement, [*arguments, MAX_ITEMS + 1, run_id])
        count: int = cursor.rowcount
        return count


def _insert_missing(run_id: UUID, ids: Sequence[UUID]) -> int:
    """Account for picked letters that are not there any more, or whose place another took: they end as skipped."""
    with connection.cursor() as cursor:
        cursor.execute(_MISSING, [MAX_PICKED, list(ids), run_id])
        count: int = cursor.rowcount
        return count


def _chosen(scope: Scope) -> Sequence[QuerySet[DeadLetter]]:
    match scope:
        case Letters(ids=ids):
            return [DeadLetter.objects.filter(dead_letter_id__in=ids)]
        case Matching(filters=filters):
            return letters.all_matching(filters, now=timezone.now())
        case Replay(group_id=group_id, build=build):
            return [replayable(group_id, build)]
