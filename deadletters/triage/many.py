"""The triage of many letters at once: those that are picked, or all that match a filter."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F

from deadletters.models import DeadLetter, Note, OperatorAction
from deadletters.queries import letters
from deadletters.recovery import passes
from deadletters.store import audit
from deadletters.store.audit import Actor
from deadletters.store.recovery import dispose_many
from deadletters.triage import changes as values
from deadletters.triage.actors import actor
from deadletters.triage.notes import kept_text
from deadletters.words import access
from deadletters.words.errors import BadChange, BadScope
from deadletters.words.filters import LetterFilter
from deadletters.words.policies import Event, Status, next_disposition, next_status
from deadletters.words.scopes import Letters, Matching
from queues.words.text import storable

MAX_LETTERS = 10_000
"""Letters that one call triages."""
BATCH_ROWS = 500
"""Letters that one transaction triages."""
CONFIRM_ABOVE = 100
"""Letters above which a person types how many they are."""

DECISIONS = {
    "hold": Event.HOLD,
    "release": Event.RELEASE,
    "give_up": Event.GIVE_UP,
    "reopen": Event.REOPEN,
}
VERBS = (*DECISIONS, "assign", "note")

SO_ALREADY = "so already"
DECIDED_MEANWHILE = "decided by somebody since it was asked"
WHY_NOT = {
    Status.PENDING: "open",
    Status.RECOVERING: "recovering",
    Status.HELD: "held",
    Status.RECOVERED: "recovered",
    Status.PERMANENTLY_FAILED: "given up",
}
"""What a letter is that a decision leaves alone."""

_COLUMNS = (
    *("recovery_status", "operator_disposition", "owner", "superseded_by", "decided_at"),
    *("source_table", "perspective_name", "stream_id"),
)


@dataclass(frozen=True, kw_only=True)
class Done:
    """Which letters were changed, how many were left alone, by why, and since when the audit tells of it."""

    ids: Sequence[UUID] = ()
    began_at: datetime | None = None
    left: Mapping[str, int] = field(default_factory=dict)

    @property
    def n(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, kw_only=True)
class Order:
    """What is done to the letters: a verb, with the owner of "assign" and the text of "note"; and why.

    asked_at: when a person was shown what they are; what somebody decided since then is not decided again.
    """

    verb: str
    value: str = ""
    reason: str = ""
    asked_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class _Written:
    """What became of the letters of a batch: what the audit says of each that was changed, and why others were not."""

    actions: Sequence[OperatorAction]
    left: Mapping[str, int]


def frozen(filters: LetterFilter, *, now: datetime) -> LetterFilter:
    """Return the filter with its times as they are now, so that it finds no letter that dies later."""
    since, until = filters.times(now)
    until = min(until, now) if until else now
    return replace(filters, after=None, since=since.isoformat() if since else "", until=until.isoformat())


def find(scope: Letters | Matching, *, now: datetime) -> Sequence[UUID]:
    """Return the letters of a scope, those of a filter in no order; raises BadScope for more than MAX_LETTERS."""
    if isinstance(scope, Letters):
        return list(dict.fromkeys(scope.ids))
    found: list[UUID] = []
    for part in letters.all_matching(scope.filters, now=now):
        found += part.order_by().values_list("dead_letter_id", flat=True)[: MAX_LETTERS + 1 - len(found)]
    if len(found) > MAX_LETTERS:
        raise BadScope(f"More than {MAX_LETTERS:,} letters match; narrow it down.")
    return found


def able(states: Mapping[tuple[int, int], int], verb: str) -> int:
    """Return how many letters, counted by (recovery status, disposition), a verb would change as they are now.

    Whose owner it is already is not known before the owner is.
    """
    event = DECISIONS.get(verb)
    if event is None:
        return sum(states.values())
    return sum(n for (status, decided), n in states.items() if not _why_not(status, decided, event))


def triage_many(*, user: Any, ids: Iterable[UUID], order: Order, scope_words: str) -> Done:
    """Triage letters, BATCH_ROWS in each transaction in order of id, with one operator action for each that changes.

    One more action, in the first transaction, says what was asked for. A letter that may not be changed so, or is so
    already, is left alone. Raises PermissionDenied, BadChange, BadNote.
    """
    by = actor(user, access.TRIAGE)
    write = _writer(order, by)
    todo = sorted(set(ids))
    if len(todo) > MAX_LETTERS:
        raise BadChange("letters", f"are {len(todo):,}; at most {MAX_LETTERS:,} are triaged at once")
    done, left, began_at = list[UUID](), Counter[str](), None
    for start in range(0, len(todo), BATCH_ROWS):
        with transaction.atomic():
            if start == 0:
                asked = {"verb": order.verb, "letters": len(todo), "scope": storable(scope_words)}
                began_at = audit.record(actor=by, action="triage_many", after=asked, reason=order.reason).at
            written = _batch(todo[start : start + BATCH_ROWS], write)
        done += [action.dead_letter_id for action in written.actions if action.dead_letter_id]
        left.update(written.left)
    return Done(ids=done, left=dict(left), began_at=began_at)


Writer = Callable[[Sequence[DeadLetter]], _Written]


def _batch(ids: Sequence[UUID], write: Writer) -> _Written:
    locked = DeadLetter.objects.select_for_update().only(*_COLUMNS).filter(pk__in=ids).order_by("dead_letter_id")
    current = [letter for letter in locked if letter.superseded_by is None]
    written = write(current)
    OperatorAction.objects.bulk_create(written.actions)
    gone = Counter({"gone": len(ids) - len(current)}) if len(ids) > len(current) else Counter[str]()
    return replace(written, left=gone + Counter(written.left))


def _writer(order: Order, by: Actor) -> Writer:
    """Return what does the verb to locked letters; raises BadChange, BadNote before any is."""
    reason = storable(order.reason)
    if order.verb in DECISIONS:
        return lambda found: _decide(found, order, by, reason)
    if order.verb == "assign":
        owner = values.text("owner", values.MAX_OWNER)(order.value)
        return lambda found: _assign(found, owner, by, reason)
    if order.verb == "note":
        text = kept_text(order.value)
        return lambda found: _note(found, text, by)
    raise BadChange("verb", "is none of " + ", ".join(VERBS))


def _decide(found: Sequence[DeadLetter], order: Order, by: Actor, reason: str) -> _Written:
    event, left, chosen = DECISIONS[order.verb], Counter[str](), []
    for letter in found:
        why = _why_not(letter.recovery_status, letter.operator_disposition, event)
        if why := why or _meanwhile(letter, order.asked_at):
            left[why] += 1
        else:
            chosen.append(letter)
    outcomes = dispose_many(_ids(sorted(chosen, key=_stream)), next_disposition(0, event))
    changed = [letter for letter in chosen if not outcomes[letter.dead_letter_id]]
    left.update(why for why in outcomes.values() if why)
    passes.align(_ids(changed))
    return _Written(actions=[_decided(letter, event, by, reason) for letter in changed], left=left)


def _why_not(status: int, disposition: int, event: Event) -> str:
    """Say why a decision leaves a letter alone; empty: it does not."""
    after = next_status(status, event)
    if after is None:
        return WHY_NOT[Status(status)]
    is_so = after == status and next_disposition(0, event) == disposition
    return SO_ALREADY if is_so else ""


def _meanwhile(letter: DeadLetter, asked_at: datetime | None) -> str:
    """Say that somebody decided about a letter after a person was asked; empty: nobody did."""
    is_later = asked_at is not None and letter.decided_at is not None and letter.decided_at > asked_at
    return DECIDED_MEANWHILE if is_later else ""


def _stream(letter: DeadLetter) -> tuple[str, str, UUID]:
    """Return the order in which streams are locked by whoever gives letters up."""
    return letter.source_table, letter.perspective_name or "", letter.stream_id or UUID(int=0)


def _decided(letter: DeadLetter, event: Event, by: Actor, reason: str) -> OperatorAction:
    before = {"operator_disposition": letter.operator_disposition, "recovery_status": letter.recovery_status}
    after = {
        "operator_disposition": int(next_disposition(0, event)),
        "recovery_status": int(next_status(letter.recovery_status, event) or 0),
    }
    differing = [name for name in before if before[name] != after[name]]
    return _action(
        letter,
        by,
        action="triage",
        before={name: before[name] for name in differing},
        after={name: after[name] for name in differing},
        reason=reason,
    )


def _assign(found: Sequence[DeadLetter], owner: object, by: Actor, reason: str) -> _Written:
    chosen = [letter for letter in found if (letter.owner or None) != owner]
    DeadLetter.objects.filter(pk__in=_ids(chosen)).update(owner=owner, row_version=F("row_version") + 1)
    actions = [
        _action(letter, by, action="triage", before={"owner": letter.owner}, after={"owner": owner}, reason=reason)
        for letter in chosen
    ]
    return _Written(actions=actions, left=_counted(SO_ALREADY, len(found) - len(chosen)))


def _note(found: Sequence[DeadLetter], text: str, by: Actor) -> _Written:
    notes = Note.objects.bulk_create(
        Note(dead_letter_id=letter.dead_letter_id, text=text, author=by.name) for letter in found
    )
    actions = [
        _action(letter, by, action="note", after={"note_id": note.pk})
        for letter, note in zip(found, notes, strict=True)
    ]
    return _Written(actions=actions, left={})


def _action(letter: DeadLetter, by: Actor, **fields: Any) -> OperatorAction:
    return OperatorAction(actor=by.name, actor_id=by.id, dead_letter_id=letter.dead_letter_id, **fields)


def _ids(found: Iterable[DeadLetter]) -> list[UUID]:
    return [letter.dead_letter_id for letter in found]


def _counted(why: str, n: int) -> Mapping[str, int]:
    return {why: n} if n else {}
