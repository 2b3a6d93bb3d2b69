"""The soak, small: mixed messages while workers are killed. The large one is `make soak`."""

import pytest
from django.db import connection

from queues.models import FlowDelta
from tests.bench.soak.findings import faults, find
from tests.bench.soak.messages import messages
from tests.bench.soak.run import Soak
from tests.bench.soak.workers import COMMAND, Workers
from tests.worker.conftest import database_url


@pytest.fixture
def soak(transactional_db, tmp_path):
    environment = {
        "DATABASE_URL": database_url(),
        "DJANGO_SETTINGS_MODULE": "tests.bench.soak.settings",
        "SOAK_FOLDER": str(tmp_path),
    }
    workers = Workers(commands=[COMMAND] * 2, folder=tmp_path, environment=environment)
    yield Soak(count=2_000, workers=workers, folder=tmp_path, deadline_seconds=240)
    workers.stop()
    execute("DROP TABLE soak_effects")


def execute(statement):
    with connection.cursor() as cursor:
        cursor.execute(statement)


def test_mixed_messages_add_up_and_have_each_effect_once_though_workers_are_killed(soak):
    result = soak.run(soak.every_messages(300))

    assert result["faults"] == []
    assert (result["kills"] >= 3, result["deaths"] >= 3) == (True, True)
    assert len(result["killer_starts"]) == 3
    assert result["effects"] == result["distinct"] > 1_700
    assert result["stats"]["adds_up"]
    assert_it_would_have_found_faults(soak)


def assert_it_would_have_found_faults(soak):
    """Change what is there, so that each kind of fault is there once."""
    execute("DELETE FROM soak_effects WHERE id = (SELECT min(id) FROM soak_effects)")
    execute(
        "INSERT INTO soak_effects (stream, number) SELECT stream, number FROM soak_effects"
        " WHERE stream IS NOT NULL ORDER BY id LIMIT 1"
    )
    execute("UPDATE wh_dead_letters SET cause = 'worker_lost' WHERE cause = 'unreadable'")
    FlowDelta.objects.create(source="wh_inbox", succeeded=1)

    found = " ".join(faults(list(messages(soak.count)), find(soak.folder)))

    for fault in (
        "more than once",
        "effects missing",
        "came after",
        "unreadable ones",
        "their budget",
        "add up",
        "tell",
    ):
        assert fault in found
