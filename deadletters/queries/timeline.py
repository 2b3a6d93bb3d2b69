"""All that happened to one letter's message, to a group, or around a subject, in one list."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from deadletters.models import DeadLetterDeath, OperatorAction, Verdict
from deadletters.queries.actions import describe
from deadletters.queries.parts import EVENTS, History
from queues.models import DeliveryLogEntry

LIMIT = 100
"""Events of each kind that are read, the newest ones."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """One thing that happened. `kind` picks the icon; `text` may be anything that a failure says.

    `letter`: the dead letter that it happened to, where the list is of several; `run`: the recovery run that did it.
    """

    at: datetime
    kind: str
    title: str
    text: str = ""
    by: str = ""
    letter: UUID | None = None
    run: UUID | None = None


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """Events, the newest first; `older_than`: before when those are that were left out, where they can be asked for."""

    events: Sequence[Event]
    is_cut: bool
    older_than: datetime | None = None


def of(history: History, before: datetime | None = None) -> Timeline:
    """Return the events of a letter, the newest first, those before a time; more of one moment are not parted."""
    in_runs = {item.item_id: item.run_id for item in history.items}
    events = [
        *map(_run, history.log),
        *(event for death in history.deaths for event in _death(death, in_runs)),
        *(
            Event(at=note.written_at, kind="note", title="Note", text=note.text, by=note.author)
            for note in history.notes
        ),
        *(event for action in history.actions for event in _action(action)),
    ]
    told = sorted((each for each in events if before is None or each.at < before), key=_moment, reverse=True)
    if len(told) <= EVENTS:
        return Timeline(events=told, is_cut=False)
    oldest = told[EVENTS - 1].at
    return Timeline(events=[event for event in told if event.at >= oldest], is_cut=True, older_than=oldest)


def of_message(message_id: UUID) -> Timeline:
    """Return what is known of a message that may be alive: its runs, and what people did to it, the newest first."""
    log = DeliveryLogEntry.objects.filter(message_id=message_id).defer("failure_detail")
    runs = list(log.order_by("-logged_at", "-id")[: LIMIT + 1])
    actions = OperatorAction.objects.filter(message_id=message_id).order_by("-at", "-id")[:LIMIT]
    events = [*(_run(entry) for entry in runs[:LIMIT]), *(event for action in actions for event in _action(action))]
    return Timeline(events=sorted(events, key=_moment, reverse=True), is_cut=len(runs) > LIMIT)


def of_group(group_id: UUID) -> Timeline:
    """Return what people did to a group, the newest first; its notes stand elsewhere."""
    actions = OperatorAction.objects.filter(group_id=group_id).exclude(action="note").order_by("-at", "-id")
    return of_actions(list(actions[: LIMIT + 1]))


def of_actions(newest: Sequence[OperatorAction]) -> Timeline:
    """Return what people did, of which one more than LIMIT says that there is more."""
    return Timeline(
        events=[event for action in newest[:LIMIT] for event in _action(action)], is_cut=len(newest) > LIMIT
    )


def of_run(run_id: UUID) -> Timeline:
    """Return what people did to a recovery run, the newest first."""
    newest = list(OperatorAction.objects.filter(run_id=run_id).order_by("-at", "-id")[: LIMIT + 1])
    return Timeline(
        events=[event for action in newest[:LIMIT] for event in _action(action)], is_cut=len(newest) > LIMIT
    )


def _moment(event: Event) -> tuple[datetime, bool]:
    """Order by time; a run and the death that it caused are written at one moment, the run came first."""
    return event.at, event.kind == "death"


_OUTCOMES = {
    "success": "Handled",
    "failure": "Failed",
    "terminal": "Failed for good",
    "delayed": "Delayed",
    "worker_lost": "Worker lost",
    "released": "Given back, not counted",
}


def _run(entry: DeliveryLogEntry) -> Event:
    took = f" after {entry.duration_ms:,} ms" if entry.duration_ms is not None else ""
    life = f" of life {entry.life}" if entry.life > 1 else ""
    build = f" · build {entry.generation}" if entry.generation else ""
    title = f"{_OUTCOMES.get(entry.outcome, entry.outcome)}{took} · attempt {entry.attempt}{life}{build}"
    return Event(at=_ended_at(entry), kind=entry.outcome, title=title, text=entry.failure_message or "")


def _ended_at(entry: DeliveryLogEntry) -> datetime:
    """Return when a run ended: its log is written after the death that it caused."""
    if entry.started_at is None or entry.duration_ms is None:
        return entry.logged_at
    return min(entry.logged_at, entry.started_at + timedelta(milliseconds=entry.duration_ms))


def _death(death: DeadLetterDeath, in_runs: Mapping[UUID, UUID]) -> Iterable[Event]:
    nth = "Dead-lettered" if death.number == 1 else f"Dead-lettered again (death {death.number})"
    title = f"{nth} · build {death.generation or '–'}"
    yield Event(at=death.dead_lettered_at, kind="death", title=title, text=_line(death))
    if death.verdict_at is not None and death.verdict == "recovered":
        yield Event(at=death.verdict_at, kind="recovered", title="Recovered: the handler has handled it")
    if death.recovery_sent_at is not None:
        ended = f", {Verdict(death.verdict).label.lower()}" if death.verdict not in (None, Verdict.RECOVERED) else ""
        run = in_runs.get(death.recovery_item_id) if death.recovery_item_id else None
        title, by = f"Recovery sent{ended}", death.recovery_actor or ""
        yield Event(at=death.recovery_sent_at, kind="sent", title=title, by=by, run=run)


def _line(death: DeadLetterDeath) -> str:
    return (death.error_text or "").partition("\n")[0]


def _action(action: OperatorAction) -> Iterable[Event]:
    """Yield what a person did; a recovery that was sent is told by the death that it follows."""
    outcome = (action.after or {}).get("outcome", "")
    if action.action == "recover" and outcome == "sent":
        return
    yield Event(at=action.at, kind="action", title=describe(action), text=action.reason, by=action.actor)
