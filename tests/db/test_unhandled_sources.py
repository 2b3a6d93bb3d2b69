"""What nobody alive runs: dead at once and untried, or waiting for the process that does."""

from uuid import uuid4

import pytest

from deadletters.models import DeadLetter
from queues.models import ServiceInstance
from queues.words.outcomes import Cause
from tests.db.sources import counts

pytestmark = pytest.mark.django_db


def test_r5_what_nobody_alive_runs_is_dead_at_once_without_a_run_and_those_behind_it_go_on(work, sql):
    if work.source == "wh_outbox":
        pytest.skip("a destination without a route has tests of its own")
    gone = work.put("gone", stream="s")
    work.put("kept", stream="s")
    rename(work, gone, sql)
    work.drain()

    letter = DeadLetter.objects.get()
    assert (letter.source_id, letter.cause, letter.attempts_when_dlq) == (gone, Cause.NO_HANDLER, 0)
    assert "legacy.Removed" in letter.error_text
    assert work.ran == ["kept"]


def test_r5_what_another_live_process_runs_waits_for_it_uncounted(work, sql):
    if work.source == "wh_outbox":
        pytest.skip("a destination without a route has tests of its own")
    gone = work.put("gone")
    rename(work, gone, sql)
    ServiceInstance.objects.create(
        instance_id=uuid4(),
        service_name="shop",
        host_name="elsewhere",
        process_id=1,
        metadata={"types": ["legacy.Removed"], "perspectives": {"test.totals": ["legacy.Removed"]}},
    )
    work.drain()

    row = work.row(gone)
    assert counts(row) == (0, 0, False)
    assert row["waits"] > 0
    assert not DeadLetter.objects.exists()


def test_r5_a_letter_recovered_for_a_handler_that_is_still_gone_is_dead_again_untried(work, sql):
    from deadletters.store.recovery import Sent, recover

    if work.source == "wh_outbox":
        pytest.skip("a destination without a route has tests of its own")
    rename(work, work.put("gone"), sql)
    work.drain()
    assert recover(DeadLetter.objects.get().pk, "ann") is Sent.SENT
    work.drain()

    letter = DeadLetter.objects.get()
    assert (letter.deaths, letter.cause, letter.recovery_status, letter.attempts_when_dlq) == (2, "no_handler", 0, 0)
    assert work.runs == []


def rename(work, work_id, sql):
    """Let the message be of a type that was deleted from the code."""
    if work.source == "wh_inbox":
        sql("UPDATE wh_inbox SET message_type = 'legacy.Removed' WHERE message_id = %s", work_id)
    else:
        sql(
            "UPDATE wh_event_store e SET event_type = 'legacy.Removed' FROM wh_perspective_events w"
            " WHERE e.event_id = w.event_id AND w.event_work_id = %s",
            work_id,
        )
