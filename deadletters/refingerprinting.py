"""Version 2 fingerprints for letters whose mover knew only version 1."""

from collections.abc import Sequence
from uuid import UUID

from django.db import transaction
from django.db.models.functions import Now

from deadletters.models import DeadLetter, GroupFingerprint
from deadletters.words.fingerprints import VERSION, Fingerprint, fingerprint, is_readable

BATCH_ROWS = 200

NOTHING_NAMED = "e3b0c44298fc1c14"
"""Version 1 of any text without a capitalised name: all such prose is one fault to it."""


def refingerprint(at_most: int = 10_000) -> int:
    """Look at letters of version 1, in transactions of BATCH_ROWS; return how many got version 2.

    A text that version 2 cannot read keeps version 1 and is not looked at again. The first version 2 fingerprint
    that comes out of a group joins it, so that its triage and links stay; others make groups of their own.
    """
    changed = looked_at = 0
    while looked_at < at_most and (letters := _batch()):
        looked_at += len(letters)
        changed += _look_at(letters)
    return changed


def _batch() -> Sequence[UUID]:
    waiting = DeadLetter.objects.filter(error_fingerprint_version=1, fingerprint_checked_at=None)
    return list(waiting.order_by("dead_letter_id").values_list("dead_letter_id", flat=True)[:BATCH_ROWS])


@transaction.atomic
def _look_at(letter_ids: Sequence[UUID]) -> int:
    locked = DeadLetter.objects.select_for_update().filter(
        dead_letter_id__in=letter_ids, error_fingerprint_version=1, fingerprint_checked_at=None
    )
    columns = ("error_text", "cause", "failure_reason", "error_fingerprint")
    changed = 0
    for letter in locked.order_by("dead_letter_id").only(*columns):
        text = letter.error_text or ""
        if text.strip() and letter.error_fingerprint != NOTHING_NAMED and not is_readable(text):
            DeadLetter.objects.filter(pk=letter.pk).update(fingerprint_checked_at=Now())
            continue
        _refingerprint(letter, fingerprint(text, cause=letter.cause or "", reason=letter.failure_reason))
        changed += 1
    return changed


def _refingerprint(letter: DeadLetter, known: Fingerprint) -> None:
    _join_group(letter, known)
    DeadLetter.objects.filter(pk=letter.pk).update(
        error_fingerprint=known.value, error_fingerprint_version=known.version, fingerprint_checked_at=Now()
    )
    letter.death_rows.filter(number=letter.deaths).update(
        error_fingerprint=known.value, error_fingerprint_version=known.version
    )


def _join_group(letter: DeadLetter, known: Fingerprint) -> None:
    """Let the fingerprint belong to the letter's present group when that has none of version 2 yet."""
    present = GroupFingerprint.objects.filter(fingerprint=letter.error_fingerprint, version=1).first()
    if present is None or GroupFingerprint.objects.filter(group=present.group_id, version=VERSION).exists():
        return
    GroupFingerprint.objects.get_or_create(
        fingerprint=known.value, version=known.version, defaults={"group_id": present.group_id}
    )
