"""Replays with real workers of two builds."""

import json

import pytest

from deadletters import counting, generations
from deadletters.models import DeadLetter, RecoveryItem, RecoveryRun
from deadletters.recovery.stepping import step
from queues import send
from queues.models import InboxMessage
from tests.db.conftest import move_by_hand
from tests.factories import a_letter
from tests.worker.conftest import Shop

pytestmark = pytest.mark.django_db(transaction=True)

OLD, NEW = "build-1", "build-2"


def drains(shop: Shop, build: str) -> None:
    """Let a worker of a build drain the inbox to its end."""
    assert shop.drainer(TEST_QUEUES=json.dumps({"GENERATION": build})).wait() == 0, shop.log()


def test_a_replayed_message_waits_for_a_worker_of_the_new_build(shop: Shop) -> None:
    """An old worker that took it would spoil the verdict: the fault is mended only in the new one."""
    drains(shop, OLD)
    generations.check()
    replayed, held = (move_by_hand(send("test.Good", payload).message_id) for payload in ("replayed", "held"))
    DeadLetter.objects.filter(pk=held).update(operator_disposition=2, recovery_status=2)
    drains(shop, NEW)
    assert generations.check() == 1
    step(seconds=5)
    assert InboxMessage.objects.get().only_generation == NEW

    drains(shop, OLD)
    assert shop.starts("test.Good") == []

    drains(shop, NEW)
    step(seconds=5)
    assert shop.effects() == ["replayed"]
    states = dict(DeadLetter.objects.values_list("dead_letter_id", "recovery_status"))
    assert states == {replayed: 3, held: 2}
    assert [item.state for item in RecoveryItem.objects.all()] == ["recovered"]
    assert RecoveryRun.objects.get().state == "finished"
    assert DeadLetter.objects.get(pk=replayed).recovery_attempts == 0
    assert DeadLetter.objects.get(pk=replayed).retried_on_generations == [NEW]


def test_a_replay_that_dies_again_on_the_new_build_is_not_replayed_on_it_once_more(shop: Shop) -> None:
    drains(shop, OLD)
    generations.check()
    move_by_hand(send("test.Cut", "x").message_id)
    drains(shop, NEW)
    generations.check()
    step(seconds=5)

    drains(shop, NEW)
    step(seconds=5)
    letter = DeadLetter.objects.get()
    assert (letter.recovery_status, letter.generation, letter.deaths) == (0, NEW, 2)
    assert [item.state for item in RecoveryItem.objects.all()] == ["failed_differently"]

    drains(shop, NEW)
    assert generations.check() == 0


CHECK = "from deadletters import generations; generations.PAGE_GROUPS = 2; generations.check()"


@pytest.mark.parametrize("point", ["after_register", "after_begin", "after_page"])
def test_a_worker_that_is_killed_while_it_checks_builds_leaves_the_rest_to_the_next(shop: Shop, point: str) -> None:
    drains(shop, OLD)
    generations.check()
    for number in range(5):
        a_letter(
            message_type="test.Good",
            error_fingerprint=f"{number:016}",
            error_fingerprint_version=2,
            generation=OLD,
        )
    counting.fold()
    drains(shop, NEW)

    killed = shop.run("shell", "-c", CHECK, TEST_KILL_AT=point).wait()
    assert killed == -9, shop.log()
    assert shop.run("shell", "-c", CHECK).wait() == 0, shop.log()

    assert RecoveryRun.objects.filter(kind="replay", generation=NEW).count() == 5
    assert generations.check() == 0
