"""One call of the command: who acts, what was asked for, and how it is answered."""

import getpass
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.core.management.base import CommandError, OutputWrapper

from deadletters.words.filters import LetterFilter
from deadletters.words.filters.listfilter import ListFilter
from deadletters.words.jsontexts import written
from queues.words.text import visible

FINE, NOT_ALL, WRONG_USE = 0, 1, 2
"""Exit codes: all of it was done; something was not; it was asked for in a wrong way."""


class SystemUser:
    """Whoever may run the command has the database, and so every right; the audit has the name in the system."""

    is_authenticated = True
    pk = ""

    def has_perm(self, _permission: str) -> bool:
        return True

    def get_username(self) -> str:
        try:
            name = getpass.getuser()
        except (OSError, KeyError):  # no such user in the system
            name = f"uid {os.getuid()}"
        return f"{name} (command line)"


@dataclass(frozen=True)
class Call:
    """What a verb is called with; `say` is for people and goes beside the answer."""

    options: Namespace
    stdout: OutputWrapper
    stderr: OutputWrapper

    @cached_property
    def user(self) -> Any:
        """The user named by --as, else that of the system; raises CommandError for an unknown or inactive one."""
        if not self.options.as_user:
            return SystemUser()
        users = get_user_model()
        found = users._default_manager.filter(**{users.USERNAME_FIELD: self.options.as_user}).first()
        if found is None or not found.is_active:
            raise CommandError(f"There is no active user “{self.options.as_user}”.", returncode=WRONG_USE)
        return found

    def answer(self, values: Mapping[str, Any], text: str) -> None:
        """Write the answer, or one line of it: an object, or its text."""
        self.stdout.write(written(values) if self.options.json else visible(text))

    def say(self, text: str) -> None:
        self.stderr.write(visible(text))

    def confirm(self, question: str) -> None:
        """Go on with --yes, or when a person says so; raises CommandError else."""
        if self.options.yes:
            return
        if not sys.stdin.isatty():
            raise CommandError(f"{question} Say so with --yes.", returncode=WRONG_USE)
        self.say(f"{question} [y/N]")
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise CommandError("Nothing was done.", returncode=NOT_ALL)


def verb(verbs: Any, name: str, run: Callable[[Call], int], told: str) -> ArgumentParser:
    """Add a verb with what all have: --json and --as."""
    parser: ArgumentParser = verbs.add_parser(name, help=told, description=told)
    parser.add_argument("--json", action="store_true", help="for machines: one JSON object, a list as JSON Lines")
    parser.add_argument(
        "--as", dest="as_user", metavar="USERNAME", help="act with this user's rights, and in their name"
    )
    parser.set_defaults(act=run)
    return parser


def add_ids(parser: ArgumentParser) -> None:
    parser.add_argument("ids", metavar="ID", nargs="+", type=UUID, help="dead letters")


def add_id(parser: ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", type=UUID, help="a dead letter")


def add_reason(parser: ArgumentParser, *, required: bool = False) -> None:
    parser.add_argument("--why", default="", required=required, help="the reason, for the record")


def add_yes(parser: ArgumentParser) -> None:
    parser.add_argument("--yes", action="store_true", help="do not ask")


def add_filters(parser: ArgumentParser, kind: type[ListFilter] = LetterFilter) -> None:
    """Add the filters of a page's list as options of the same names."""
    group = parser.add_argument_group("filters, as on the page")
    for name, phrase in kind.SAID.items():
        told = phrase.format("…") if phrase != "{}" else name
        group.add_argument(f"--{name.replace('_', '-')}", dest=f"filter_{name}", metavar=name.upper(), help=told)


def filters_of(options: Namespace, kind: type[Any] = LetterFilter, **more: str | None) -> Any:
    """Return the filter that the options are; raises BadFilter."""
    given = {name: getattr(options, f"filter_{name}") for name in kind.SAID} | more
    return kind.parse({name: value for name, value in given.items() if value is not None})


def scope_of(call: Call) -> LetterFilter | None:
    """Return the filter that is asked for, None = letters by their ids; raises CommandError for both or neither."""
    asked = call.options
    filters: LetterFilter = filters_of(asked)
    ways = [bool(asked.ids), asked.all, asked.everything]
    if sum(ways) != 1:
        raise CommandError("Name dead letters, or give --all with filters, or --everything.", returncode=WRONG_USE)
    if asked.all == filters.is_empty:
        wrong = "--all needs a filter; --everything is for all of them." if asked.all else "Filters go with --all."
        raise CommandError(wrong, returncode=WRONG_USE)
    return None if asked.ids else filters


def read_text(name: str) -> str:
    """Return what a file holds, or standard input for "-"; raises CommandError."""
    try:
        raw = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        return raw.decode("utf-8")
    except OSError as exc:
        raise CommandError(f"{name}: {exc.strerror}", returncode=WRONG_USE) from exc
    except UnicodeDecodeError as exc:
        raise CommandError(f"{name}: not UTF-8 at byte {exc.start:,}", returncode=WRONG_USE) from exc


def table(rows: Sequence[Sequence[str]]) -> Sequence[str]:
    """Return rows as lines with aligned columns; the last one is as long as it is."""
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]) - 1)] if rows else []
    return ["  ".join([*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[-1]]) for row in rows]
