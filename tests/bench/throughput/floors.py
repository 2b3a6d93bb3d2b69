"""Loops written by hand in a worker process: what is left when a queue keeps no promise but one.

`claim` leases a batch in one statement, decodes the bodies and deletes the rows in another one: no order, no budget, no
failure, no handler. `commit_each` claims so too, and has for each message a transaction that writes one row by the
ORM and deletes the message.
"""

import json
import uuid
from typing import Any

from django.db import connection, transaction

from tests.bench.throughput.models import Effect

BATCH = 500
_CLAIM = """
UPDATE bench_bare SET lease_token = %s, lease_expiry = now() + interval '30 s', attempts = attempts + 1
 WHERE id = ANY (ARRAY (
       SELECT id FROM bench_bare
        WHERE due_at <= now() AND (lease_expiry IS NULL OR lease_expiry <= now())
        ORDER BY due_at, id LIMIT %s FOR UPDATE SKIP LOCKED))
RETURNING id, body
"""
_DELETE = "DELETE FROM bench_bare WHERE id = ANY (%s) AND lease_token = %s"


def claim() -> int:
    """Take all rows; return how many."""
    taken = 0
    while rows := _claimed(token := uuid.uuid4()):
        _delete([row[0] for row in rows], token)
        taken += len(rows)
    return taken


def commit_each() -> int:
    """Take all rows, each in a transaction of its own; return how many."""
    taken = 0
    while rows := _claimed(token := uuid.uuid4()):
        for row_id, body in rows:
            with transaction.atomic():
                Effect.objects.create(number=body["number"])
                _delete([row_id], token)
        taken += len(rows)
    return taken


def _claimed(token: uuid.UUID) -> list[tuple[int, Any]]:
    with connection.cursor() as cursor:
        cursor.execute(_CLAIM, [token, BATCH])
        return [(row_id, json.loads(body)) for row_id, body in cursor.fetchall()]


def _delete(ids: list[int], token: uuid.UUID) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_DELETE, [ids, token])


LOOPS = {"claim": claim, "commit_each": commit_each}
