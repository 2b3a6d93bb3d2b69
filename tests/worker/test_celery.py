"""A real Celery worker on a real broker."""

import time

import pytest
from django.conf import settings

from queues import append_event, publish, send, wakeups
from tests.worker.conftest import eventually, subscribe_the_shop

TICK_SECONDS = 1


@pytest.fixture
def worker(shop):
    if settings.CELERY_BROKER_URL.startswith("memory"):
        pytest.fail("this test needs a real broker: run it by make test")
    process = shop.start(
        "-m",
        "celery",
        "-A",
        "deadletters.project",
        "worker",
        "-Q",
        "inbox,outbox,perspective",
        "-c",
        "2",
        "-l",
        "INFO",
        "--without-mingle",
    )
    eventually(lambda: " ready." in shop.log(), "the worker is ready")
    return process


def with_ticks(condition):
    """Return the condition asked between ticks, as beat sends them: a wake-up dies with its killed process."""
    last = 0.0

    def asked():
        nonlocal last
        if time.monotonic() - last > TICK_SECONDS:
            last = time.monotonic()
            wakeups.send_wakeup("wh_inbox")
        return condition()

    return asked


def test_a_sent_message_is_handled_by_its_wakeup_without_any_tick(shop, worker):
    send("test.Good", "woken")

    eventually(lambda: shop.effects() == ["woken"], "the effect of a woken worker")


def test_a_published_message_and_an_appended_event_are_handled_by_their_wakeups(shop, worker):
    subscribe_the_shop()
    publish("test.Good", "published", destination="here")
    append_event("a", "test.Added", "appended")

    eventually(lambda: shop.effects() == ["appended", "published"], "the effects of woken workers")


def test_a_killed_pool_process_is_replaced_and_the_others_work_goes_on(shop, worker):
    send("test.Kill", "killer", max_attempts=1)
    eventually(lambda: shop.starts("test.Kill"), "the killer starts")
    send("test.Good", "after")

    eventually(with_ticks(lambda: shop.effects() == ["after"]), "the work goes on")
    assert worker.poll() is None


def test_a_killer_that_takes_every_pool_process_does_not_keep_the_next_drain_from_starting(shop, worker):
    """The dead are swept before the living are counted: their rows still say that they drain."""
    for n in range(3):
        send("test.Kill", f"killer-{n}", max_attempts=1)
    eventually(with_ticks(lambda: len(shop.starts("test.Kill")) == 3), "each killer starts")
    send("test.Good", "after")

    eventually(with_ticks(lambda: shop.effects() == ["after"]), "the work goes on")
