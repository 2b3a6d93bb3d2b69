"""Reads of what speaks against sending a run's letters now; each counts the letters that it concerns.

The statements begin with `previews.ITEMS`: they look at as many letters as a preview does.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from deadletters.queries import pauses, workers
from deadletters.queries.previews import Kind, rows
from queues.models import CircuitState, Destination, Source
from queues.words.sources import BROKER, INBOX, OUTBOX, PERSPECTIVES

FAILING_WITHIN = timedelta(minutes=5)
MAX_NAMES = 20
"""Names that a finding tells."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """How many letters of a run something concerns, and the types, targets or fingerprints by which it was found."""

    n: int
    names: Sequence[str] = ()


def handled_before(run_id: UUID) -> Found:
    """Letters whose message was handled or published before, by the delivery log or by the row itself."""
    return _counted(
        run_id,
        """
        l.source_table = 'wh_outbox' AND l.source_row->>'published_at' IS NOT NULL
        OR l.source_table = 'broker' AND EXISTS (
            SELECT FROM wh_message_deduplication s WHERE s.message_id = l.source_id)
        OR EXISTS (SELECT FROM delivery_log d WHERE d.message_id = l.source_id AND d.outcome = 'success'
                      AND d.source = CASE l.source_table WHEN 'broker' THEN 'wh_inbox' ELSE l.source_table END)
        """,
    )


def overtaken(run_id: UUID) -> Found:
    """Events that are older than what their perspective has applied; others of whose stream later ones recovered."""
    ((n,),) = rows(
        """
        , letters AS MATERIALIZED (
            SELECT l.source_table, l.stream_id, l.perspective_name, l.source_row
              FROM items i JOIN wh_dead_letters l ON l.dead_letter_id = i.dead_letter_id
             WHERE l.stream_id IS NOT NULL
        ), recovered AS MATERIALIZED (
            SELECT o.source_table, o.stream_id, max((o.source_row->>'position')::bigint) AS position
              FROM (SELECT DISTINCT source_table, stream_id FROM letters
                     WHERE source_table IN ('wh_inbox', 'wh_outbox')) s
              JOIN wh_dead_letters o ON o.stream_id = s.stream_id AND o.source_table = s.source_table
             WHERE o.recovery_status = 3 GROUP BY 1, 2
        )
        SELECT (SELECT count(*) FROM letters l JOIN recovered r USING (source_table, stream_id)
                 WHERE r.position > (l.source_row->>'position')::bigint)
             + (SELECT count(*) FROM letters l
                  JOIN wh_perspective_cursors c USING (stream_id, perspective_name)
                  JOIN wh_event_store e ON e.event_id = (l.source_row->>'event_id')::uuid
                 WHERE l.source_table = 'wh_perspective_events' AND c.version > e.version)
        """,
        run_id,
    )
    return Found(n=n)


def behind_another(run_id: UUID) -> Found:
    """Letters whose stream waits behind a letter that is not in the run."""
    return _counted(
        run_id,
        """
        EXISTS (SELECT FROM wh_streams s
                 WHERE s.stream_id = l.stream_id AND s.held_by <> l.dead_letter_id
                   AND s.queue = l.source_table || coalesce(':' || l.perspective_name, '')
                   AND NOT EXISTS (SELECT FROM recovery_items h
                                    WHERE h.run_id = %(run)s AND h.dead_letter_id = s.held_by))
        """,
    )


def failing_now(run_id: UUID, now: datetime) -> Found:
    """Letters of whose fingerprint another died within FAILING_WITHIN."""
    found = rows(
        """
        SELECT f.fingerprint, f.n
          FROM (SELECT l.error_fingerprint AS fingerprint, l.error_fingerprint_version AS version, count(*) AS n
                  FROM items i JOIN wh_dead_letters l ON l.dead_letter_id = i.dead_letter_id
                 WHERE l.error_fingerprint IS NOT NULL GROUP BY 1, 2) f
         WHERE EXISTS (SELECT FROM wh_dead_letters d
                        WHERE d.error_fingerprint = f.fingerprint AND d.error_fingerprint_version = f.version
                          AND d.superseded_by IS NULL AND d.dead_lettered_at > %(since)s)
         ORDER BY f.n DESC, f.fingerprint
        """,
        run_id,
        since=now - FAILING_WITHIN,
    )
    return Found(n=sum(n for _, n in found), names=[fingerprint for fingerprint, _ in found[:MAX_NAMES]])


def _counted(run_id: UUID, condition: str) -> Found:
    ((n,),) = rows(
        f"SELECT count(*) FROM items i JOIN wh_dead_letters l ON l.dead_letter_id = i.dead_letter_id WHERE {condition}",  # noqa: S608 - a condition of this module
        run_id,
    )
    return Found(n=n)


# --- of kinds: what stops whole types and targets


def workers_alive() -> Sequence[workers.Worker]:
    return [worker for worker in workers.all_workers() if worker.is_alive]


def unhandled(kinds: Sequence[Kind], alive: Sequence[workers.Worker]) -> Found:
    """Letters whose type or perspective no living worker handles."""
    types = {name for worker in alive for name in worker.types}
    perspectives = {name for worker in alive for name in worker.perspectives}

    def is_unhandled(kind: Kind) -> bool:
        if kind.source == PERSPECTIVES:
            return kind.target not in perspectives
        return kind.source in (INBOX, BROKER) and kind.type not in types

    return _of_kinds(kinds, is_unhandled)


def paused(kinds: Sequence[Kind], now: datetime) -> Found:
    """Letters whose source, type or target is paused."""
    names: dict[str, Set[str]] = {}
    for kind in kinds:
        source = _goes_to(kind)
        names[source] = {*names.get(source, ()), _paused_by(kind)}
    stopped = {source: _paused_names(source, known, now) for source, known in names.items()}
    return _of_kinds(kinds, lambda kind: _paused_by(kind) in stopped[_goes_to(kind)])


def _paused_names(source: str, names: Set[str], now: datetime) -> Set[str]:
    """Return which are paused; another program's source has no queue here that could be."""
    return names - pauses.unpaused(source, names, now) if source in Source.values else set()


def down(kinds: Sequence[Kind]) -> Found:
    """Letters for a destination that is not sent to at present."""
    names = [kind.target for kind in kinds if kind.source == OUTBOX and kind.target]
    broken = Destination.objects.filter(name__in=names).exclude(state=CircuitState.CLOSED)
    known = set(broken.values_list("name", flat=True))
    return _of_kinds(kinds, lambda kind: kind.source == OUTBOX and kind.target in known)


def _goes_to(kind: Kind) -> str:
    return INBOX if kind.source == BROKER else kind.source


def _paused_by(kind: Kind) -> str:
    return kind.type if _goes_to(kind) == INBOX else kind.target


def _of_kinds(kinds: Sequence[Kind], concerns: Callable[[Kind], bool]) -> Found:
    counted: dict[str, int] = {}
    for kind in kinds:
        if concerns(kind):
            name = kind.target if kind.source in (OUTBOX, PERSPECTIVES) and kind.target else kind.type
            counted[name] = counted.get(name, 0) + kind.n
    return Found(n=sum(counted.values()), names=_most(counted))


def _most(counted: Mapping[str, int]) -> Sequence[str]:
    return sorted(counted, key=lambda name: (-counted[name], name))[:MAX_NAMES]
