"""`list` and `show`: what the pages show, masked as there."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.core.management.base import CommandError
from django.utils import timezone

from deadletters import exports
from deadletters.management.verbs.calls import FINE, WRONG_USE, Call, add_filters, add_id, filters_of, verb
from deadletters.queries import letters
from deadletters.words.filters import Cursor
from deadletters.words.jsontexts import Verbatim

MAX_LISTED = 100_000


def add(verbs: Any) -> None:
    listing = verb(verbs, "list", run_list, "list dead letters, the newest first")
    add_filters(listing)
    listing.add_argument("--limit", type=int, default=50, help=f"at most so many (50; up to {MAX_LISTED:,})")
    listing.add_argument("--after", metavar="PLACE", help="begin after this place, as the end of a list names it")
    add_id(verb(verbs, "show", run_show, "show one dead letter with all that belongs to it"))


def run_list(call: Call) -> int:
    """Write a line for each letter; standard error says where the next list begins."""
    limit = call.options.limit
    if not 1 <= limit <= MAX_LISTED:
        raise CommandError(f"--limit must be from 1 to {MAX_LISTED:,}.", returncode=WRONG_USE)
    now = timezone.now()
    filters = filters_of(call.options, after=call.options.after)
    last: Mapping[str, Any] = {}
    for number, row in enumerate(exports.list_letters(filters=filters, user=call.user, limit=limit + 1, now=now)):
        if number == limit:
            call.say(f"There are more: --after={_place(last)}")
            break
        call.answer(row, _line(row))
        last = row
    if letters.is_cut_short(filters, now):
        call.say("Only the newest letters were looked through for what no index finds.")
    return FINE


def _place(row: Mapping[str, Any]) -> Cursor:
    return Cursor(at=datetime.fromisoformat(row["died_at"]), id=UUID(row["dead_letter_id"]))


def run_show(call: Call) -> int:
    letter = exports.show_letter(dead_letter_id=call.options.id, user=call.user)
    call.answer(letter, "\n".join(_lines(letter)))
    return FINE


def _line(row: Mapping[str, Any]) -> str:
    error = "(no reason recorded)" if row["error"] is None else row["error"] or "(empty reason)"
    died = row["died_at"][:19].replace("T", " ")
    return f"{row['dead_letter_id']}  {died}  {row['status']:<10}  {row['type']}  {error}"


def _lines(values: Any, indent: str = "") -> Iterator[str]:
    """Lay values out for reading: `name: value`, lists and objects below their name."""
    for name, value in values.items() if isinstance(values, Mapping) else enumerate(values, 1):
        if isinstance(value, Mapping | list | tuple) and value:
            yield f"{indent}{name}:"
            yield from _lines(value, f"{indent}  ")
        else:
            shown = value.text if isinstance(value, Verbatim) else "-" if value in (None, [], {}) else str(value)
            first, *rest = shown.split("\n")
            yield f"{indent}{name}: {first}"
            yield from (f"{indent}  {line}" for line in rest)
