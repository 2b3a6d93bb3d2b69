"""Celery tasks. A task may run twice or die half-way: all state is in the rows."""

from typing import Any

from celery import shared_task
from celery.signals import worker_ready
from django.db import connection

from queues import deduplication, instances, shutdown, wakeups
from queues.conf import conf
from queues.drainer import drain
from queues.store import flows, partitions


@shared_task(name=wakeups.DRAIN_TASK, acks_late=True, ignore_result=True)
def drain_source(source: str) -> None:
    """Drain a source for a while, fold what it counted, and ask for another drain while messages are due."""
    instances.tick()
    report = drain(source, seconds=conf().drain_seconds, at_most=conf().drains_per_source, stopping=shutdown.is_asked)
    if report.more:
        wakeups.send_wakeup(source)
    if report.messages:  # a worker that is busy draining has no time for the task of the beat
        flows.fold(at_most=flows.FOLD_ROWS)


@worker_ready.connect
def make_months(**_: Any) -> None:
    """Make the delivery log's months before a worker needs them."""
    try:
        partitions.make_ahead(conf().delivery_log_months_ahead)
    finally:
        connection.close()  # the pool's processes are forked from this one


@shared_task(name="queues.keep_house", ignore_result=True)
def keep_house() -> None:
    """Make the delivery log's months ahead and drop old ones; forget old ids, and processes that are long gone."""
    partitions.make_ahead(conf().delivery_log_months_ahead)
    if (days := conf().delivery_log_retention_days) is not None:
        partitions.drop_expired(days)
    instances.forget_the_dead()
    deduplication.forget_old()


@shared_task(name="queues.fold_counters", ignore_result=True)
def fold_counters() -> None:
    """Add the waiting changes of the sources' flows to their totals."""
    flows.fold()
