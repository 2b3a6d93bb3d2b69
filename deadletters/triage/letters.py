"""One dead letter: its recovery, and the triage of people."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F

from deadletters.models import DeadLetter, DeadLetterDeath, Disposition, RecoveryStatus
from deadletters.recovery import passes
from deadletters.store import audit, steps
from deadletters.store.recovery import Sent, dispose
from deadletters.store.recovery import recover as send_again
from deadletters.triage import changes as values
from deadletters.triage.actors import actor
from deadletters.triage.changes import Changed, Cleaner, compare
from deadletters.words import access
from deadletters.words.errors import BadChange, NoSuchLetter, StaleChange
from queues import wakeups
from queues.models import Source

CHANGEABLE: Mapping[str, Cleaner] = {
    "owner": values.text("owner", values.MAX_OWNER),
    "operator_disposition": values.disposition,
    "quiet_until": values.moment("quiet_until"),
    "quiet_until_generation": values.text("quiet_until_generation", values.MAX_BUILD),
}


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
def recover(*, dead_letter_id: UUID, user: Any, death: int | None = None, version: int | None = None) -> Recovery:
    """Send one letter's message back to its source. Raises PermissionDenied, NoSuchLetter.

    death, version: the numbers of the death and of the payload that the person saw; one request that arrives twice
    recovers once.
    """
    by = actor(user, access.RECOVER)
    unseen = _unseen(dead_letter_id, death, version)
    sent = unseen or send_again(dead_letter_id, by.name)
    if sent is None:
        raise NoSuchLetter(str(dead_letter_id))
    audit.record(actor=by, action="recover", dead_letter_id=dead_letter_id, after={"outcome": str(sent)})
    if sent is not Sent.SENT:
        return Recovery(sent=sent) if unseen else _who_was_first(dead_letter_id, sent)
    source = DeadLetter.objects.values_list("source_table", flat=True).get(pk=dead_letter_id)
    wakeups.wake(Source.INBOX if source == Source.BROKER else source)
    return Recovery(sent=sent)


def _unseen(dead_letter_id: UUID, death: int | None, version: int | None) -> Sent | None:
    """Return what happened to the letter that the person has not seen; locks it where they say what they saw."""
    if death is None and version is None:
        return None
    found = DeadLetter.objects.select_for_update().filter(pk=dead_letter_id).values_list("deaths", "edited_version")
    letter = found.first()
    if letter is None:
        raise NoSuchLetter(str(dead_letter_id))
    deaths, edited_version = letter
    if death not in (None, deaths):
        return Sent.DIED_AGAIN
    return Sent.EDITED if version not in (None, edited_version or 1) else None


def _who_was_first(dead_letter_id: UUID, sent: Sent) -> Recovery:
    death = DeadLetterDeath.objects.filter(dead_letter=dead_letter_id, recovery_sent_at__isnull=False)
    latest = death.order_by("-number").first()
    if latest is None:
        return Recovery(sent=sent)
    return Recovery(sent=sent, by=latest.recovery_actor or "", at=latest.recovery_sent_at)


@transaction.atomic
def change_letter(
    *, dead_letter_id: UUID, user: Any, changes: Mapping[str, object], reason: str = "", row_version: int | None = None
) -> Changed:
    """Change triage columns of a letter (see CHANGEABLE); nothing is written when nothing differs.

    A disposition takes the recovery status with it, unless the letter is in flight; a recovered letter has none.
    One that is open again is recovered by the schedule as its policy says, if anything is left of that.
    row_version: the version that the person saw. Raises PermissionDenied, NoSuchLetter, BadChange, StaleChange.
    """
    by = actor(user, access.TRIAGE)
    columns = ("row_version", "recovery_status", *CHANGEABLE)
    letter = DeadLetter.objects.select_for_update().only(*columns).filter(pk=dead_letter_id).first()
    if letter is None:
        raise NoSuchLetter(str(dead_letter_id))
    if row_version not in (None, letter.row_version):
        raise StaleChange
    changed = _with_opening(letter, changes, compare(letter, changes, CHANGEABLE))
    if changed:
        _write(dead_letter_id, dict(changed.after))
        passes.align([dead_letter_id])
        if changed.after.get("operator_disposition") == Disposition.RETRY_NOW:
            steps.wake_schedule()
        before, after = changed.as_json()
        audit.record(
            actor=by, action="triage", dead_letter_id=dead_letter_id, before=before, after=after, reason=reason
        )
    return changed


def _with_opening(letter: DeadLetter, changes: Mapping[str, object], changed: Changed) -> Changed:
    """Add that a letter is opened which its policy holds or gave up: no person's decision changes by that."""
    is_closed = letter.recovery_status in (RecoveryStatus.HELD, RecoveryStatus.PERMANENTLY_FAILED)
    undecided = letter.operator_disposition == Disposition.NONE
    if not (is_closed and undecided and changes.get("operator_disposition") == Disposition.NONE):
        return changed
    before = {**changed.before, "recovery_status": letter.recovery_status}
    return Changed(before=before, after={**changed.after, "recovery_status": int(RecoveryStatus.PENDING)})


def _write(dead_letter_id: UUID, after: dict[str, Any]) -> None:
    opens = after.pop("recovery_status", None) is not None
    disposition = after.pop("operator_disposition", Disposition.NONE if opens else None)
    if disposition is not None and (refused := dispose(dead_letter_id, disposition)):
        raise BadChange("operator_disposition", f"cannot be changed: the letter is {refused}")
    if after:
        DeadLetter.objects.filter(pk=dead_letter_id).update(**after, row_version=F("row_version") + 1)
