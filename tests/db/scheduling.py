"""What the tests of the schedule share: letters that are due, a scan, and the runs that came of it."""

from datetime import timedelta
from typing import Any

from django.utils import timezone

from deadletters.models import DeadLetter, RecoveryRun, RunKind
from deadletters.recovery import schedule
from tests.factories import a_letter

AGO = timedelta(hours=2)


def due(**fields: Any) -> DeadLetter:
    """Make a letter of a policy that recovers it once; its time came a minute ago."""
    now = timezone.now()
    return a_letter(**{"dead_lettered_at": now - AGO, "next_recovery_at": now - timedelta(minutes=1), **fields})


def scan() -> int:
    return schedule.recover_due(seconds=60).looked_at


def scheduled() -> list[set[Any]]:
    """Return the letters of each of the schedule's runs, in order."""
    found = RecoveryRun.objects.filter(kind=RunKind.SCHEDULE).order_by("created_at", "run_id")
    return [set(run.scope["letters"]) for run in found]


def ids(*letters: DeadLetter) -> set[str]:
    return {str(letter.pk) for letter in letters}


def fresh(letter: DeadLetter) -> DeadLetter:
    letter.refresh_from_db()
    return letter
