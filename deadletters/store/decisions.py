"""What is decided about letters without a person: which to look at, what is known of them, and what is written."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection

from deadletters.models import RecoveryPolicy
from deadletters.words.policies import AfterBudget, Decision, LetterFacts, Policy
from queues.models import Source

SPREADS = 2**32


@dataclass(frozen=True, kw_only=True)
class Looked:
    """A letter that is locked, and what is known of it. `group_id`: the group that it belongs to, if there is one."""

    dead_letter_id: UUID
    row_version: int
    cause: str | None
    reason: int
    died_at: datetime
    group_id: UUID | None
    facts: LetterFacts

    @property
    def spread(self) -> float:
        """Where the letter lies between half and all of a cooldown, in [0, 1): the same each time that it is asked."""
        return float(self.dead_letter_id.int % SPREADS) / SPREADS


@dataclass(frozen=True, kw_only=True)
class Decided:
    """A decision about a letter, and when it is looked at next."""

    letter: Looked
    decision: Decision
    next_recovery_at: datetime | None = None


def policies() -> Sequence[Policy]:
    """Return the policies in force."""
    return [policy_of(row) for row in RecoveryPolicy.objects.all()]


def policy_of(row: RecoveryPolicy) -> Policy:
    """Return a row as the rule that it is."""
    return Policy(
        name=row.name,
        cause=row.cause,
        reason=row.failure_reason,
        automatic=row.is_automatic,
        max_recoveries=row.max_recoveries,
        cooldown=timedelta(seconds=row.cooldown_seconds),
        then=AfterBudget(row.then),
    )


def take_turn() -> bool:
    """Take the schedule's turn until the end of the transaction; False: another scan has it."""
    return bool(_one("SELECT pg_try_advisory_xact_lock(hashtext('deadletters.recover_due'))"))


def lock_due(limit: int, now: datetime) -> Sequence[UUID]:
    """Lock the letters that the schedule has to look at, the longest due first, without those that others have locked.

    All of them, what they came to be since: each leaves the range of the index with what is decided.
    """
    rows = _rows(
        "SELECT l.dead_letter_id FROM wh_dead_letters l"
        " WHERE l.dead_letter_id = ANY (ARRAY(SELECT due_dead_letters(%s, %s)))"
        "   AND l.recovery_status = 0 AND l.superseded_by IS NULL AND l.next_recovery_at <= %s"
        " ORDER BY l.next_recovery_at, l.dead_letter_id FOR UPDATE SKIP LOCKED",
        [limit, now, now],
    )
    return [letter_id for (letter_id,) in rows]


def lock(ids: Sequence[UUID]) -> None:
    """Lock these letters, in order of id."""
    _rows(
        "SELECT 1 FROM wh_dead_letters l WHERE l.dead_letter_id = ANY (%s) ORDER BY l.dead_letter_id FOR UPDATE",
        [list(ids)],
    )


_FACTS = """
    SELECT l.dead_letter_id, l.row_version, l.cause, l.failure_reason, l.dead_lettered_at, f.group_id,
           l.recovery_status, l.operator_disposition, l.recovery_attempts, l.next_recovery_at,
           greatest(l.quiet_until, g.quiet_until),
           EXISTS (SELECT FROM (VALUES (l.quiet_until_generation), (g.quiet_until_generation),
                                       (CASE g.state WHEN 'fixed' THEN g.fixed_in_generation END)) AS w(build)
                    WHERE w.build <> '' AND NOT EXISTS (SELECT FROM generations n WHERE n.build = w.build)),
           CASE WHEN l.held_by_group IS NOT NULL THEN coalesce(h.operator_disposition = 2, false)
                ELSE coalesce(g.operator_disposition = 2, false)
                     AND coalesce(l.decided_at < greatest(g.held_at, l.dead_lettered_at), true) END,
           l.held_by_group IS NOT NULL, coalesce(l.decided_at > l.dead_lettered_at, false),
           l.source_table = ANY (%s)
      FROM wh_dead_letters l
      LEFT JOIN group_fingerprints f ON f.fingerprint = l.error_fingerprint
                                    AND f.version = l.error_fingerprint_version
      LEFT JOIN failure_groups g ON g.group_id = f.group_id
      LEFT JOIN failure_groups h ON h.group_id = l.held_by_group
     WHERE l.superseded_by IS NULL AND l.dead_letter_id = ANY (%s)
     ORDER BY l.dead_letter_id"""


def look_at(ids: Sequence[UUID]) -> Sequence[Looked]:
    """Return what is known of these letters, in order of id."""
    return [
        Looked(
            dead_letter_id=letter_id,
            row_version=version,
            cause=cause,
            reason=reason,
            died_at=died_at,
            group_id=group_id,
            facts=LetterFacts(
                status=status,
                disposition=disposition,
                recovery_attempts=attempts,
                next_recovery_at=next_at,
                quiet_until=quiet_until,
                awaits_generation=awaits,
                is_group_held=is_group_held,
                is_held_by_group=is_held_by_group,
                is_opened=is_opened,
                is_known=is_known,
            ),
        )
        for (
            letter_id, version, cause, reason, died_at, group_id, status, disposition, attempts, next_at, quiet_until,
            awaits, is_group_held, is_held_by_group, is_opened, is_known,
        ) in _rows(_FACTS, [Source.values, list(ids)])
    ]  # fmt: skip


def in_runs(ids: Sequence[UUID]) -> set[UUID]:
    """Return which of these letters wait in a run that is going on, or in one that the schedule began."""
    rows = _rows(
        "SELECT i.dead_letter_id FROM recovery_items i JOIN recovery_runs r ON r.run_id = i.run_id"
        " WHERE i.dead_letter_id = ANY (%s) AND i.state = 'waiting'"
        "   AND (r.state IN ('running', 'paused') OR r.kind <> 'person' AND r.state IN ('freezing', 'ready'))",
        [list(ids)],
    )
    return {letter_id for (letter_id,) in rows}


def put_off(ids: Sequence[UUID], until: datetime) -> None:
    """Look at these letters again at a time; they are locked by the caller."""
    _execute(
        "UPDATE wh_dead_letters SET next_recovery_at = %s WHERE dead_letter_id = ANY (%s) AND recovery_status = 0",
        [until, list(ids)],
    )


def write(decided: Sequence[Decided]) -> Mapping[UUID, str]:
    """Write decisions; return those of the letters that were changed. Source: `sql/schedule_v1.sql`."""
    if not decided:
        return {}
    decisions = [
        {
            "dead_letter_id": str(one.letter.dead_letter_id),
            "row_version": one.letter.row_version,
            "decision": str(one.decision),
            "next_recovery_at": one.next_recovery_at.isoformat() if one.next_recovery_at else None,
            "group_id": str(one.letter.group_id) if one.letter.group_id else None,
        }
        for one in decided
    ]
    return dict(_rows("SELECT * FROM write_recovery_decisions(%s)", [json.dumps(decisions)]))


def _one(sql: str) -> Any:
    return _rows(sql, [])[0][0]


def _rows(sql: str, parameters: Sequence[Any] = ()) -> Sequence[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall())


def _execute(sql: str, parameters: Sequence[Any]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
