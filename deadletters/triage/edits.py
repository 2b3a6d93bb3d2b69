"""Edits of a letter's payload before its recovery: versions that can be compared and restored."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction

from deadletters.models import DeadLetter, RecoveryStatus
from deadletters.queries import versions
from deadletters.store import audit
from deadletters.store import edits as store
from deadletters.store.audit import Actor
from deadletters.triage.actors import actor
from deadletters.words import access, edits
from deadletters.words.edits import Line, Secret
from deadletters.words.errors import BadChange, NoSuchLetter, NoSuchVersion, StaleChange
from queues.conf import conf
from queues.models import Source
from queues.words.errors import InvalidMessage
from queues.words.payloads import Encoded, encode_bytes
from queues.words.redaction import mask_text
from queues.words.text import storable

MAX_REASON = 500
"""Characters of the reason that is kept with a version."""
MAX_VERSIONS = 100
"""Versions of one letter's payload."""
MAX_DRAFT = 16 * 1024 * 1024
"""Bytes of a payload that is laid out for an edit."""

_REFUSED = {
    "recovering": "cannot be edited while the letter is recovering",
    "recovered": "cannot be edited: the letter is recovered",
    "given up": "cannot be edited: the letter is given up; reopen it first",
    "superseded": "cannot be edited: a later dead letter has taken its place",
    "an event": "cannot be edited: an event says what happened, and others have applied it already",
    "full": f"has {MAX_VERSIONS} versions; there is no room for more",
}


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A payload to be edited: JSON laid out with numbered masks; `is_json` false = what it was cannot be kept."""

    row_version: int
    text: str
    is_json: bool
    secrets: dict[int, Secret]


@dataclass(frozen=True, kw_only=True)
class Preview:
    """How what was typed differs from what the letter holds and from the original, secrets masked."""

    from_present: Sequence[Line]
    from_original: Sequence[Line]


def draft(*, dead_letter_id: UUID, user: Any, max_bytes: int = MAX_DRAFT) -> Draft:
    """Return the payload as it is edited. Raises PermissionDenied, NoSuchLetter, and BadChange for a larger one."""
    actor(user, access.EDIT_PAYLOAD)
    return _draft(dead_letter_id, max_bytes)


def preview(*, dead_letter_id: UUID, text: str, user: Any, row_version: int, max_bytes: int = MAX_DRAFT) -> Preview:
    """Say what an edit would change, without making it; raises what `edit` raises."""
    actor(user, access.EDIT_PAYLOAD)
    present = _present(dead_letter_id, row_version, max_bytes)
    typed, _ = _read(text, present)
    shown = edits.laid_out(edits.masked_again(typed))
    return Preview(
        from_present=edits.difference(present.text, shown),
        from_original=edits.difference(_original(dead_letter_id, present), edits.without_numbers(shown)),
    )


@transaction.atomic
def edit(*, user: Any, dead_letter_id: UUID, text: str, reason: str, row_version: int) -> int:
    """Put an edited payload, a JSON text, into a letter and return its version; the original stays as version 1.

    A mask of the draft that is left in place keeps the value behind it. row_version: the one of the draft. The message
    is sent under a new id from then on. Raises PermissionDenied, NoSuchLetter, BadChange, StaleChange.
    """
    by = actor(user, access.EDIT_PAYLOAD)
    said = _reason(reason)
    present = _present(dead_letter_id, row_version, MAX_DRAFT)
    _, payload = _read(text, present)
    return _put(dead_letter_id, payload, by=by, action="edit", reason=said, row_version=row_version)


@transaction.atomic
def restore(*, user: Any, dead_letter_id: UUID, version: int, reason: str, row_version: int) -> int:
    """Put an earlier version back, byte for byte, as the newest one; return its number.

    Raises PermissionDenied, NoSuchLetter, NoSuchVersion, BadChange, StaleChange.
    """
    by = actor(user, access.EDIT_PAYLOAD)
    return _put(dead_letter_id, version, by=by, action="restore", reason=_reason(reason), row_version=row_version)


def compare(*, dead_letter_id: UUID, version: int, with_version: int, user: Any, max_bytes: int) -> Sequence[Line]:
    """Say how two versions differ; masked values are not compared.

    Raises PermissionDenied, NoSuchVersion, BadChange.
    """
    actor(user, access.VIEW)
    texts = []
    for number in (with_version, version):
        _refuse_large(versions.size_of(dead_letter_id, number), max_bytes)
        texts.append(edits.without_numbers(_laid_out(versions.text_of(dead_letter_id, number))[0]))
    return edits.difference(*texts)


def why_not(letter: DeadLetter) -> str:
    """Say why a letter's payload cannot be edited; empty when it can."""
    if letter.source_table == Source.PERSPECTIVE:
        return _REFUSED["an event"]
    names = {
        RecoveryStatus.RECOVERING: "recovering",
        RecoveryStatus.RECOVERED: "recovered",
        RecoveryStatus.PERMANENTLY_FAILED: "given up",
    }
    return _REFUSED.get(names.get(RecoveryStatus(letter.recovery_status), ""), "")


def _put(dead_letter_id: UUID, payload: Encoded | int, *, by: Actor, action: str, reason: str, row_version: int) -> int:
    before = DeadLetter.objects.filter(pk=dead_letter_id).values("edited_version", "envelope_bytes").first()
    limits = {"row_version": row_version, "limit": MAX_VERSIONS}
    done = store.edit(dead_letter_id, payload, by=by, reason=reason, **limits)
    if done.version is None or before is None:
        raise _refusal(done.refused, dead_letter_id, payload)
    size = DeadLetter.objects.values_list("envelope_bytes", flat=True).get(pk=dead_letter_id)
    restored = {"restored": payload} if isinstance(payload, int) else {}
    audit.record(
        actor=by,
        action=action,
        dead_letter_id=dead_letter_id,
        before={"version": before["edited_version"] or 1, "bytes": before["envelope_bytes"]},
        after={"version": done.version, "bytes": size, **restored},
        reason=reason,
    )
    return done.version


def _refusal(refused: str, dead_letter_id: UUID, payload: Encoded | int) -> Exception:
    if refused == "gone":
        return NoSuchLetter(str(dead_letter_id))
    if refused == "changed":
        return StaleChange()
    if refused == "no such version" and isinstance(payload, int):
        return NoSuchVersion(payload)
    return BadChange("payload", _REFUSED[refused])


def _present(dead_letter_id: UUID, row_version: int, max_bytes: int) -> Draft:
    """Return the draft as the editor saw it; raises BadChange where there is nothing to edit."""
    columns = ("source_table", "recovery_status", "superseded_by")
    letter = DeadLetter.objects.only(*columns).filter(pk=dead_letter_id).first()
    if letter is None:
        raise NoSuchLetter(str(dead_letter_id))
    if problem := _REFUSED["superseded"] if letter.superseded_by else why_not(letter):
        raise BadChange("payload", problem)
    present = _draft(dead_letter_id, max_bytes)
    if present.row_version != row_version:
        raise StaleChange
    return present


def _draft(dead_letter_id: UUID, max_bytes: int) -> Draft:
    _refuse_large(versions.size_of(dead_letter_id), max_bytes)
    current = versions.current(dead_letter_id)
    text, secrets, is_json = _laid_out(current.text)
    return Draft(row_version=current.row_version, text=text, is_json=is_json, secrets=secrets)


def _refuse_large(size: int, max_bytes: int) -> None:
    if size > max_bytes:
        raise BadChange("payload", f"has {size:,} bytes; at most {max_bytes:,} are edited and compared here")


def _laid_out(text: str) -> tuple[str, dict[int, Secret], bool]:
    """Return a payload with its secrets masked, what stands behind the masks, and whether it is JSON at all."""
    try:
        shown, secrets = edits.masked(edits.parse(text))
    except BadChange:
        return mask_text(storable(text)), {}, False
    return edits.laid_out(shown), secrets, True


def _original(dead_letter_id: UUID, present: Draft) -> str:
    try:
        return edits.without_numbers(_laid_out(versions.text_of(dead_letter_id, 1))[0])
    except NoSuchVersion:
        return edits.without_numbers(present.text)


def _read(text: str, present: Draft) -> tuple[Any, Encoded]:
    """Return what was typed, as typed and as it is stored; raises BadChange."""
    limits = conf().payload_limits()
    typed = edits.parse(text, limits.max_depth)
    whole = edits.compact(edits.merged(typed, present.secrets))
    if present.is_json and edits.laid_out(typed) == present.text:
        raise BadChange("payload", "is as it was; nothing was changed")
    try:
        return typed, encode_bytes(whole.encode("utf-8", "backslashreplace"), limits=limits)
    except InvalidMessage as exc:
        raise BadChange("payload", f"cannot be sent: {exc}") from exc


def _reason(reason: str) -> str:
    said = storable(reason.replace("\r\n", "\n").strip())[:MAX_REASON]
    if not said:
        raise BadChange("reason", "must say why, for those who ask what became of the original")
    return said
