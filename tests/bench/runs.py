"""What recovery runs cost: freezing a scope while others move, sending without a rate, finding what is due."""

import threading
import time
from collections.abc import Iterator
from uuid import UUID

from django.db import connection, transaction
from uuid_utils.compat import uuid7

from deadletters.models import RecoveryItem, RunKind
from deadletters.recovery import runs
from deadletters.recovery.stepping import step, step_run
from deadletters.store.audit import Actor
from deadletters.words.filters import LetterFilter
from deadletters.words.plans import MAX_IN_FLIGHT, Plan
from deadletters.words.scopes import Matching
from tests.bench.harness import Bench, Measure

FROZEN = 100_000
SENT = 20_000
LETTERS = 1_000_000
TYPE = "bench.Recovered"
TABLES = (
    "wh_dead_letters, dead_letter_deaths, dead_letter_subjects, recovery_items, recovery_runs, wh_inbox, wh_arrivals"
)
SCOPE = Matching(filters=LetterFilter(type=TYPE))
AT_ONCE = Plan(canary=0, ramp=0, in_flight=MAX_IN_FLIGHT, stop_failures=None)
STATES = {"held": "2", "recovered": "3", "due": "0", "mixed": "n % 5"}

# Ids as the engine makes them: in the order of time.
_LETTERS = """
INSERT INTO wh_dead_letters (
       dead_letter_id, source_table, source_id, message_type, envelope, failure_reason, error_text, cause,
       attempts_when_dlq, delays_when_dlq, generation, error_fingerprint, error_fingerprint_version, recovery_status,
       recovered_at, next_recovery_at)
SELECT (lpad(to_hex(n), 12, '0') || left(md5(n::text), 20))::uuid, 'wh_inbox',
       (lpad(to_hex(n), 12, '0') || right(md5(n::text), 20))::uuid, %s, jsonb_build_object('event_data', n), 99,
       'declined',
       'budget_spent', 10, 0, 'build-1', md5((n %% 50)::text)::varchar(16), 2, {state},
       CASE WHEN {state} = 3 THEN now() END, CASE WHEN {state} = 0 THEN now() - interval '1 hour' * random() END
  FROM generate_series(1, %s) AS n
"""
_DEATHS = """
INSERT INTO dead_letter_deaths (dead_letter_id, number, generation, cause, failure_reason, error_text, attempts,
                                error_fingerprint, error_fingerprint_version)
SELECT dead_letter_id, 1, generation, cause, failure_reason, error_text, 10, error_fingerprint, 2 FROM wh_dead_letters
"""


def freeze() -> Iterator[Bench]:
    """Yield the bench of freezing a scope while another connection moves messages one by one."""
    yield Bench(name="run_freeze", unit="s", n=FROZEN, ours=_frozen, repeats=3, cores=2.5)


def dispatch() -> Iterator[Bench]:
    """Yield the bench of sending a run's letters, a thousand to a transaction."""
    yield Bench(name="run_dispatch", unit="items/s", n=SENT, ours=_dispatched, repeats=5)


def due() -> Iterator[Bench]:
    """Yield the benches of finding the letters that are due, by the states that the letters are in."""
    for mix, state in STATES.items():
        yield Bench(name=f"recovery_due_{mix}", unit="ms", n=LETTERS, ours=_due(state), repeats=5)


def _frozen() -> float:
    run_id = _begun(FROZEN)
    ended = threading.Event()
    mover = threading.Thread(target=_move_until, args=(ended,))
    mover.start()
    try:
        started = time.perf_counter()
        _step(run_id)
        seconds = time.perf_counter() - started
    finally:
        ended.set()
        mover.join()
    if RecoveryItem.objects.filter(run_id=run_id).count() != FROZEN:
        raise RuntimeError("not every letter was frozen")
    return seconds


def _move_until(ended: threading.Event) -> None:
    """Send and move one message after the other; each commits by itself. Fails when one of them had to wait."""
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '100ms'")
        while not ended.is_set():
            message_id = uuid7()
            cursor.execute(
                "INSERT INTO wh_inbox (message_id, message_type, event_data) VALUES (%s, 'bench.Other', '1')",
                [message_id],
            )
            cursor.execute(
                "SELECT move_to_dead_letters(%s, 'wh_inbox', %s, 99, 'declined', NULL, 'build-1')",
                [uuid7(), message_id],
            )
    connection.close()


def _dispatched() -> float:
    run_id = _begun(SENT)
    _step(run_id)
    _step(run_id)  # it is frozen, and started
    started = time.perf_counter()
    step(600)
    seconds = time.perf_counter() - started
    if RecoveryItem.objects.filter(run_id=run_id, state="sent").count() != SENT:
        raise RuntimeError("not every item was sent")
    return SENT / seconds


def _step(run_id: UUID) -> None:
    with transaction.atomic():
        step_run(run_id)


def _due(state: str) -> Measure:
    made: list[str] = []

    def measure() -> float:
        if not made:
            _write_letters(LETTERS, state)
            made.append(state)
        with connection.cursor() as cursor:
            started = time.perf_counter()
            cursor.execute("SELECT count(*) FROM due_dead_letters(100)")
            return (time.perf_counter() - started) * 1000

    return measure


def _begun(count: int) -> UUID:
    _write_letters(count, "0")
    run_id = runs.begin(kind=RunKind.SCHEDULE, scope=SCOPE, plan=AT_ONCE, by=Actor(name="bench"))
    if run_id is None:
        raise RuntimeError("the run did not begin")
    return run_id


def _write_letters(count: int, state: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {TABLES} CASCADE")
        cursor.execute(_LETTERS.replace("{state}", state.replace("%", "%%")), [TYPE, count])
        cursor.execute(_DEATHS)
        cursor.execute("VACUUM ANALYZE wh_dead_letters, dead_letter_deaths")
