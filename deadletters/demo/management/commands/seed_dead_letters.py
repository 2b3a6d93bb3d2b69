"""`manage.py seed_dead_letters`: made-up dead letters in any number, for a look at the pages and for measuring."""

import time
from argparse import ArgumentParser
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from deadletters.demo.seeding import loading, triaging
from deadletters.demo.seeding.oddities import ODD_FAULTS
from deadletters.models import DeadLetter

MAX_SEED = 2**31


class Command(BaseCommand):
    help = "Write made-up dead letters: every status, cause and source, odd texts too. Same arguments, same letters."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--count", type=int, default=10_000, help="how many letters (10,000)")
        parser.add_argument("--groups", type=int, default=400, help="of how many groups (400)")
        parser.add_argument(
            "--subjects", type=int, default=None, help="about how many subjects (a tenth of the letters)"
        )
        parser.add_argument("--seed", type=int, default=1, help="another seed, other letters (1)")
        parser.add_argument("--until", type=_moment, default=None, help="time of the last death (the present hour)")
        parser.add_argument("--add", action="store_true", help="add to the letters that are there")

    def handle(self, *args: Any, **options: Any) -> None:
        """Write, fold and triage; says what it does."""
        plan = _plan(options)
        if DeadLetter.objects.exists() and not options["add"]:
            raise CommandError("This database has dead letters already: --add adds to them.")
        if loading.is_written(plan):
            raise CommandError("These very letters are there already: choose another --seed.")
        began = time.monotonic()
        loading.load(plan, said=lambda done: self._say(f"{done:,} letters", began))
        self._say(f"{loading.fold():,} changes folded", began)
        self._say(f"{triaging.triage(plan.seed):,} groups triaged", began)
        loading.analyse()
        self._say(f"Done: {plan.count:,} letters of {plan.groups:,} groups, seed {plan.seed}", began)

    def _say(self, text: str, began: float) -> None:
        self.stdout.write(f"{text}, {time.monotonic() - began:.1f} s")


def _plan(options: dict[str, Any]) -> loading.Plan:
    count, groups, seed = options["count"], options["groups"], options["seed"]
    if groups < len(ODD_FAULTS):
        raise CommandError(f"--groups must be {len(ODD_FAULTS)} or more: every cause and reason has one.")
    if count < groups:
        raise CommandError("--count must not be less than --groups.")
    if not 0 <= seed < MAX_SEED:
        raise CommandError(f"--seed must be from 0 to {MAX_SEED - 1:,}.")
    subjects = options["subjects"] if options["subjects"] is not None else max(count // 10, 100)
    if not 1 <= subjects < 2**31:
        raise CommandError("--subjects must be 1 or more.")
    until = options["until"] or datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    return loading.Plan(count=count, groups=groups, subjects=subjects, seed=seed, until=until)


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
