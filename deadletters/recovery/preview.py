"""What a frozen run would do: its letters counted, five of them, and what speaks against sending them now."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from deadletters.models import DeadLetter
from deadletters.queries import previews, risks
from deadletters.queries.previews import Ages, Kind, Streams, Unsendable
from deadletters.queries.regions import Reader, reading
from deadletters.queries.risks import Found
from queues.store.live import clock

TOP = 8
"""Names of a breakdown that are told one by one."""


@dataclass(frozen=True, kw_only=True)
class Share:
    """How many letters a name stands for."""

    name: str
    n: int


@dataclass(frozen=True, kw_only=True)
class Breakdown:
    """Letters by name, most first; `others`: how many letters have one of `other_names` further names."""

    title: str
    shares: Sequence[Share]
    others: int = 0
    other_names: int = 0


@dataclass(frozen=True, kw_only=True)
class Risk:
    """Something that speaks against sending now. `n`: letters that it concerns, None = it took too long to find out."""

    key: str
    title: str
    meaning: str
    n: int | None
    names: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Preview:
    """What is known of a run before its start; a part that took too long is None.

    `looked_at`: how many letters at most were looked at, where there are more; None = all.
    """

    sources: Breakdown | None
    types: Breakdown | None
    targets: Breakdown | None
    ages: Ages | None
    streams: Streams | None
    unsendable: Unsendable | None
    samples: Sequence[DeadLetter] | None
    risks: Sequence[Risk]
    looked_at: int | None
    now: datetime

    @property
    def breakdowns(self) -> Sequence[Breakdown]:
        parts = (self.sources, self.types, self.targets)
        return [part for part in parts if part is not None]

    @property
    def is_incomplete(self) -> bool:
        parts = (self.types, self.ages, self.streams, self.unsendable, self.samples)
        return any(part is None for part in parts)


def preview(run_id: UUID) -> Preview:
    """Return what the run's waiting letters are and what speaks against sending them; changes nothing.

    At most `previews.MAX_ITEMS` letters are looked at, and no part takes longer than `previews.PART_SECONDS`.
    """
    now = clock()
    with reading(previews.PART_SECONDS) as read:
        kinds = read("kinds of letters", lambda: previews.kinds(run_id)).value
        is_cut = read("size of the run", lambda: previews.is_cut(run_id)).value
        return Preview(
            sources=_breakdown("Source", kinds, lambda kind: kind.source),
            types=_breakdown("Type", kinds, lambda kind: kind.type),
            targets=_breakdown("Goes to", kinds, lambda kind: kind.target),
            ages=read("ages of letters", lambda: previews.ages(run_id, now)).value,
            streams=read("streams of letters", lambda: previews.streams(run_id)).value,
            unsendable=read("letters that would not be sent", lambda: previews.unsendable(run_id)).value,
            samples=read("samples of letters", lambda: previews.samples(run_id)).value,
            risks=list(_risks(run_id, kinds, now, read)),
            looked_at=previews.MAX_ITEMS if is_cut else None,
            now=now,
        )


def _breakdown(title: str, kinds: Sequence[Kind] | None, name_of: Callable[[Kind], str]) -> Breakdown | None:
    if kinds is None:
        return None
    counted: Counter[str] = Counter()
    for kind in kinds:
        if name := name_of(kind):
            counted[name] += kind.n
    first = counted.most_common(TOP)
    return Breakdown(
        title=title,
        shares=[Share(name=name, n=n) for name, n in first],
        others=counted.total() - sum(n for _, n in first),
        other_names=len(counted) - len(first),
    )


_SAID = {
    "handled_before": (
        "The effect seems to exist already",
        "Their messages were handled or published before. Sending them again may do it twice.",
    ),
    "overtaken": (
        "Later ones of their stream were applied already",
        "They would be applied out of order, after what came later.",
    ),
    "failing_now": (
        "This fault is happening right now",
        "Others died of the same within the last 5 minutes. These would most likely fail again.",
    ),
    "no_worker": ("No worker is alive", "What is sent waits in its queue until one starts."),
    "unhandled": ("No live worker handles them", "They would die again, as messages without a handler."),
    "paused": ("Paused", "What is sent waits until somebody resumes it."),
    "down": ("Their destination is down", "What is sent waits until the destination answers again."),
    "behind_another": (
        "Their stream waits behind another letter",
        "They are passed over until that letter is recovered, or its stream is let go.",
    ),
}


def _risks(run_id: UUID, kinds: Sequence[Kind] | None, now: datetime, read: Reader) -> Iterator[Risk]:
    """Yield what speaks against it, and what could not be found out in time."""
    known = kinds or ()
    alive = read("live workers", risks.workers_alive).value
    of_letters: dict[str, Callable[[], Found]] = {
        "handled_before": lambda: risks.handled_before(run_id),
        "overtaken": lambda: risks.overtaken(run_id),
        "failing_now": lambda: risks.failing_now(run_id, now),
        "behind_another": lambda: risks.behind_another(run_id),
        "paused": lambda: risks.paused(known, now),
        "down": lambda: risks.down(known),
    }
    if alive:
        of_letters["unhandled"] = lambda: risks.unhandled(known, alive)
    elif alive is None:
        yield _risk("unhandled", None)
    else:
        yield _risk("no_worker", Found(n=sum(kind.n for kind in known)))
    for key, find in of_letters.items():
        found = read(f"risk: {key}", find).value
        if found is None or found.n:
            yield _risk(key, found)


def _risk(key: str, found: Found | None) -> Risk:
    title, meaning = _SAID[key]
    return Risk(
        key=key, title=title, meaning=meaning, n=None if found is None else found.n, names=found.names if found else ()
    )
