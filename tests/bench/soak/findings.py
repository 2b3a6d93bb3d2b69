"""What is found at the end of a soak, and what is wrong with it."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from django.core.management import call_command
from django.db import connection

from queues.words.sources import INBOX, OUTBOX, PERSPECTIVES, SHORT_NAMES
from tests.bench.soak.messages import FAILING, KILLER, UNREADABLE, Sent

MAX_KILLER_STARTS = 3


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What there is: effects in their order, causes of death by source, starts of each killer, and the stats."""

    effects: Sequence[tuple[str | None, int]]
    dead: Counter[tuple[str, str]]
    killer_starts: Counter[int]
    stats: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        return {
            "effects": len(self.effects),
            "distinct": len({number for _, number in self.effects}),
            "dead": {f"{SHORT_NAMES[source]}: {cause}": n for (source, cause), n in sorted(self.dead.items())},
            "killer_starts": sorted(self.killer_starts.values()),
            "stats": self.stats,
        }


def find(folder: Path) -> Findings:
    with connection.cursor() as cursor:
        cursor.execute("SELECT stream, number FROM soak_effects ORDER BY id")
        effects = cursor.fetchall()
        cursor.execute("SELECT source_table, cause, count(*) FROM wh_dead_letters GROUP BY 1, 2")
        dead = Counter({(source, cause): n for source, cause, n in cursor.fetchall()})
    starts = folder / "starts"
    lines = starts.read_text().split() if starts.exists() else []
    out = StringIO()
    call_command("stats", "--json", stdout=out)
    return Findings(
        effects=effects, dead=dead, killer_starts=Counter(map(int, lines)), stats=json.loads(out.getvalue())
    )


def faults(sent: Sequence[Sent], found: Findings) -> list[str]:
    """Return in words what is not as it must be."""
    return [*_of_effects(sent, found), *_of_deaths(sent, found), *_of_sums(sent, found)]


def _of_effects(sent: Sequence[Sent], found: Findings) -> Iterator[str]:
    effects = Counter(number for _, number in found.effects)
    expected = {message.number for message in sent if message.has_effect}
    if twice := [number for number, n in effects.items() if n > 1]:
        yield f"{len(twice)} effects more than once, such as that of {twice[0]}"
    if missing := expected - effects.keys():
        yield f"{len(missing)} effects missing, such as that of {min(missing)}"
    if strange := effects.keys() - expected:
        yield f"{len(strange)} effects of messages that must have none, such as {min(strange)}"
    last: dict[str, int] = {}
    for stream, number in found.effects:
        if stream is not None and number < last.get(stream, -1):
            yield f"in the stream {stream}, {number} came after {last[stream]}"
        last[stream or ""] = number


def _of_deaths(sent: Sequence[Sent], found: Findings) -> Iterator[str]:
    """Each failing message and killer is dead; a kill from outside may be the last run of a failing one."""
    must = Counter(message.kind for message in sent)
    causes: Counter[str] = Counter()
    for (_, cause), n in found.dead.items():
        causes[cause] += n
    if causes.keys() - {"unreadable", "budget_spent", "worker_lost"}:
        yield f"deaths of other causes: {dict(causes)}"
    if causes["unreadable"] != must[UNREADABLE]:
        yield f"{causes['unreadable']} unreadable ones are dead, not {must[UNREADABLE]}"
    if causes["budget_spent"] + causes["worker_lost"] != must[FAILING] + must[KILLER]:
        yield f"{causes['budget_spent'] + causes['worker_lost']} spent their budget, not {must[FAILING] + must[KILLER]}"
    if causes["worker_lost"] < must[KILLER]:
        yield f"{causes['worker_lost']} died as worker lost, of {must[KILLER]} killers"
    if any(starts > MAX_KILLER_STARTS for starts in found.killer_starts.values()):
        yield f"a killer started more often than its budget allows: {dict(found.killer_starts)}"


def _of_sums(sent: Sequence[Sent], found: Findings) -> Iterator[str]:
    if not found.stats["adds_up"]:
        yield "the stats do not add up"
    doors = Counter(message.door for message in sent)
    published = sum(message.door == OUTBOX and message.kind != UNREADABLE for message in sent)
    must = {INBOX: doors[INBOX] + published, OUTBOX: doors[OUTBOX], PERSPECTIVES: doors[PERSPECTIVES]}
    for source, number in must.items():
        of_source = found.stats["sources"][SHORT_NAMES[source]]
        dead = sum(n for (table, _), n in found.dead.items() if table == source)
        told = of_source["sent"], of_source["succeeded"], of_source["dead"], of_source["depth"], of_source["removed"]
        if told != (number, number - dead, dead, 0, 0):
            yield f"of {number} in {source} with {dead} dead, the stats tell {told}"
