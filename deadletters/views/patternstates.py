"""The states of what the pages are made of, made up: nothing, one, many, and what goes wrong."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from django.http import QueryDict
from django.urls import reverse

from deadletters.models import (
    DeadLetter,
    DeadLetterSubject,
    Disposition,
    FailureGroup,
    Generation,
    GroupState,
    Note,
    OperatorAction,
    RecoveryRun,
    RecoveryStatus,
    RunKind,
    RunState,
)
from deadletters.queries import audit, depths, grouprows, overview, runs, subjects, trends
from deadletters.queries.letterrows import Row
from deadletters.queries.regions import Region, Trouble
from deadletters.queries.replays import Replayed
from deadletters.queries.timeline import Event, Timeline
from deadletters.queries.totals import Total
from deadletters.views.overview import PARTS
from deadletters.views.unsent import Field, Unsent
from deadletters.words.charts import Bucket, Mark
from deadletters.words.filters.suggesting import Suggestion
from queues.models import PauseKind, SourcePause

LONG = "a name that somebody generated out of what it does and where, and that goes on and on and on " * 3
HOURS = (0, 1, 3, 2, 8, 5, 0, 0, 13, 21, 8, 3) * 2
ENDS: Mapping[str, int] = {"recovered": 40, "failed_again": 3, "skipped": 1, "waiting": 16}

RIGHTS: Mapping[str, Mapping[str, bool]] = {"deadletters": {"recover": True, "triage": True}}
NO_RIGHTS: Mapping[str, Mapping[str, bool]] = {"deadletters": {"recover": False, "triage": False}}


@dataclass(frozen=True, kw_only=True)
class State:
    """One state of a region of a page."""

    name: str
    region: Region[Any]


@dataclass(frozen=True, kw_only=True)
class Part:
    """A region of the overview in its states."""

    title: Any
    template: str
    states: Sequence[State]


def parts(now: datetime) -> Sequence[Part]:
    """Return the regions of the overview, each with nothing, one, many, slow and broken."""
    known = _values(now)
    return [
        Part(title=part.title, template=part.template, states=_states(part.name, known[part.name]))
        for part in PARTS.values()
    ]


def _states(name: str, values: Mapping[str, Any]) -> Sequence[State]:
    read = [State(name=said, region=Region(name=name, value=value)) for said, value in values.items()]
    failed = [State(name=trouble, region=Region(name=name, value=None, trouble=trouble)) for trouble in Trouble]
    return [*read, *failed]


def _values(now: datetime) -> Mapping[str, Mapping[str, Any]]:
    since = now - timedelta(hours=9)
    lines = [group_line(group, now) for group in groups(now)]
    return {
        "shift": {
            "empty": overview.Shift(since=since, letters=0, groups=0, new=0, regressed=0),
            "one": overview.Shift(since=since, letters=1, groups=1, new=1, regressed=0),
            "many": overview.Shift(since=since, letters=10_001, groups=312, new=12, regressed=3),
            "first visit": None,
        },
        "sources": {"empty": _sources(now, 0), "one": _sources(now, 1), "many": _sources(now, 4_321)},
        "matrix": {"empty": _matrix(0), "one": _matrix(1), "many": _matrix(12)},
        "groups": {"empty": [], "one": lines[:1], "many": lines},
        "deaths": {"empty": chart([0] * 24, now), "one": chart([0] * 23 + [1], now), "many": chart(HOURS, now)},
        "queues": {"empty": _queues(now, 0), "one": _queues(now, 1), "many": _queues(now, 98_765)},
        "runs": {
            "empty": overview.UnfinishedRuns(rows=[], total=0),
            "one": overview.UnfinishedRuns(rows=run_rows(now)[:1], total=1),
            "many": overview.UnfinishedRuns(rows=run_rows(now), total=11),
        },
        "subjects": {"empty": [], "one": _subjects(1), "many": _subjects(8)},
        "builds": {"empty": [], "one": _builds(now)[:1], "many": _builds(now)},
        "others": {"empty": [], "one": _actions(now)[:1], "many": _actions(now)},
    }


def _sources(now: datetime, n: int) -> overview.Sources:
    statuses = {status: n // (status + 1) for status in RecoveryStatus.values}
    none: Mapping[int, int] = {}
    named = [("inbox", statuses, n // 7), ("outbox", none, 0), ("perspectives", none, 0)]
    lines = [overview.SourceLine(name=name, by_status=found, again=again) for name, found, again in named]
    together = overview.SourceLine(name="", by_status=statuses, again=n // 7)
    return overview.Sources(lines=lines, all=together, quiet_since=None if n else now - timedelta(days=3))


def _matrix(reasons: int) -> overview.Matrix:
    ages = [3, 8, 40, 120, 700, 10_001]
    lines = [overview.ReasonLine(reason=reason, numbers=[n // (reason + 1) for n in ages]) for reason in range(reasons)]
    return overview.Matrix(
        lines=lines, all=overview.ReasonLine(reason=None, numbers=[*ages[:-1], 23_456]), is_cut=reasons > 10
    )


def chart(hours: Sequence[int], now: datetime) -> Any:
    """Return a chart of deaths by hour."""
    axis = trends.SPANS["24h"].axis(now)
    counts = [{f"build-{place // 10}": n, f"build-{place // 8}": n // 2} for place, n in enumerate(hours)]
    buckets = [Bucket(at=axis.at(place), counts=count) for place, count in enumerate(counts) if any(count.values())]
    return trends.chart(buckets, axis, [Mark(at=axis.at(10), label="build-1")] if any(hours) else [])


def _queues(now: datetime, n: int) -> Sequence[depths.Brief]:
    paused = SourcePause(source="wh_outbox", kind=PauseKind.SOURCE, paused_by="olga", paused_at=now)
    return [
        depths.Brief(
            source="wh_inbox",
            depth=n,
            oldest_due_at=now - timedelta(minutes=n) if n else None,
            looked_at=None,
            pause=None,
        ),
        depths.Brief(
            source="wh_outbox", depth=n, oldest_due_at=None, looked_at=1_000 if n else None, pause=paused if n else None
        ),
    ]


def _subjects(n: int) -> Sequence[subjects.Row]:
    return [
        subjects.Row(key=uuid4(), type="order", id=str(40 + place), by_status={0: 9 - place, 3: place})
        for place in range(n)
    ]


def _builds(now: datetime) -> Sequence[overview.Build]:
    made = [Generation(service="shop", build=f"build-{n}", first_seen_at=now - timedelta(days=9 - n)) for n in (8, 7)]
    return [
        overview.Build(replayed=Replayed(generation=made[0], groups=2, totals=ENDS), is_live=True),
        overview.Build(replayed=Replayed(generation=made[1], groups=0, totals={}), is_live=False),
    ]


def _actions(now: datetime) -> Sequence[audit.Row]:
    done = [("assign", {"owner": "vera"}), ("run_start", {"letters": 336}), ("note", {"note_id": 7})]
    return [
        audit.Row(
            action=OperatorAction(
                actor="vera", action=action, after=after, at=now - timedelta(hours=n), dead_letter_id=uuid4()
            ),
            before=None,
            after=None,
        )
        for n, (action, after) in enumerate(done)
    ]


def groups(now: datetime) -> Sequence[FailureGroup]:
    """Return a group of each state; the first is quiet, the last one has a long name."""
    made = [
        FailureGroup(
            group_id=uuid4(),
            state=state,
            title="CardDeclined",
            template="no funds on card <number> of <email>",
            message_type="billing.ChargeCard",
            place="billing/charge.py",
            owner=("", "olga")[place % 2],
            first_seen_at=now - timedelta(days=3 + place),
            last_seen_at=now - timedelta(minutes=4**place),
            state_at=now - timedelta(hours=place),
            row_version=1,
        )
        for place, state in enumerate(GroupState)
    ]
    made[0].quiet_until = now + timedelta(hours=1)
    made[-1].title, made[-1].ticket = LONG, "https://tickets.example/OPS-42"
    return made


def group_line(group: FailureGroup, now: datetime) -> overview.GroupLine:
    """Return a group as the overview shows it."""
    is_new = group.first_seen_at > now - timedelta(days=4)
    return overview.GroupLine(group=group, open=1_234, hours=HOURS, is_new=is_new)


def group_rows(now: datetime) -> Sequence[grouprows.Row]:
    """Return rows of groups: unread, with a note, failing again, under recovery, without an open letter."""
    hours = [{"build-7": n, "build-8": n // 2} for n in HOURS]
    more: Sequence[Mapping[str, Any]] = (
        {"is_unread": True},
        {"note": "The acquirer is down, Marta looks."},
        {"again": 1_001, "again_hours": HOURS},
        {"running": grouprows.Running(run_id=uuid4(), state=RunState.RUNNING, totals=ENDS)},
        {"by_status": {3: 12}, "hours": [{}] * 24},
    )
    pairs = zip(groups(now), more, strict=False)
    return [_group_row(group, now, {"hours": hours, **fields}) for group, fields in pairs]


def _group_row(group: FailureGroup, now: datetime, fields: Mapping[str, Any]) -> grouprows.Row:
    oldest = grouprows.Oldest(at=now - timedelta(days=2), is_exact=False)
    usual = {"note": "", "by_status": {0: 312, 2: 4, 3: 20}, "is_unread": False, "oldest": oldest}
    return grouprows.Row(group=group, goes_to="warehouse", **{**usual, **fields})


def held_group(now: datetime, owner: str) -> FailureGroup:
    """Return a group of which all is set that its menu can take away: it is held, quiet and somebody's."""
    group = groups(now)[1]
    group.operator_disposition, group.owner = Disposition.HOLD_INDEFINITELY, owner
    group.quiet_until, group.state = now + timedelta(hours=1), GroupState.RESOLVED
    return group


def run_rows(now: datetime) -> Sequence[runs.Row]:
    """Return a run of each state."""
    made = [
        RecoveryRun(
            run_id=uuid4(),
            kind=RunKind.PERSON,
            state=state,
            actor="olga",
            scope_words="Dead letters type shop.PlaceOrder",
            reason="the bank is up again" if state == RunState.RUNNING else "",
            stop_reason="stopped by olga" if state == RunState.STOPPED else "",
            frozen_count=None if state == RunState.FREEZING else 60,
            created_at=now - timedelta(minutes=9),
            started_at=now - timedelta(minutes=8) if state not in (RunState.FREEZING, RunState.READY) else None,
        )
        for state in RunState
    ]
    return [runs.Row(run=run, totals={} if run.state == RunState.FREEZING else ENDS) for run in made]


def letter_rows(now: datetime) -> Sequence[Row]:
    """Return a letter of each status, with and without an error, an owner and a decision."""
    return [_letter_row(status, place, now) for place, status in enumerate(RecoveryStatus.values)]


def _letter_row(status: int, place: int, now: datetime) -> Row:
    letter = DeadLetter(
        dead_letter_id=uuid4(),
        recovery_status=status,
        message_type=("shop.PlaceOrder", LONG)[place == 2],
        error_line=("ValueError: order 42 has no lines", None, "")[place % 3],
        failure_reason=99,
        source_table="wh_outbox",
        destination="warehouse",
        attempts_when_dlq=10,
        deaths=1 + place,
        operator_disposition=2 * (place % 2),
        owner=("olga", None)[place % 2],
        dead_lettered_at=now - timedelta(hours=30**place),
        row_version=1,
    )
    return Row(letter=letter, subject=DeadLetterSubject(type="order", id=str(40 + place)), more_subjects=place)


TOTALS: Mapping[str, Total | None] = {
    "counted": Total(n=336, sendable=312),
    "many": Total(n=10_001, sendable=10_001, is_capped=True, is_sure=False),
    "not looked at": Total(n=5_432, sendable=5_432, is_sure=False),
    "none can go": Total(n=12, sendable=0),
    "took too long": None,
}
"""How many letters a list has, and how many of them a recovery could send."""

SUGGESTED: Mapping[str, Sequence[Suggestion]] = {
    "empty": (),
    "one": (Suggestion(text="status:open", told="", is_whole=True),),
    "many": (
        Suggestion(text="status:", told="open, recovering, held, recovered or given up", is_whole=False),
        Suggestion(text="owner:-", told="nobody", is_whole=True),
        Suggestion(text=f"type:{LONG}", told="", is_whole=True),
    ),
}


def notes(now: datetime) -> Sequence[Note]:
    return [Note(author="marta", text=text, written_at=now) for text in ("The acquirer is down.", LONG)]


def unsent() -> Unsent:
    """Return a form that was sent without a session: with what was typed into it and the letters that were picked."""
    typed = Field(name="reason", label="Reason", text="the outage is over")
    return Unsent(
        action=reverse("deadletters:ask_many"),
        fields=(typed,),
        chosen=QueryDict("scope=picked&verb=hold&letter=1&letter=2"),
    )


def timelines(now: datetime) -> Mapping[str, Timeline]:
    """Return timelines: without anything, with one event, with one of each kind."""
    kinds = ("death", "sent", "recovered", "failure", "success", "note", "action")
    events = [Event(at=now - timedelta(hours=n), kind=kind, title=kind, by="olga") for n, kind in enumerate(kinds)]
    return {name: Timeline(events=some, is_cut=False) for name, some in _sizes(events)}


def _sizes(some: Sequence[Any]) -> Iterable[tuple[str, Sequence[Any]]]:
    return (("empty", []), ("one", some[:1]), ("many", some))
