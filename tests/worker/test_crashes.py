"""Drainers that die, stop, or lose their connection: nothing is lost, nothing counts twice, only the guilty pay."""

import json
import re
import signal
from pathlib import Path

import pytest
from django.db import connection

from deadletters.models import DeadLetter, DeadLetterDeath
from queues import NewMessage, send, send_many
from queues.models import DeliveryLogEntry, InboxMessage
from queues.words.outcomes import Cause
from tests.worker.conftest import eventually
from tests.worker.shop.faults import VICTIM

GOOD = [f"{n:02}" for n in range(20)]


def send_good():
    send_many([NewMessage(type="test.Good", payload=n) for n in GOOD])


def test_a_drainer_killed_in_a_handler_loses_nothing_and_charges_only_that_message(shop):
    send_good()
    killer = send("test.Kill", "killer").message_id
    send_many([NewMessage(type="test.Good", payload=f"after-{n}") for n in range(5)])

    codes = shop.drain_to_the_end()

    assert codes == [-signal.SIGKILL] * 3 + [0]
    assert len(shop.starts("test.Kill")) == 3
    assert shop.effects() == sorted([*GOOD, *(f"after-{n}" for n in range(5))])
    letter = DeadLetter.objects.get()
    assert (letter.source_id, letter.cause, letter.attempts_when_dlq) == (killer, Cause.WORKER_LOST, 3)
    charged = DeliveryLogEntry.objects.exclude(outcome="released").order_by("id")
    assert list(charged.values_list("message_id", "outcome", "attempt")) == [
        (killer, "worker_lost", n) for n in (1, 2, 3)
    ]
    assert not InboxMessage.objects.exists()


def test_a_killer_with_cap_one_starts_once(shop):
    send_good()
    send("test.Kill", "killer", max_attempts=1)

    shop.drain_to_the_end()

    assert len(shop.starts("test.Kill")) == 1
    assert DeadLetter.objects.get().attempts_when_dlq == 1
    assert shop.effects() == GOOD


def test_a_killer_whose_run_file_is_lost_still_starts_no_more_than_its_budget(shop):
    """As if the host were gone: only the lapse of its leases tells."""
    send_good()
    send("test.Kill", "killer")
    for _ in range(6):
        shop.drainer().wait(60)
        for path in (shop.folder / "run").glob("*.run"):
            path.unlink()
        with connection.cursor() as cursor:
            cursor.execute("UPDATE wh_inbox SET lease_expiry = now() - interval '1 s' WHERE lease_token IS NOT NULL")

    letter = DeadLetter.objects.get()
    assert letter.cause == Cause.WORKER_LOST
    assert len(shop.starts("test.Kill")) == letter.attempts_when_dlq == 3
    assert shop.effects() == GOOD


def test_a_message_of_a_stream_that_kills_holds_only_its_stream(shop):
    send_many(
        [
            NewMessage(type="test.Kill", payload="killer", stream="s"),
            NewMessage(type="test.Good", payload="behind", stream="s"),
        ]
    )
    send_good()

    shop.drain_to_the_end()

    assert len(shop.starts("test.Kill")) == 3
    assert shop.effects() == sorted([*GOOD, "behind"])


def test_a_handler_past_its_time_limit_ends_its_process_and_is_worker_lost(shop):
    send("test.Hang", "hang")
    send_good()

    codes = shop.drain_to_the_end()

    assert codes == [-signal.SIGKILL, 0]
    assert DeadLetter.objects.get().cause == Cause.WORKER_LOST
    assert shop.starts("test.Hang") == ["hang"]
    assert shop.effects() == GOOD


def test_a_handler_stuck_in_code_that_lets_no_thread_run_ends_its_process_too(shop):
    send("test.Stuck", "stuck")
    send_good()

    codes = shop.drain_to_the_end(TEST_QUEUES=json.dumps({"TIME_LIMIT_SECONDS": 0.5}))

    assert codes == [1, 0]
    assert DeadLetter.objects.get().cause == Cause.WORKER_LOST
    assert shop.starts("test.Stuck") == ["stuck"]
    assert shop.effects() == GOOD
    assert "in stuck" in shop.log(0), "where it was stuck is said"


def test_a_handler_that_asks_for_too_much_memory_fails_and_takes_nobody_with_it(shop):
    send("test.Hungry", "hungry")
    send_good()

    assert shop.drain_to_the_end() == [0]

    letter = DeadLetter.objects.get()
    assert (letter.cause, letter.attempts_when_dlq) == (Cause.BUDGET_SPENT, 3)
    assert len(shop.starts("test.Hungry")) == 3
    assert shop.effects() == GOOD


def test_a_lost_last_run_keeps_the_failure_that_was_reported_before_it(shop):
    send("test.FailKill", "fails")

    codes = shop.drain_to_the_end()

    assert codes == [-signal.SIGKILL, 0]
    letter = DeadLetter.objects.get()
    assert (letter.cause, letter.attempts_when_dlq) == (Cause.WORKER_LOST, 2)
    assert letter.error_text.startswith("exceeded retry limit")
    assert "the reported failure" in DeadLetterDeath.objects.get().last_reported_error
    logged = DeliveryLogEntry.objects.order_by("id").values_list("outcome", "attempt")
    assert list(logged) == [("failure", 1), ("worker_lost", 2)]


def test_of_one_done_one_rejected_and_one_held_at_the_crash_only_the_last_is_handed_out_again(shop):
    send("test.Good", "done")
    send("test.Terminal", "rejected")
    send("test.Good", VICTIM)

    codes = shop.drain_to_the_end(TEST_KILL_AT="in_handler")

    assert codes == [-signal.SIGKILL, 0]
    assert shop.effects() == ["done", VICTIM]
    assert shop.starts("test.Good").count(VICTIM) == 2
    assert DeadLetter.objects.get().cause == Cause.TERMINAL
    assert not InboxMessage.objects.exists()


def test_a_stopped_drainer_that_wakes_after_its_lease_leaves_no_effect(shop):
    send("test.Gate", "gate")
    first = shop.drainer()
    eventually(lambda: shop.starts("test.Gate"), "the first start")
    first.send_signal(signal.SIGSTOP)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE wh_inbox SET lease_expiry = now() - interval '1 s'")
    shop.gate.touch()

    assert shop.drainer().wait(60) == 0
    assert shop.effects() == ["gate"]
    first.send_signal(signal.SIGCONT)

    assert first.wait(60) == 0
    assert shop.effects() == ["gate"]
    assert not DeadLetter.objects.exists()


def test_a_handler_that_kills_its_connection_is_charged_and_its_neighbours_are_not(shop):
    send_good()
    cutter = send("test.Cut", "cut").message_id

    shop.drain_to_the_end()

    assert len(shop.starts("test.Cut")) == 2
    letter = DeadLetter.objects.get()
    assert (letter.source_id, letter.cause, letter.attempts_when_dlq) == (cutter, Cause.BUDGET_SPENT, 2)
    assert "terminating connection" in letter.error_text
    assert shop.effects() == GOOD


def test_a_drainer_asked_to_end_finishes_its_message_and_gives_the_rest_back(shop):
    send("test.Gate", "gate")
    send_good()
    process = shop.drainer()
    eventually(lambda: shop.starts("test.Gate"), "the start")
    process.send_signal(signal.SIGTERM)
    shop.gate.touch()

    assert process.wait(60) == 0
    assert shop.effects() == ["gate"]
    waiting = InboxMessage.objects.filter(message_type="test.Good", attempts=0, lease_token=None)
    assert waiting.count() == len(GOOD)


def test_a_drainer_asked_twice_ends_at_once_and_what_it_held_is_given_back(shop):
    gate = send("test.Gate", "gate").message_id
    send_good()
    process = shop.drainer()
    eventually(lambda: shop.starts("test.Gate"), "the start")
    process.send_signal(signal.SIGTERM)
    eventually(lambda: not catches(process.pid, signal.SIGTERM), "the first signal is seen")
    process.send_signal(signal.SIGTERM)

    assert process.wait() == -signal.SIGTERM
    shop.gate.touch()
    assert shop.drain_to_the_end() == [0]
    assert shop.effects() == [*GOOD, "gate"]
    charged = DeliveryLogEntry.objects.exclude(outcome="released").values_list("message_id", "outcome")
    assert list(charged) == [(gate, "worker_lost")]


def catches(process_id, number):
    """Say whether the process has a handler of the signal."""
    status = Path(f"/proc/{process_id}/status").read_text()
    caught = int(re.search(r"^SigCgt:\s*(\w+)$", status, re.MULTILINE)[1], 16)
    return bool(caught >> (number - 1) & 1)


def test_a_drainer_says_in_the_end_what_it_did(shop):
    send_good()
    send("test.Terminal", "rejected")

    assert shop.drain_to_the_end() == [0]

    assert f"inbox: {len(GOOD) + 1} messages (success {len(GOOD)}, terminal 1)" in shop.log()


def test_a_handler_outside_transactions_runs_alone_and_once(shop):
    send("test.Plain", "plain")

    assert shop.drain_to_the_end() == [0]
    assert shop.effects() == ["plain"]
    assert not InboxMessage.objects.exists()


@pytest.mark.parametrize("drainers", [2, 3])
def test_drainers_in_processes_of_their_own_leave_each_effect_once(shop, drainers):
    payloads = [f"{n:03}" for n in range(400)]
    send_many(
        [NewMessage(type="test.Good", payload=n, stream=f"s{int(n) % 7}" if int(n) % 2 else None) for n in payloads]
    )

    processes = [shop.drainer() for _ in range(drainers)]

    assert [process.wait(60) for process in processes] == [0] * drainers
    shop.drain_to_the_end()
    assert shop.effects() == payloads
