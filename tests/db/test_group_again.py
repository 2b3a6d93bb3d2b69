"""A group whose commit fails runs again, each alone: what waited behind another in it still comes in its place."""

import pytest

from queues import Delay
from tests.db.sources import DESTINATION, QUEUES, working

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("queue", QUEUES, ids=lambda queue: queue.source)
def test_what_waited_in_a_group_that_runs_again_is_not_overtaken(queue, configure, monkeypatch, handlers, sql, effects):
    configure(GROUP_MS=5_000, GROUP_MESSAGES=2, ROUTES={DESTINATION: "inbox"})
    work = working(queue, monkeypatch)

    def does(run):
        sql("INSERT INTO test_effects (payload) VALUES (%s)", run.payload)
        if run.payload == "s-0" and run.number == 1:
            raise Delay(0.01)
        if run.payload == "t-0" and run.number == 1:  # so that the group cannot be recorded
            sql("UPDATE wh_streams SET lease_token = gen_random_uuid() WHERE lease_token IS NOT NULL")

    work.does = does
    for payload in ("s-0", "s-1", "t-0", "s-2"):
        work.put(payload, stream=payload[0])

    work.drain_for(3)

    assert work.ran.count("t-0") == 2, "the group ran again"
    assert [payload for payload in effects() if payload[0] == "s"] == ["s-0", "s-1", "s-2"]
