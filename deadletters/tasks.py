"""Celery tasks of the dead letters. Each may run twice or die half-way: all state is in the rows."""

from celery import shared_task

from deadletters import counting, generations, keptforms, refingerprinting
from deadletters.recovery import passes, schedule, sweeping
from deadletters.recovery.stepping import step
from deadletters.store.steps import SCHEDULE, STEP
from queues import wakeups
from queues.conf import conf


@shared_task(name="deadletters.fold_counts", ignore_result=True)
def fold_counts() -> None:
    """Fold the waiting changes of the groups' and subjects' counts."""
    counting.fold()


@shared_task(name="deadletters.keep_house", ignore_result=True)
def keep_house() -> None:
    """Fingerprint anew what movers in other languages wrote; forget old trends, and forms that were not sent."""
    refingerprinting.refingerprint()
    counting.keep_house()
    keptforms.forget_old()


@shared_task(name=STEP.task, acks_late=True, ignore_result=True)
def step_runs() -> None:
    """Take the open recovery runs on for a while, and ask for more while there is more to do."""
    if step(seconds=conf().drain_seconds):
        wakeups.send(STEP)


@shared_task(name="deadletters.sweep_recoveries", ignore_result=True)
def sweep_recoveries() -> None:
    """Say of recoveries without an answer that there was none."""
    sweeping.sweep()


@shared_task(name="deadletters.check_builds", ignore_result=True)
def check_builds() -> None:
    """Register the builds that workers report, and replay on a new one what it may have mended."""
    generations.check()


@shared_task(name=SCHEDULE.task, acks_late=True, ignore_result=True)
def recover_due() -> None:
    """Bring letters in line with what people changed, then recover what is due; ask for more while there is more."""
    aligned = passes.step(seconds=conf().drain_seconds)
    recovered = schedule.recover_due(seconds=conf().drain_seconds)
    if aligned.more or recovered.more:
        wakeups.send(SCHEDULE)
