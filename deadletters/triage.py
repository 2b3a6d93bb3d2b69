"""What people do to dead letters: one door for pages, admin and commands.

Each call checks the permission, changes the row and writes one operator action, in one transaction.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db import transaction

from deadletters.models import DeadLetter, DeadLetterDeath, Note
from deadletters.store import audit
from deadletters.store.audit import Actor
from deadletters.store.recovery import Sent
from deadletters.store.recovery import recover as send_again
from deadletters.words import access
from deadletters.words.errors import BadNote, NoSuchLetter
from queues import wakeups
from queues.words.text import storable

MAX_NOTE = 4_000
"""Characters of a note."""


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """What became of a request to recover; everything but SENT changed nothing but the audit.

    `by` and `at` say who was first, when somebody was.
    """

    sent: Sent
    by: str = ""
    at: datetime | None = None

    @property
    def is_sent(self) -> bool:
        return self.sent is Sent.SENT


@transaction.atomic
def recover(*, dead_letter_id: UUID, user: Any) -> Recovery:
    """Send one letter's message back to its source. Raises PermissionDenied, NoSuchLetter."""
    actor = _actor(user, access.RECOVER)
    sent = send_again(dead_letter_id, actor.name)
    if sent is None:
        raise NoSuchLetter(str(dead_letter_id))
    audit.record(actor=actor, action="recover", dead_letter_id=dead_letter_id, after={"outcome": str(sent)})
    if sent is not Sent.SENT:
        return _who_was_first(dead_letter_id, sent)
    wakeups.wake(DeadLetter.objects.values_list("source_table", flat=True).get(pk=dead_letter_id))
    return Recovery(sent=sent)


def _who_was_first(dead_letter_id: UUID, sent: Sent) -> Recovery:
    death = DeadLetterDeath.objects.filter(dead_letter=dead_letter_id, recovery_sent_at__isnull=False)
    latest = death.order_by("-number").first()
    if latest is None:
        return Recovery(sent=sent)
    return Recovery(sent=sent, by=latest.recovery_actor or "", at=latest.recovery_sent_at)


@transaction.atomic
def add_note(*, dead_letter_id: UUID, text: str, user: Any) -> Note:
    """Write a note on a letter. Raises PermissionDenied, NoSuchLetter, BadNote."""
    actor = _actor(user, access.TRIAGE)
    kept = storable(text.replace("\r\n", "\n").strip())
    if not kept:
        raise BadNote("A note needs some text.")
    if len(kept) > MAX_NOTE:
        raise BadNote(f"A note may have {MAX_NOTE:,} characters; this one has {len(kept):,}.")
    if not DeadLetter.objects.filter(pk=dead_letter_id).exists():
        raise NoSuchLetter(str(dead_letter_id))
    note = Note.objects.create(dead_letter_id=dead_letter_id, text=kept, author=actor.name)
    audit.record(actor=actor, action="note", dead_letter_id=dead_letter_id, after={"note_id": note.pk})
    return note


def _actor(user: Any, permission: str) -> Actor:
    if not user.is_authenticated or not user.has_perm(permission):
        raise PermissionDenied(permission)
    return Actor(name=user.get_username(), id=str(user.pk))
