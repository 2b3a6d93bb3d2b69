"""What the move to the dead letters costs, against statements written by hand for the same tables and indexes.

Each row has an envelope of 2 KB and a failure with two subjects, and none has a stream. All sides get the same JSON,
and each batch is a transaction. `hand-written` writes the same rows: the letter, its death, its subjects, and the
changes of the counts of groups, subjects and flow. It leaves out what makes a move safe: locks of letters and streams,
the fence, a letter that is there already, the policies' rows (it sets a date of its own), a bound of the subjects.
`bare` writes the letter alone, with as few columns as the table allows. For these two the tables' own triggers are
off: they would count once more.
"""

import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from uuid_utils.compat import uuid7

from deadletters.sql import SNAPSHOTS
from queues.sql import filled
from tests.bench.harness import Bench, Measure

HERE = Path(__file__).parent
ROWS = 5_000
ONE_BY_ONE = 500
TABLES = "wh_inbox", "wh_dead_letters", "dead_letter_deaths", "dead_letter_subjects"
DELTAS = "group_deltas", "subject_deltas", "flow_deltas", "wh_arrivals"
INSTANCE, TOKEN = UUID(int=7), UUID(int=8)
OURS = "SELECT * FROM move_batch_to_dead_letters('wh_inbox', %s, %s, 'build-1', %s)"

Statement = Callable[[str], None]


def many() -> Iterator[Bench]:
    """Yield the benches of batches."""
    for n in (100, 1000):
        yield Bench(
            name="move_many",
            unit="rows/s",
            n=n,
            ours=partial(_rate, _ours, n),
            others={
                "hand-written": partial(_quietly, partial(_rate, _raw("hand_written"), n)),
                "bare": partial(_quietly, partial(_rate, _raw("bare"), n)),
            },
        )


def one() -> Iterator[Bench]:
    """Yield the bench of a single move; its ratio is one of times."""
    others = {"hand-written": partial(_quietly, partial(_milliseconds, _raw("hand_written")))}
    yield Bench(name="move_one", unit="ms", n=1, ours=partial(_milliseconds, _ours), others=others)


def _rate(statement: Statement, n: int) -> float:
    return ROWS / _seconds(statement, rows=ROWS, n=n)


def _milliseconds(statement: Statement) -> float:
    return _seconds(statement, rows=ONE_BY_ONE, n=1) / ONE_BY_ONE * 1000


def _seconds(statement: Statement, *, rows: int, n: int) -> float:
    ids = _write_rows(rows + n)
    first, *batches = [json.dumps([_move(one) for one in ids[start : start + n]]) for start in range(0, len(ids), n)]
    statement(first)  # plans are made once in a session's life
    started = time.perf_counter()
    for batch in batches:
        with transaction.atomic():
            statement(batch)
    seconds = time.perf_counter() - started
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM wh_dead_letters")
        if cursor.fetchone()[0] != len(ids):
            raise RuntimeError("not every row was moved")
    return seconds


def _ours(batch: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(OURS, [batch, INSTANCE, TOKEN])
        cursor.fetchall()


def _raw(name: str) -> Statement:
    snapshot = SNAPSHOTS["wh_inbox"]["snapshot"].replace("g.", "w.")
    text = filled((HERE / f"{name}.sql").read_text(), {"snapshot": snapshot})

    def run(batch: str) -> None:
        with connection.cursor() as cursor:
            cursor.cursor.execute(text, [batch], prepare=True)

    return run


def _quietly(measure: Measure) -> float:
    """Measure without the tables' own triggers."""
    _switch_triggers("DISABLE")
    try:
        return measure()
    finally:
        _switch_triggers("ENABLE")


def _switch_triggers(command: str) -> None:
    with connection.cursor() as cursor:
        for table in TABLES:
            cursor.execute(f"ALTER TABLE {table} {command} TRIGGER USER")


def _write_rows(count: int) -> list[UUID]:
    """Empty the tables, write rows of 2 KB that are claimed under TOKEN, and return their ids."""
    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {', '.join((*TABLES, *DELTAS))} CASCADE")
        cursor.execute((HERE / "rows.sql").read_text(), [count, TOKEN, INSTANCE])
        cursor.execute("VACUUM ANALYZE wh_inbox")
        cursor.execute("SELECT message_id FROM wh_inbox ORDER BY position")
        return [message_id for (message_id,) in cursor.fetchall()]


def _move(source_id: UUID) -> dict[str, Any]:
    number = source_id.int % 1000
    subjects = [{"type": "order", "id": str(number)}, {"type": "customer", "id": str(source_id)}]
    return {
        "dead_letter_id": str(uuid7()),
        "source_id": str(source_id),
        "failure_reason": 99,
        "error_text": f"shop.errors.CardDeclined: card of order {number} was declined\n"
        + "  at shop.bank.charge\n" * 8,
        "failure_detail": {"type": "shop.errors.CardDeclined", "subjects": subjects, "detail": {"code": 51}},
        "cause": "budget_spent",
        "attempts": 10,
        "fingerprint": f"{number % 7:016x}",
        "fingerprint_version": 2,
    }
