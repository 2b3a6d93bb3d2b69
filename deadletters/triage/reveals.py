"""Reveals: one masked value of a letter, or its first bytes, shown to one person for a reason."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction

from deadletters.queries import letters, versions
from deadletters.store import audit
from deadletters.triage.actors import actor
from deadletters.words import access
from deadletters.words.errors import BadChange
from deadletters.words.hexdumps import hexdump
from deadletters.words.pointers import MAX_POINTER, masked_at
from queues.words.redaction import mask_text
from queues.words.text import cut, storable, visible

MAX_REASON = 500
MAX_REVEALED = 16_000
"""Characters of a value that is shown; a longer one is downloaded."""

MAX_READ = 16 * 1024 * 1024
"""Bytes of a payload in which a value is looked for."""

FIRST_BYTES = 4_096

BYTES = "bytes"
PAYLOAD, HEADER = "payload:", "header:"


@dataclass(frozen=True, kw_only=True)
class Revealed:
    """What was revealed: which field, and its text; of bytes a dump."""

    field: str
    text: str
    is_bytes: bool = False


@transaction.atomic
def reveal(*, dead_letter_id: UUID, user: Any, field: str, reason: str) -> Revealed:
    """Return one masked value: of a place in the payload, of a header, or the first bytes as they were sent.

    field: "payload:" and a JSON pointer, "header:" and a name, or "bytes". It is written to the audit first, without
    the value. Raises PermissionDenied, NoSuchLetter, BadChange without a reason or for a field that is not masked.
    """
    by = actor(user, access.REVEAL)
    said = why(reason)
    letter = letters.get(dead_letter_id)
    shown = _read(letter, _named(field))
    audit.record(
        actor=by, action="reveal", dead_letter_id=letter.dead_letter_id, after={"field": shown.field}, reason=said
    )
    return shown


def revealed(*, dead_letter_id: UUID, user: Any, field: str) -> Revealed:
    """Return what `reveal` has written down just now. Raises PermissionDenied, NoSuchLetter, BadChange."""
    actor(user, access.REVEAL)
    return _read(letters.get(dead_letter_id), _named(field))


def why(reason: str) -> str:
    """Return the reason for which somebody sees what is masked; raises BadChange without one."""
    said = storable(reason.replace("\r\n", "\n").strip())[:MAX_REASON]
    if not said:
        raise BadChange("reason", "must say why, for those who read the audit")
    return said


def _named(field: str) -> str:
    return storable(field)[: MAX_POINTER + len(PAYLOAD)]


def _read(letter: Any, field: str) -> Revealed:
    if field == BYTES:
        data = versions.beginning_of(letter.dead_letter_id, FIRST_BYTES)
        return Revealed(field=f"the first {len(data):,} bytes", text=hexdump(data), is_bytes=True)
    if field.startswith(PAYLOAD):
        return _shown(field.removeprefix(PAYLOAD), _payload(letter.dead_letter_id), "payload ")
    if field.startswith(HEADER):
        pointer = f"/headers{field.removeprefix(HEADER)}"
        return _shown(pointer, letter.metadata, "metadata ")
    raise BadChange("field", "is none that can be revealed")


def _payload(dead_letter_id: UUID) -> str:
    if versions.size_of(dead_letter_id) > MAX_READ:
        raise BadChange("field", "is in a payload that is too large to be read here; download it")
    return versions.current(dead_letter_id).text


def _shown(pointer: str, text: str, where: str) -> Revealed:
    return Revealed(
        field=mask_text(where + (pointer or "/")), text=visible(cut(masked_at(text, pointer), MAX_REVEALED))
    )
