"""The dead letter store of the queues: the move and the verdicts, in the drainer's transaction."""

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models.fields.json import KT
from uuid_utils.compat import uuid7

from deadletters.models import DeadLetter, RecoveryStatus
from deadletters.store import steps
from deadletters.words.fingerprints import fingerprint
from queues.conf import conf
from queues.words.dead_letters import Death, Settlement, Unreceivable
from queues.words.outcomes import Cause, FailureReason, OutcomeKind
from queues.words.reactions import Content
from queues.words.sources import PERSPECTIVES

_READ = """
SELECT coalesce((c.envelope -> 'event_data')::text, 'null'), c.metadata::text, c.envelope_raw
  FROM wh_dead_letters l JOIN wh_dead_letters c ON c.dead_letter_id = coalesce(l.superseded_by, l.dead_letter_id)
 WHERE l.dead_letter_id = %s
"""


class Store:
    """Implements `queues.words.dead_letters.DeadLetterStore` on `wh_dead_letters`."""

    def lock(self, dead_letter_ids: Sequence[UUID]) -> None:
        """Lock these letters, in order of id."""
        if dead_letter_ids:
            letters = DeadLetter.objects.filter(dead_letter_id__in=dead_letter_ids).order_by("dead_letter_id")
            list(letters.select_for_update().values_list("dead_letter_id", flat=True))

    def move(self, deaths: Sequence[Death]) -> Mapping[UUID, UUID]:
        """Move messages of one source and claim; return source id to letter id of those that were moved.

        Raises ValueError without the name of a source or of the build.
        """
        if not deaths:
            return {}
        first = deaths[0]
        if not first.source or not first.generation:
            raise ValueError("a death names its source and its generation")
        moves = [_move(death) for death in deaths]
        arguments: list[Any] = [first.source, json.dumps(moves), first.instance_id, first.generation, first.lease_token]
        new = {move["dead_letter_id"] for move in moves}
        with connection.cursor() as cursor:
            cursor.execute("SELECT * FROM move_batch_to_dead_letters(%s, %s, %s, %s, %s)", arguments)
            moved = dict(cursor.fetchall())
        if any(str(letter) not in new for letter in moved.values()):
            steps.wake()  # a recovery came to nothing
        return moved

    def settle(self, settlements: Sequence[Settlement]) -> None:
        """Mark the letters of handled messages recovered; a delayed one stays recovering, and its run waits for it."""
        handled = [item for item in settlements if item.outcome is OutcomeKind.SUCCESS]
        put_off = [item for item in settlements if item.outcome is OutcomeKind.DELAYED]
        answered = 0
        if handled:
            skipped = [item.dead_letter_id for item in handled if item.skipped]
            answered += _call("settle_recovered(%s, %s)", [item.dead_letter_id for item in handled], skipped)
        if put_off:
            answered += _call("settle_delayed(%s)", json.dumps([_delay(item) for item in put_off]))
        if answered:
            steps.wake()

    def dead_events(self, perspective: str, stream_id: UUID) -> set[UUID]:
        """Return the stream's events that died in the perspective and have not been applied since."""
        letters = DeadLetter.objects.filter(stream_id=stream_id, perspective_name=perspective, superseded_by=None)
        letters = letters.filter(source_table=PERSPECTIVES).exclude(recovery_status=RecoveryStatus.RECOVERED)
        return {UUID(event) for event in letters.values_list(KT("source_row__event_id"), flat=True) if event}

    def read(self, dead_letter_id: UUID) -> Content | None:
        """Return the body of the letter's message as it is kept now, the current letter's if it was superseded."""
        with connection.cursor() as cursor:
            cursor.execute(_READ, [dead_letter_id])
            row = cursor.fetchone()
        if row is None:
            return None
        event_data, metadata, raw = row
        return Content(event_data=event_data, metadata=metadata, envelope_raw=None if raw is None else bytes(raw))

    def keep(self, unreceivable: Sequence[Unreceivable]) -> None:
        """Write a letter with the source `broker` for each, unless there is one of its id."""
        if not unreceivable:
            return
        first = unreceivable[0]
        letters = json.dumps([_letter(one) for one in unreceivable])
        bodies = [one.body for one in unreceivable]
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT keep_broker_letters(%s, %s::bytea[], %s, %s)",
                [letters, bodies, first.instance_id, first.generation],
            )

    def is_dead(self, source: str, source_ids: Sequence[UUID]) -> set[UUID]:
        """Return which of these messages have a letter that is not recovered, also one that was edited since."""
        current = DeadLetter.objects.filter(source_table=source, superseded_by=None)
        dead = current.exclude(recovery_status=RecoveryStatus.RECOVERED)
        by_id = dead.filter(source_id__in=source_ids).values_list("source_id", flat=True)
        by_original_id = dead.filter(original_id__in=source_ids).values_list("original_id", flat=True)
        return {*by_id, *(original for original in by_original_id if original is not None)}


def _call(function: str, *arguments: Any) -> int:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {function}", arguments)
        return int(cursor.fetchone()[0])


def _delay(item: Settlement) -> dict[str, Any]:
    due_in = item.due_in or timedelta(0)
    return {"dead_letter_id": str(item.dead_letter_id), "due_in_ms": round(due_in / timedelta(milliseconds=1))}


def move_by_hand(source: str, source_id: UUID, *, reason: int | None, error: str, holds: bool | None) -> UUID | None:
    """Move one message for a person, whoever has it claimed; return its letter's id, None = somebody moved it first.

    error: what the person says; what the row has stored is added to it. holds: its stream waits behind it, None = as
    is usual for the source. A run of it is rolled back when it reports.
    """
    move = {
        "dead_letter_id": str(uuid7()),
        "source_id": str(source_id),
        "failure_reason": int(FailureReason.UNKNOWN if reason is None else reason),
        "error_text": error,
        "cause": str(Cause.OPERATOR),
        "with_stored": True,
        "holds": holds,
    }
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT dead_letter_id FROM move_batch_to_dead_letters(%s, %s, NULL, %s, p_force => true)",
            [source, json.dumps([move]), conf().generation],
        )
        row = cursor.fetchone()
        return None if row is None else row[0]


def _move(death: Death) -> dict[str, Any]:
    text = death.failure.text if death.failure else None
    known = fingerprint(text, cause=death.cause, reason=death.reason)
    return {
        "dead_letter_id": str(uuid7()),
        "source_id": str(death.source_id),
        "failure_reason": int(death.reason),
        "error_text": text,
        "failure_detail": death.failure.structure() if death.failure else None,
        "cause": str(death.cause),
        "last_reported_error": death.last_reported,
        "attempts": death.attempts,
        "holds": death.holds,
        "fingerprint": known.value,
        "fingerprint_version": known.version,
    }


def _letter(one: Unreceivable) -> dict[str, Any]:
    reason = FailureReason.SERIALIZATION_ERROR
    known = fingerprint(one.failure.text, cause=Cause.UNREADABLE, reason=reason)
    return {
        "dead_letter_id": str(uuid7()),
        "source_id": str(one.message_id),
        "stream_id": str(one.stream_id) if one.stream_id else None,
        "message_type": one.message_type,
        "destination": one.queue,
        "event_data": one.shown,
        "metadata": one.metadata,
        "failure_reason": int(reason),
        "error_text": one.failure.text,
        "cause": str(Cause.UNREADABLE),
        "fingerprint": known.value,
        "fingerprint_version": known.version,
    }
