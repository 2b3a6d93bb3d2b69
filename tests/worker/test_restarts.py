"""The database or the broker goes away under running workers: work goes on when it is back, without a restart."""

import signal

import pytest

from tests.worker.conftest import eventually
from tests.worker.island import kill_postgres, named, nothing_is_claimed, restart_postgres, terminate_backends

pytestmark = pytest.mark.usefixtures("celery_stays")

WAYS = [restart_postgres, kill_postgres, terminate_backends]


@pytest.mark.parametrize("handler", ["test.Gate", "test.PlainGate"])
@pytest.mark.parametrize("happens", WAYS)
def test_a_handler_whose_database_goes_away_is_charged_once_and_runs_again(island, happens, handler):
    (payload,) = payloads = named(1)
    island.send(handler, payload)
    eventually(lambda: payload in island.starts(handler), "the handler runs")

    happens(island)
    island.gate.touch()

    island.eventually_all_have_their_effect(payloads)
    assert island.starts(handler).count(payload) == 2
    assert [attempt for _, attempt in island.outcomes(payload)] == [1]
    eventually(lambda: nothing_is_claimed(island), "nothing stays claimed")


def test_a_handler_that_ends_while_its_database_is_away_is_charged_once_and_runs_again(island):
    (payload,) = payloads = named(1)
    island.send("test.Gate", payload)
    eventually(lambda: payload in island.starts("test.Gate"), "the handler runs")
    before = island.failed_tasks()
    island.postgres.stop()
    island.gate.touch()
    eventually(lambda: island.failed_tasks() > before, "the run cannot be recorded")

    island.postgres.start()

    island.eventually_all_have_their_effect(payloads)
    assert island.starts("test.Gate").count(payload) == 2
    assert len(island.outcomes(payload)) == 1


@pytest.mark.parametrize("happens", WAYS)
def test_a_drain_whose_database_goes_away_leaves_each_effect_once(island, happens):
    payloads = named(300)
    island.send("test.Good", *payloads[:150])
    island.send("test.Good", *payloads[150:], stream=payloads[0])
    eventually(lambda: island.effects_of(payloads), "the drain has begun")

    happens(island)

    island.eventually_all_have_their_effect(payloads)
    eventually(lambda: nothing_is_claimed(island), "nothing stays claimed")


def test_a_broker_that_was_away_is_used_again_and_what_was_sent_meanwhile_is_found(island):
    payloads = named(3)
    island.valkey.process.kill()
    island.valkey.process.wait()
    island.send("test.Good", *payloads)

    island.valkey.start()

    island.eventually_all_have_their_effect(payloads)
    woken = named(1)
    island.send("test.Good", *woken)
    island.eventually_all_have_their_effect(woken)


def test_a_broker_that_forgot_everything_goes_on_waking(island):
    payloads = named(3)
    with island.broker() as broker:
        broker.flushall()

    island.send("test.Good", *payloads)

    island.eventually_all_have_their_effect(payloads)


def test_a_broker_that_is_full_costs_senders_and_beat_wakeups_only(island):
    """A worker that takes a task from a full broker ends: Celery leaves it to whoever supervises it."""
    payloads = named(3)
    island.end_worker()
    with island.broker() as broker:
        broker.config_set("maxmemory", 1)
        try:
            island.send("test.Good", *payloads)
            assert "wakeup_lost" in island.log()
        finally:
            broker.config_set("maxmemory", 0)
    island.start_worker()

    island.eventually_all_have_their_effect(payloads)


def test_a_drain_command_waits_for_its_database_and_goes_on(island):
    process = island.run("drain", "all")
    log = len(island.processes) - 1
    eventually(lambda: heartbeat(island, process.pid), "it drains")

    island.postgres.stop()
    eventually(lambda: "database_away" in island.log(log), "it has noticed")
    island.postgres.start()

    ((back_at,),) = island.execute("SELECT clock_timestamp()")
    eventually(lambda: heartbeat(island, process.pid) > back_at, "it drains again")
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 0
    assert "inbox: 0 messages" in island.log(log)


def heartbeat(island, process_id):
    ((beat_at,),) = island.execute(
        "SELECT max(last_heartbeat_at) FROM wh_service_instances WHERE process_id = %s", process_id
    )
    return beat_at
