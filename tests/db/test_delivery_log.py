"""What the delivery log keeps of each source, by its mode."""

import pytest

from deadletters.models import DeadLetter
from deadletters.store.recovery import recover
from queues import Delay, Terminal
from queues.models import DeliveryLogEntry
from queues.words.sources import SHORT_NAMES

pytestmark = pytest.mark.django_db

EVENTS = {
    "off": [],
    "failures": ["delayed", "failure", "terminal"],
    "all": ["delayed", "failure", "success", "terminal"],
}


def logged(source):
    return sorted(DeliveryLogEntry.objects.filter(source=source).values_list("outcome", flat=True))


def by_payload(run):
    if run.payload == "delayed" and run.number == 1:
        raise Delay(3600)
    if run.payload == "terminal":
        raise Terminal("no")
    if run.payload == "failure" and run.number == 1:
        raise ValueError


def mode_of(mode, source):
    """Return a setting that gives the source this mode, and the others another one."""
    others = "all" if mode == "off" else "off"
    return dict.fromkeys(SHORT_NAMES.values(), others) | {SHORT_NAMES[source]: mode}


@pytest.mark.parametrize("each_its_own", [False, True])
@pytest.mark.parametrize("mode", EVENTS)
def test_each_mode_keeps_its_events(work, configure, mode, each_its_own):
    configure(DELIVERY_LOG=mode_of(mode, work.source) if each_its_own else mode)
    work.does = by_payload
    for payload in ("delayed", "failure", "terminal", "success"):
        work.put(payload)
    work.drain_for(1)
    first_runs = logged(work.source)
    work.drain_for(1)

    assert first_runs == EVENTS[mode]
    successes = ["success"] * 2 if mode == "all" else []
    assert logged(work.source) == sorted([*EVENTS[mode], *successes])


@pytest.mark.parametrize("mode", EVENTS)
def test_a_message_under_recovery_is_logged_in_every_mode(work, configure, mode):
    configure(DELIVERY_LOG=mode, MAX_ATTEMPTS=1)

    def fail_in_the_first_life(run):
        if run.number == 1:
            raise ValueError

    work.does = fail_in_the_first_life
    work.put()
    work.drain_for(1)
    recover(DeadLetter.objects.get().pk, actor="olga")
    work.drain_for(1)

    entries = DeliveryLogEntry.objects.filter(source=work.source).order_by("id")
    assert list(entries.values_list("life", "outcome"))[-1] == (2, "success")
    assert len(entries) == (1 if mode == "off" else 2)


@pytest.mark.parametrize(
    ("mode", "events"), [("off", []), ("failures", ["worker_lost"]), ("all", ["success", "worker_lost"])]
)
def test_a_lost_run_is_logged_unless_the_log_is_off(work, configure, mode, events):
    configure(DELIVERY_LOG=mode)
    work.put()
    work.start_and_vanish()
    work.drain_for(1)

    assert work.rows() == []
    assert logged(work.source) == events


def test_a_lost_run_under_recovery_is_logged_also_when_the_log_is_off(work, configure):
    configure(DELIVERY_LOG="off", MAX_ATTEMPTS=2)

    def terminal_at_first(run):
        if run.number == 1:
            raise Terminal("no")

    work.does = terminal_at_first
    work.put()
    work.drain_for(1)
    recover(DeadLetter.objects.get().pk, actor="olga")
    work.start_and_vanish()
    work.drain_for(1)

    assert logged(work.source) == ["success", "worker_lost"]
