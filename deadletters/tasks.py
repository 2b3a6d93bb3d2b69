"""Celery tasks of the dead letters. Each may run twice or die half-way: all state is in the rows."""

from celery import shared_task

from deadletters import counting, refingerprinting


@shared_task(name="deadletters.fold_counts", ignore_result=True)
def fold_counts() -> None:
    """Fold the waiting changes of the groups' and subjects' counts."""
    counting.fold()


@shared_task(name="deadletters.keep_house", ignore_result=True)
def keep_house() -> None:
    """Fingerprint anew what movers in other languages wrote, and forget old trends."""
    refingerprinting.refingerprint()
    counting.keep_house()
