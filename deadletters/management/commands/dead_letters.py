"""`manage.py dead_letters`: what operators do on the pages, from a shell."""

import os
import sys
from argparse import ArgumentParser, Namespace
from typing import Any

from django.core.exceptions import PermissionDenied
from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError

from deadletters.management.verbs import deciding, editing, reading, recovering, runs, ticking, triaging
from deadletters.management.verbs.calls import FINE, NOT_ALL, WRONG_USE, Call
from deadletters.words.errors import BadChange, BadFilter, BadNote, BadScope, DeadLettersError, StaleChange

FAMILIES = (reading, recovering, runs, deciding, triaging, editing, ticking)

WRONG = (BadFilter, BadChange, BadNote, BadScope)
"""What was asked for in a wrong way; any other of our errors says that something is not there or not possible now."""


class Command(BaseCommand):
    help = "List, show, recover, hold, edit and purge dead letters, as on the pages: the same rights, the same audit."

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(metavar="VERB", required=True)
        for family in FAMILIES:
            family.add(verbs)

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the verb; exits with 0 when all of it was done, 1 when something was not, 2 when it was used wrongly."""
        call = Call(options=Namespace(**options), stdout=self.stdout, stderr=self.stderr)
        try:
            code = options["act"](call)
        except BrokenPipeError:  # whoever read the answer has had enough of it
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python complains when it flushes
            code = NOT_ALL
        except WRONG as exc:
            raise CommandError(str(exc), returncode=WRONG_USE) from exc
        except StaleChange as exc:
            raise CommandError("Somebody changed it meanwhile. Nothing was done.", returncode=NOT_ALL) from exc
        except PermissionDenied as exc:
            raise CommandError(f"{call.user.get_username()} lacks the right “{exc}”.", returncode=NOT_ALL) from exc
        except OperationalError as exc:
            raise CommandError(f"The database did not do it: {exc}", returncode=NOT_ALL) from exc
        except DeadLettersError as exc:
            raise CommandError(_said(exc), returncode=NOT_ALL) from exc
        if code != FINE:
            raise SystemExit(code)


def _said(exc: DeadLettersError) -> str:
    """Say what is not there, from the error's own description."""
    told = (type(exc).__doc__ or "").partition(";")[0].partition(":")[0].partition("\n")[0].rstrip(".")
    return f"{told}: {exc}" if str(exc) and not str(exc).startswith("There is no") else str(exc) or f"{told}."
