"""Celery tasks. A task may run twice or die half-way: all state is in the rows."""

from celery import shared_task

from queues import instances, shutdown, wakeups
from queues.conf import conf
from queues.drainer import drain
from queues.store import partitions


@shared_task(name=wakeups.DRAIN_TASK, acks_late=True, ignore_result=True)
def drain_source(source: str) -> None:
    """Drain a source for a while; ask for another drain while messages are due."""
    instances.tick()
    report = drain(source, seconds=conf().drain_seconds, at_most=conf().drains_per_source, stopping=shutdown.is_asked)
    if report.more:
        wakeups.send_wakeup(source)


@shared_task(name="queues.keep_house", ignore_result=True)
def keep_house() -> None:
    """Make the delivery log's months ahead, and forget processes that are long gone."""
    partitions.make_ahead(conf().delivery_log_months_ahead)
    instances.forget_the_dead()
