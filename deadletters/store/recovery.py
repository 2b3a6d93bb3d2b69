"""Changes of a dead letter's recovery status, each as one call of its SQL function."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from uuid import UUID

from django.db import connection


class Sent(StrEnum):
    """What `recover` did; everything but SENT changed nothing.

    DIED_AGAIN: the person saw an earlier death. EDITED: the person saw an earlier payload.
    """

    SENT = "sent"
    RECOVERING = "recovering"
    RECOVERED = "recovered"
    GIVEN_UP = "given_up"
    CONFLICT = "conflict"
    SUPERSEDED = "superseded"
    UNSUPPORTED = "unsupported"
    BROKEN = "broken"
    DIED_AGAIN = "died_again"
    EDITED = "edited"


def recover(dead_letter_id: UUID, actor: str) -> Sent | None:
    """Re-emit the letter's message to its source and return what happened; None = there is no such letter.

    Locks the letter for the caller's transaction. Source: `sql/recover_v1.sql`.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT recover_dead_letter(%s, %s)", [dead_letter_id, actor])
        (code,) = cursor.fetchone()
    return None if code is None else Sent(code)


def dispose(dead_letter_id: UUID, disposition: int) -> str:
    """Set a person's disposition with the status that follows; "" = done, else what the letter is instead.

    Locks the letter for the caller's transaction. Source: `sql/triage_v1.sql`.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT dispose_dead_letter(%s, %s)", [dead_letter_id, disposition])
        (code,) = cursor.fetchone()
    return "gone" if code is None else str(code)


def dispose_many(dead_letter_ids: Sequence[UUID], disposition: int) -> Mapping[UUID, str]:
    """Set a person's disposition of letters that the caller has locked, in this order; what `dispose` says, by id."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT o.id, coalesce(dispose_dead_letter(o.id, %s), 'gone')"
            "  FROM unnest(%s::uuid[]) WITH ORDINALITY AS o(id, place) ORDER BY o.place",
            [disposition, list(dead_letter_ids)],
        )
        return dict(cursor.fetchall())
