"""Four drainers at once over streams whose messages fail, wait, die and come back, in an order that chance decides.

What must hold whatever happens: each message has its effect once, a stream's effects come in the order in which its
messages were sent, and no two of a stream run at once.
"""

import json
import random
import threading
from collections import Counter
from contextlib import contextmanager, nullcontext
from importlib import import_module

import pytest
from uuid_utils.compat import uuid7

from deadletters.models import DeadLetter, RecoveryStatus
from deadletters.store.recovery import recover
from queues import Delay, Terminal, instances
from queues.instances import Instance
from queues.words.sources import INBOX, OUTBOX, PERSPECTIVES, Queue
from tests.db.conftest import at_once
from tests.db.sources import DESTINATION, PERSPECTIVE, working

pytestmark = pytest.mark.django_db(transaction=True)
DRAINERS, STREAMS, LENGTH, FREE = 4, 8, 8, 30
AT_MOST = 4_000
"""Turns of each thread, for a product in which something never ends."""
WAYS = {
    "inbox, streams held behind their dead": (Queue(source=INBOX), {"after_death": "hold"}),
    "inbox, streams that go on": (Queue(source=INBOX), {}),
    "outbox": (Queue(source=OUTBOX), {}),
    "perspectives": (Queue(source=PERSPECTIVES, perspective=PERSPECTIVE), {"after_death": "hold"}),
}


@pytest.fixture
def drainers_in_threads(monkeypatch, configure):
    """Let each thread drain as a process of its own: with its own instance, beside the others."""
    own = threading.local()

    def current():
        if not hasattr(own, "instance"):
            own.instance = Instance(id=uuid7(), process_id=threading.get_native_id())
        return own.instance

    monkeypatch.setattr(instances, "current", current)
    monkeypatch.setattr(import_module("queues.drainer.drain"), "_ALONE", nullcontext())
    configure(
        ROUTES={DESTINATION: "inbox"},
        BACKOFF_BASE_SECONDS=0.02,
        BACKOFF_MAX_SECONDS=0.04,
        MAX_ATTEMPTS=3,
        CLAIM_BATCH=7,
        CLAIM_PER_STREAM=3,
        GROUP_MESSAGES=4,
    )


class Chance:
    """What each run comes to, and the overlap of runs that it saw."""

    def __init__(self, seed, sql):
        self._random, self._sql, self._lock = random.Random(seed), sql, threading.Lock()
        self._running, self.overlaps, self.outcomes = Counter(), [], Counter()

    def __call__(self, run):
        with self._in_its_stream(run):
            self._sql("INSERT INTO test_effects (payload) VALUES (%s)", run.payload)
            with self._lock:
                outcome = self._random.choices(["done", "fails", "waits", "dies"], [70, 15, 10, 5])[0]
                self.outcomes[outcome] += 1
            if outcome == "fails":
                raise ValueError
            if outcome == "waits":
                raise Delay(0.02)
            if outcome == "dies":
                raise Terminal("by chance")

    @contextmanager
    def _in_its_stream(self, run):
        stream = run.payload.partition("-")[0]
        with self._lock:
            self._running[stream] += 1
            if stream != "free" and self._running[stream] > 1:
                self.overlaps.append(run.payload)
        try:
            yield
        finally:
            with self._lock:
                self._running[stream] -= 1


class Storm:
    """Threads that send, drain, recover and take leases away until nothing is left to do."""

    def __init__(self, work, plan, sql):
        self._work, self._plan, self._sql = work, plan, sql
        self._sent, self._stopped = 0, threading.Event()

    def send(self):
        for payload in self._plan:
            stream = payload.partition("-")[0]
            self._work.put(payload, stream=None if stream == "free" else stream)
            self._sent += 1

    def recover_and_wake(self):
        """Bring dead messages back, and let streams be looked at before their time, as an arrival or a resume does."""
        self._sql(
            "UPDATE wh_streams SET due_at = now() WHERE held_by IS NULL AND ctid IN"
            " (SELECT ctid FROM wh_streams WHERE random() < 0.5 FOR UPDATE SKIP LOCKED)"
        )
        for letter in DeadLetter.objects.filter(recovery_status=RecoveryStatus.PENDING)[:3]:
            recover(letter.pk, "ann")

    def lose_leases(self):
        for table in (self._work.source, "wh_streams"):
            self._sql(
                f"UPDATE {table} SET lease_expiry = now() - interval '1 second'"
                f" WHERE ctid IN (SELECT ctid FROM {table} WHERE lease_token IS NOT NULL AND random() < 0.02"
                "   FOR UPDATE SKIP LOCKED)"
            )

    def until_over(self, act):
        """Return the loop that acts until nothing is left to do, or another loop has ended."""

        def loop():
            try:
                for _ in range(AT_MOST):
                    if self._stopped.is_set() or self._is_over():
                        return
                    act()
                raise AssertionError(f"it does not end: {self._work.rows()}")
            finally:
                self._stopped.set()

        return loop

    def _is_over(self):
        is_open = DeadLetter.objects.exclude(recovery_status=RecoveryStatus.RECOVERED).exists
        return self._sent == len(self._plan) and not self._work.rows() and not is_open()


@pytest.mark.parametrize("leases", ["kept", "lost"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.usefixtures("drainers_in_threads", "handlers")
def test_effects_come_once_and_in_the_order_of_their_streams(way, leases, monkeypatch, sql, effects):
    queue, options = WAYS[way]
    work, plan = working(queue, monkeypatch, **options), plan_of(random.Random(7))
    work.does = chance = Chance(way, sql)
    storm = Storm(work, plan, sql)
    acts = [work.drain] * DRAINERS + [storm.recover_and_wake] + [storm.lose_leases] * (leases == "lost")
    before = deadlocks(sql)

    at_once(storm.send, *map(storm.until_over, acts))

    done = effects()
    assert sorted(done) == sorted(plan), "each once"
    assert leases == "lost" or chance.overlaps == []
    died = set() if options else {json.loads(letter.envelope)["event_data"] for letter in DeadLetter.objects.all()}
    for number in range(STREAMS):
        ran = [payload for payload in done if payload.startswith(f"s{number}-") and payload not in died]
        assert ran == [payload for payload in plan if payload in ran], "in the order in which they were sent"
    assert deadlocks(sql) == before, "locks are taken in one order"
    assert set(chance.outcomes) == {"done", "fails", "waits", "dies"}


def plan_of(chance):
    """Return payloads in the order in which they are sent: `s<stream>-<number>`, and `free-<number>`."""
    turns = [f"s{number}" for number in range(STREAMS)] * LENGTH + ["free"] * FREE
    chance.shuffle(turns)
    counts = Counter()
    plan = []
    for stream in turns:
        plan.append(f"{stream}-{counts[stream]:03}")
        counts[stream] += 1
    return plan


def deadlocks(sql):
    (row,) = sql("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    return row["deadlocks"]
