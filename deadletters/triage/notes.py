"""Notes on letters and on groups."""

from typing import Any
from uuid import UUID

from django.db import transaction

from deadletters.models import DeadLetter, FailureGroup, Note
from deadletters.store import audit
from deadletters.triage.actors import actor
from deadletters.words import access
from deadletters.words.errors import BadNote, NoSuchGroup, NoSuchLetter
from queues.words.text import storable

MAX_NOTE = 4_000
"""Characters of a note."""


@transaction.atomic
def add_note(*, text: str, user: Any, dead_letter_id: UUID | None = None, group_id: UUID | None = None) -> Note:
    """Write a note on a letter or on a group. Raises PermissionDenied, NoSuchLetter, NoSuchGroup, BadNote."""
    by = actor(user, access.TRIAGE)
    kept = kept_text(text)
    _refuse_missing(dead_letter_id, group_id)
    note = Note.objects.create(dead_letter_id=dead_letter_id, group_id=group_id, text=kept, author=by.name)
    after = {"note_id": note.pk}
    audit.record(actor=by, action="note", dead_letter_id=dead_letter_id, group_id=group_id, after=after)
    return note


def kept_text(text: str) -> str:
    """Return a note's text as it is kept; raises BadNote."""
    kept = storable(text.replace("\r\n", "\n").strip())
    if not kept:
        raise BadNote("A note needs some text.")
    if len(kept) > MAX_NOTE:
        raise BadNote(f"A note may have {MAX_NOTE:,} characters; this one has {len(kept):,}.")
    return kept


def _refuse_missing(dead_letter_id: UUID | None, group_id: UUID | None) -> None:
    if (dead_letter_id is None) == (group_id is None):
        raise TypeError("a note is on a letter or on a group")
    if dead_letter_id is not None and not DeadLetter.objects.filter(pk=dead_letter_id).exists():
        raise NoSuchLetter(str(dead_letter_id))
    if group_id is not None and not FailureGroup.objects.filter(pk=group_id).exists():
        raise NoSuchGroup(str(group_id))
