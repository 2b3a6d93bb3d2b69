"""Receiving: messages of a broker's queue, stored in the inbox before the broker may forget them."""

import json
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from random import random

import structlog
from django.db import DataError, IntegrityError, InterfaceError, OperationalError, connection, transaction
from kombu.exceptions import OperationalError as BrokerError

from queues import instances, reactions, wakeups
from queues.conf import conf, dead_letter_store
from queues.sending import row_of
from queues.store import messages
from queues.transports.consumers import QUIET_SECONDS, Consumer, open_consumer
from queues.transports.kombu import default_url
from queues.words import arrivals
from queues.words.arrivals import Arrival
from queues.words.backoff import backoff
from queues.words.classifiers import is_away
from queues.words.dead_letters import Unreceivable
from queues.words.errors import InvalidMessage
from queues.words.failures import Failure
from queues.words.messages import MAX_TYPE, NewMessage, stream_uuid
from queues.words.payloads import stub_of
from queues.words.sources import INBOX
from queues.words.text import bounded

log = structlog.get_logger(__name__)

WAIT_SECONDS = 1
"""Longest wait for a message before a signal to stop is seen."""
UNTYPED = "broker.untyped"
"""Type of a message that came without one."""

Stored = Counter[str]
"""How many messages were stored, seen before, and unreadable."""


def receive(queue: str, *, url: str | None = None, stop: threading.Event, until_empty: bool = False) -> Stored:
    """Move messages of the queue to the inbox until asked to stop, or until the queue is empty; declare it first.

    A broker or database that is away is waited for. A message is acknowledged after the commit that stored it, and
    told by its id when it comes again.
    """
    stored: Stored = Counter()
    failures = 0
    while not stop.is_set():
        before = stored.total()
        try:
            _receive(url or default_url(), queue, stop, until_empty, stored)
            break
        except Exception as exc:
            if not _is_away(exc):
                raise
            connection.close()
            failures = 1 if stored.total() > before else failures + 1
            wait = _wait(failures)
            log.warning("receive_interrupted", queue=queue, error=str(exc)[:200], wait_seconds=round(wait, 1))
            stop.wait(wait)
    return stored


def _receive(url: str, queue: str, stop: threading.Event, until_empty: bool, stored: Stored) -> None:
    consumer = open_consumer(url, queue)
    try:
        while not stop.is_set():
            batch = consumer.fetch(wait=QUIET_SECONDS if until_empty else WAIT_SECONDS)
            if batch:
                _take(consumer, batch, queue, stored)
            elif until_empty and consumer.is_empty():
                return
    finally:
        consumer.close()


def _take(consumer: Consumer, batch: Sequence[Arrival], queue: str, stored: Stored) -> None:
    done = store(batch, queue)
    consumer.acknowledge(batch)
    stored.update(done)
    log.info("received", queue=queue, **done)


def _is_away(exc: Exception) -> bool:
    """Say whether the broker or the database is out of reach, which passes."""
    return isinstance(exc, OSError | BrokerError | OperationalError | InterfaceError) or is_away(exc)


def _wait(failures: int) -> float:
    wait = backoff(
        failures,
        base=timedelta(seconds=1),
        factor=conf().backoff_factor,
        cap=timedelta(seconds=conf().backoff_max_seconds / 10),
        spread=random(),  # noqa: S311 - spreads load, guards nothing
    )
    return wait.total_seconds()


def store(batch: Sequence[Arrival], queue: str) -> Stored:
    """Store arrivals in one transaction; those that no inbox can take go to the dead letters.

    What the database refuses is found by storing each for itself.
    """
    try:
        return _store(batch, queue)
    except (DataError, IntegrityError) as exc:
        if len(batch) == 1:
            return _keep([_unreceivable(batch[0], queue, f"the database refused it: {exc}")])
        return sum((store([arrival], queue) for arrival in batch), Stored())


@transaction.atomic
def _store(batch: Sequence[Arrival], queue: str) -> Stored:
    good: list[messages.Row] = []
    bad: list[Unreceivable] = []
    for arrival in batch:
        try:
            good.append(row_of(arrivals.message_of(arrival, limits=conf().payload_limits())))
        except InvalidMessage as exc:
            bad.append(_unreceivable(arrival, queue, exc.reason))
        except (ValueError, TypeError, RecursionError) as exc:  # whatever it holds, it must not stop those behind it
            bad.append(_unreceivable(arrival, queue, f"{type(exc).__name__}: {exc}"))
    new = messages.insert(good)
    if new:
        wakeups.wake(INBOX)
    done = Stored({"stored": len(new), "seen_before": len(good) - len(new)})
    return done + _keep(bad) if bad else +done


@transaction.atomic
def _keep(bad: Sequence[Unreceivable]) -> Stored:
    """Keep what cannot be received, each once; without a store of dead letters the inbox keeps it, undecoded."""
    fresh = messages.remember([one.message_id for one in bad])
    new = list({one.message_id: one for one in bad if one.message_id in fresh}.values())
    letters = dead_letter_store()
    if letters is not None and new:
        letters.keep(new)
        reactions.wake()
    elif new:
        messages.insert([_undecoded(one) for one in new])
    for one in new:
        log.warning("unreadable_arrival", message_id=str(one.message_id), queue=one.queue, error=one.failure.message)
    return +Stored({"unreadable": len(new), "seen_before": len(bad) - len(new)})


def _unreceivable(arrival: Arrival, queue: str, reason: str) -> Unreceivable:
    partition = arrivals.stream_of(arrival)
    metadata = {"headers": arrivals.storable_headers(arrival), **({"stream": partition} if partition else {})}
    return Unreceivable(
        message_id=arrivals.id_of(arrival) or arrivals.id_by_content(arrival, queue),
        message_type=bounded(arrivals.type_of(arrival) or UNTYPED, MAX_TYPE - 100),
        queue=queue,
        stream_id=stream_uuid(partition),
        body=arrival.body,
        shown=stub_of(arrival.body),
        metadata=json.dumps(metadata),
        failure=Failure(message=f"The message cannot be received: {reason}"),
        instance_id=instances.current().id,
        generation=conf().generation,
    )


def _undecoded(one: Unreceivable) -> messages.Row:
    row = row_of(NewMessage(type=one.message_type, payload=None))
    return replace(
        row,
        message_id=one.message_id,
        event_data=one.shown,
        metadata=one.metadata,
        envelope_raw=one.body,
        envelope_bytes=len(one.body),
        stream_id=one.stream_id,
    )
