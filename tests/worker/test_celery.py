"""A real Celery worker and beat on a real broker."""

import signal

import pytest

from tests.worker.conftest import DEADLINE, eventually
from tests.worker.island import named, nothing_is_claimed

pytestmark = pytest.mark.usefixtures("celery_stays")

PUBLISH_AND_APPEND = """
from queues import append_event, publish
publish("test.Good", {published!r}, destination="here")
append_event({appended!r}, "test.Added", {appended!r})
"""
WAKE_OFTEN = """
from queues import wakeups
for _ in range(20):
    wakeups.send_wakeup("wh_inbox")
"""


SEND_GATE_AND_REST = """
from queues import NewMessage, send_many
send_many([
    NewMessage(type="test.Gate", payload={gate!r}),
    *(NewMessage(type="test.Good", payload=payload) for payload in {free!r}),
    *(NewMessage(type="test.Good", payload=payload, stream={gate!r}) for payload in {streamed!r}),
])
"""


def test_a_sent_message_is_handled_by_its_wakeup_without_any_tick(island):
    payloads = named(1)
    with island.without_ticks():
        island.send("test.Good", *payloads)

        island.eventually_all_have_their_effect(payloads)


def test_a_published_message_and_an_appended_event_are_handled_by_their_wakeups(island):
    appended, published = payloads = named(2)
    with island.without_ticks():
        island.python(PUBLISH_AND_APPEND.format(published=published, appended=appended))

        island.eventually_all_have_their_effect(payloads)


def test_a_tick_finds_what_no_wakeup_was_sent_for(island):
    (payload,) = payloads = named(1)

    island.execute(
        "INSERT INTO wh_inbox (message_id, message_type, event_data, metadata, handler_name)"
        " VALUES (gen_random_uuid(), 'test.Good', to_jsonb(%s::text), '{}', '')",
        payload,
    )

    island.eventually_all_have_their_effect(payloads)


def test_a_wakeup_that_comes_many_times_does_no_harm(island):
    payloads = named(200)
    island.send("test.Good", *payloads[:100])
    island.send("test.Good", *payloads[100:], stream=payloads[0])

    island.python(WAKE_OFTEN)

    island.eventually_all_have_their_effect(payloads)


def test_two_beats_do_no_harm(island):
    second = island.start_beat()
    log = len(island.processes) - 1
    eventually(lambda: island.log(log).count("queues.drain") > 2, "both beats tick")
    payloads = named(100)

    island.send("test.Good", *payloads)

    island.eventually_all_have_their_effect(payloads)
    second.kill()


def test_a_killed_pool_process_is_replaced_and_the_others_work_goes_on(island):
    (killer,) = named(1)
    island.send("test.Kill", killer, max_attempts=1)
    eventually(lambda: killer in island.starts("test.Kill"), "the killer starts")
    payloads = named(1)

    island.send("test.Good", *payloads)

    island.eventually_all_have_their_effect(payloads)


def test_a_killer_that_takes_every_pool_process_does_not_keep_the_next_drain_from_starting(island):
    """The dead are swept before the living are counted: their rows still say that they drain."""
    killers = named(3)
    island.send("test.Kill", *killers, max_attempts=1)
    eventually(lambda: set(killers) <= set(island.starts("test.Kill")), "each killer starts")
    payloads = named(1)

    island.send("test.Good", *payloads)

    island.eventually_all_have_their_effect(payloads)
    eventually(lambda: island.waiting(killers) == 0, "each killer has died")
    assert sorted(start for start in island.starts("test.Kill") if start in killers) == killers


def test_a_message_that_runs_long_is_seen_with_its_process(island):
    (payload,) = payloads = named(1)
    island.send("test.Gate", payload)

    def shown():
        return island.execute(
            "SELECT metadata->'message'->>'type', metadata->>'draining', metadata ? 'ticked_at'"
            " FROM wh_service_instances WHERE metadata->'message' <> 'null'"
        )

    eventually(shown, "the message is shown")
    assert shown() == [("test.Gate", "wh_inbox", True)]
    island.gate.touch()
    island.eventually_all_have_their_effect(payloads)
    eventually(lambda: not shown(), "nothing is shown any more")


@pytest.mark.parametrize("pool", ["prefork", "solo", "threads"])
def test_a_worker_asked_to_end_finishes_its_message_gives_back_the_rest_and_loses_nothing(island, pool):
    gate, *rest = payloads = named(40)
    with island.without_ticks():
        if pool != "prefork":
            start_other_pool(island, pool)
        island.python(SEND_GATE_AND_REST.format(gate=gate, free=rest[:20], streamed=rest[20:]))
        eventually(lambda: gate in island.starts("test.Gate"), "the handler runs")

        island.worker.send_signal(signal.SIGTERM)
        eventually(lambda: "Warm shutdown" in island.log(island.worker_log), "the worker knows")
        island.gate.touch()

        assert island.worker.wait(DEADLINE) == 0
        done = island.effects_of(payloads)  # a tick that was under way may have let a second drain run some
        assert gate in done
        assert nothing_is_claimed(island)
        left = sorted(set(rest) - set(done))
        assert left
        given_back = island.execute(
            "SELECT DISTINCT attempts, releases FROM wh_inbox WHERE event_data #>> '{}' = ANY (%s)", left
        )
        assert given_back == [(0, 0)]
    island.start_worker()

    island.eventually_all_have_their_effect(payloads)


def start_other_pool(island, pool):
    """Replace the worker by one that finds no old ticks to wade through."""
    island.end_worker()
    with island.broker() as broker:
        broker.flushall()
    island.start_worker(pool)


LOGS_MONTHS = """
SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
 WHERE i.inhparent = 'delivery_log'::regclass AND c.relkind = 'r' ORDER BY c.relname
"""


def test_a_worker_that_starts_makes_the_months_of_the_delivery_log_that_are_missing(island):
    island.end_worker()
    months = island.execute(LOGS_MONTHS)
    island.execute(f"DROP TABLE {months[-1][0]}")

    island.start_worker()

    eventually(lambda: island.execute(LOGS_MONTHS) == months, "the month is made")


MOVE_ALL = """
SELECT move_to_dead_letters(gen_random_uuid(), 'wh_inbox', message_id, 2, 'out of reach', gen_random_uuid(), %s)
  FROM wh_inbox WHERE message_type = 'test.Good'
"""
RECOVER_ALL = (
    *("recover", "--all", "--type", "test.Good", "--status", "open", "--yes"),
    *("--canary", "2", "--ramp", "0", "--in-flight", "5"),
)
STATES = """
SELECT i.state, count(*) FROM recovery_items i JOIN recovery_runs r USING (run_id) WHERE r.kind = 'person' GROUP BY 1
"""
BUILD = "SELECT metadata ->> 'generation' FROM wh_service_instances WHERE metadata ? 'generation' LIMIT 1"


def test_a_run_whose_workers_are_all_killed_is_taken_on_by_the_next(island):
    payloads = named(60)
    ((build,),) = eventually(lambda: island.execute(BUILD), "a worker has said which build it is")
    island.end_worker()
    island.send("test.Good", *payloads)
    island.execute(MOVE_ALL, build)
    assert island.run("dead_letters", *RECOVER_ALL).wait() == 0, island.log()

    island.start_worker()
    eventually(lambda: len(island.effects_of(payloads)) >= 7, "the run is under way")
    island.kill_worker()
    left = dict(island.execute(STATES))
    island.start_worker()

    eventually(lambda: island.execute(STATES) == [("recovered", 60)], "each letter has its verdict")
    assert left != {"recovered": 60}
    assert island.effects_of(payloads) == sorted(payloads)
