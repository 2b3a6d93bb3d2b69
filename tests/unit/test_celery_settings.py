"""What Celery is told: one task at a time, acknowledged when it is done, a queue for each source."""

import pytest

from deadletters.project import settings as product
from deadletters.project.celery import app
from queues import tasks
from queues.wakeups import CELERY_QUEUES, DRAIN_TASK
from queues.words.sources import INBOX, OUTBOX, PERSPECTIVES


def test_a_worker_fetches_no_more_than_it_runs_and_acknowledges_late() -> None:
    assert app.conf.worker_prefetch_multiplier == 1
    assert app.conf.task_acks_late
    assert tasks.drain_source.acks_late


def test_a_killed_drain_is_not_handed_out_again_by_the_broker() -> None:
    """A message that kills would take one worker after another; the tick finds the rest."""
    assert not app.conf.task_reject_on_worker_lost
    assert not tasks.drain_source.reject_on_worker_lost


def test_each_source_has_a_queue_and_the_worker_of_the_product_takes_from_all() -> None:
    from deadletters.project.run import _worker

    assert {INBOX: "inbox", OUTBOX: "outbox", PERSPECTIVES: "perspective"} == CELERY_QUEUES
    arguments = _worker(8300)
    taken = set(arguments[arguments.index("-Q") + 1].split(","))
    assert set(CELERY_QUEUES.values()) <= taken


def test_a_drain_with_its_longest_handler_ends_before_celery_kills_it_and_before_it_is_handed_out_again() -> None:
    drain = product.DRAIN_SECONDS + product.HANDLER_SECONDS

    assert drain < app.conf.task_time_limit
    options = getattr(product, "CELERY_BROKER_TRANSPORT_OPTIONS", {})
    assert app.conf.task_time_limit < options.get("visibility_timeout", float("inf"))


def test_the_task_has_the_name_that_wakeups_send() -> None:
    assert tasks.drain_source.name == DRAIN_TASK


@pytest.mark.parametrize("source", CELERY_QUEUES)
def test_waiting_is_kept_in_rows_and_never_in_the_broker(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from queues import wakeups

    sent = []
    monkeypatch.setattr("celery.app.base.Celery.send_task", lambda self, name, **options: sent.append(options))
    wakeups.send_wakeup(source)

    assert not {"eta", "countdown"} & sent[0].keys()
    assert sent[0]["expires"] > 0
