"""Bodies of what was claimed: read in portions, and one that cannot be read at all keeps nobody waiting."""

from contextlib import suppress

import pytest
from django.db import OperationalError

from deadletters.models import DeadLetter
from queues.drainer import batch
from queues.models import DeliveryLogEntry


@pytest.fixture
def reads(monkeypatch):
    """Note which bodies are read at once, and let reading those that `broken` names fail in the database."""
    whole, noted, broken = batch.bodies, [], {}

    def read(source, message_ids):
        for message_id in message_ids:
            if message_id in broken:
                broken[message_id]()
        noted.append(list(message_ids))
        return whole(source, message_ids)

    monkeypatch.setattr(batch, "bodies", read)
    return noted, broken


@pytest.mark.django_db
def test_bodies_are_read_under_a_byte_budget_and_one_that_is_larger_alone(work, configure, reads):
    noted, _ = reads
    configure(CLAIM_BYTES=2_500)
    sizes = {work.put("x" * size): size for size in (1_000, 1_000, 1_000, 9_000, 1_000, 10)}
    work.drain()

    assert [[sizes[work_id] for work_id in portion] for portion in noted] == [
        [1_000, 1_000],
        [1_000],
        [9_000],
        [1_000, 10],
    ]
    assert len(work.runs) == len(sizes)


@pytest.mark.django_db(transaction=True)
def test_a_body_that_the_database_cannot_read_is_its_messages_failure_and_those_behind_it_run(
    work, configure, reads, sql
):
    configure(MAX_ATTEMPTS=2, CLAIM_BATCH=4)
    ids = [work.put(n) for n in range(6)]
    reads[1][ids[1]] = lambda: sql("SELECT 1/0")
    work.drain()

    assert sorted(work.ran) == [0, 2, 3, 4, 5]
    (row,) = work.rows()
    assert (row[work.key], row["attempts"], row["lease_token"]) == (ids[1], 1, None)
    assert "division by zero" in row["error"]
    work.drain_for(2)
    assert (DeadLetter.objects.get().source_id, DeadLetter.objects.get().cause) == (ids[1], "budget_spent")


@pytest.mark.django_db(transaction=True)
def test_a_connection_that_goes_while_bodies_are_read_is_no_messages_failure(work, reads, sql):
    ids, gone = [work.put(n) for n in range(3)], []

    def go():
        if len(gone) < 2:
            gone.append(1)
            sql("SELECT pg_terminate_backend(pg_backend_pid())")

    reads[1][ids[1]] = go
    for _ in range(3):
        with suppress(OperationalError):
            work.drain()

    assert len(gone) == 2
    assert sorted(set(work.ran)) == [0, 1, 2]
    assert work.rows() == []
    assert not DeliveryLogEntry.objects.filter(outcome="failure").exists()
