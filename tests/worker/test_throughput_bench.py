"""The benches of throughput, small: that they run from end to end. The large ones are `make bench`."""

import json

import pytest
from django.conf import settings
from django.db import connection

from tests.bench.harness import run
from tests.bench.throughput import backlog, benches

SCALE = benches.Scale(messages=60, backlog=200, large=2, started_seconds=0, idle_seconds=0.1, repeats=1, rivals=False)


@pytest.fixture(autouse=True)
def tables_of_the_benches(transactional_db):
    yield
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS bench_bare, bench_effects")


def results(bench):
    lines = [result.line() for measured in bench(SCALE) for result in run(measured, patience_seconds=0)]
    print("\n".join(lines))  # noqa: T201 - the ratios are shown where a person asks for them
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize(
    ("bench", "against"),
    [
        (benches.inbox_noop, ["bare"]),
        (benches.inbox_write, ["commit_each", "bare_commit_each"]),
        (benches.perspective_apply, [None]),
        (benches.two_workers, ["one_worker"]),
    ],
)
def test_each_bench_drains_all_and_compares(bench, against):
    found = results(bench)

    assert [result["against"] for result in found] == against
    assert all(result["median"] > 0 and (result["ratio"] or 1) > 0 for result in found)


@pytest.mark.skipif(not settings.CELERY_BROKER_URL.startswith("redis"), reason="needs a broker")
def test_the_outbox_bench_publishes_all():
    (found,) = results(benches.outbox_redis)

    assert found["median"] > 0


def test_the_backlog_bench_tells_rate_sizes_memory_and_the_cost_of_nothing():
    found = {result["name"].removeprefix("drain_backlog"): result for result in results(backlog.drain_backlog)}

    assert list(found) == ["", "_table", "_indexes", "_memory", "_memory_1mib", "_idle"]
    assert found["_table"]["ratio"] < 1
    assert found["_memory"]["median"] > backlog.MIB
