"""`runs`: the recovery runs, their letters, and what is done to them."""

from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

from django.core.management.base import CommandError

from deadletters.management.verbs import following
from deadletters.management.verbs.calls import FINE, WRONG_USE, Call, add_filters, add_reason, filters_of, verb
from deadletters.management.verbs.plans import add_plan, plan_of
from deadletters.models import RecoveryItem
from deadletters.queries import runs as reading
from deadletters.recovery import runs
from deadletters.triage.actors import actor
from deadletters.words import access
from deadletters.words.filters import ItemFilter, RunFilter

PAGE = 100
MAX_LISTED = 1_000_000
CHANGES: dict[str, tuple[Callable[..., None], str]] = {
    "pause": (runs.pause, "send nothing more until it is resumed"),
    "resume": (runs.resume, "go on with a paused run"),
    "stop": (runs.stop, "send nothing more, for good; a run that has not begun is undone"),
}


def add(verbs: Any) -> None:
    parser = verbs.add_parser("runs", help="recovery runs: list, show, items, start, pause, resume, stop")
    inner = parser.add_subparsers(metavar="VERB", required=True)
    listing = verb(inner, "list", run_list, "list recovery runs, the newest first")
    _add_limit(listing, 50)
    add_filters(listing, RunFilter)
    _add_run(verb(inner, "show", run_show, "show one run: its letters by state, and why they ended so"))
    items = verb(inner, "items", run_items, "list the letters of a run, in the order in which they are sent")
    _add_run(items)
    _add_limit(items, MAX_LISTED)
    add_filters(items, ItemFilter)
    start = verb(inner, "start", run_start, "start a run that waits for it")
    _add_run(start)
    add_reason(start)
    start.add_argument("--count", type=int, help="how many letters it has, asked for when they are many")
    add_plan(start)
    for name, (change, told) in CHANGES.items():
        changing = verb(inner, name, _changing(change), told)
        _add_run(changing)
        add_reason(changing)


def _add_run(parser: Any) -> None:
    parser.add_argument("run", metavar="RUN", type=UUID, help="a recovery run")


def _add_limit(parser: Any, usual: int) -> None:
    parser.add_argument("--limit", type=int, default=usual, help=f"at most so many ({usual:,})")


def run_list(call: Call) -> int:
    actor(call.user, access.VIEW)
    left, place = _limit(call), None
    while left > 0:
        page = reading.page(filters_of(call.options, RunFilter, size=str(PAGE), after=place))
        for row in page.rows[:left]:
            call.answer(following.described(row.run, row.totals), _line(row))
        left, place = left - len(page.rows), str(page.next) if page.next else None
        if place is None:
            break
    return FINE


def _limit(call: Call) -> int:
    limit: int = call.options.limit
    if not 1 <= limit <= MAX_LISTED:
        raise CommandError(f"--limit must be from 1 to {MAX_LISTED:,}.", returncode=WRONG_USE)
    return limit


def _line(row: reading.Row) -> str:
    words = following.progress(row.run, row.totals).words()
    return (
        f"{row.run.run_id}  {row.run.created_at:%Y-%m-%d %H:%M:%S}  {row.run.state:<8}  {row.run.scope_words}: {words}"
    )


def run_show(call: Call) -> int:
    actor(call.user, access.VIEW)
    found, totals = reading.get(call.options.run), reading.totals(call.options.run)
    whys = [{"state": state, "why": why, "n": n} for state, why, n in reading.whys(found.run_id)]
    newcomers = reading.newcomers(found)
    if call.options.json:
        call.answer({**following.described(found, totals), "whys": whys, "newcomers": newcomers}, "")
        return FINE
    following.tell(call, found.run_id)
    for one in whys:
        call.answer({}, f"  {one['n']:,} {str(one['state']).replace('_', ' ')}: {one['why']}")
    if newcomers:
        call.answer({}, f"  {newcomers:,} match that died since; they are not in it")
    return FINE


def run_items(call: Call) -> int:
    actor(call.user, access.VIEW)
    reading.get(call.options.run)
    left, place = _limit(call), None
    while left > 0:
        page = reading.items(call.options.run, filters_of(call.options, ItemFilter, size=str(PAGE), after=place))
        for item in page.rows[:left]:
            call.answer(_item(item), f"{item.dead_letter_id}  {item.state:<18}  {item.why}".rstrip())
        left, place = left - len(page.rows), str(page.next) if page.next else None
        if place is None:
            break
    return FINE


def _item(item: RecoveryItem) -> dict[str, Any]:
    return {
        "dead_letter_id": str(item.dead_letter_id),
        "state": item.state,
        "why": item.why,
        "is_canary": item.is_canary,
        "stream_id": item.stream_id and str(item.stream_id),
        "sent_at": _time(item.sent_at),
        "deadline_at": _time(item.deadline_at),
        "delayed_until": _time(item.delayed_until),
        "ended_at": _time(item.ended_at),
    }


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def run_start(call: Call) -> int:
    asked = call.options
    runs.start(user=call.user, run_id=asked.run, plan=plan_of(asked), reason=asked.why, count=asked.count)
    following.tell(call, asked.run)
    return FINE


def _changing(change: Callable[..., None]) -> Callable[[Call], int]:
    def run(call: Call) -> int:
        change(user=call.user, run_id=call.options.run, reason=call.options.why)
        following.tell(call, call.options.run)
        return FINE

    return run
