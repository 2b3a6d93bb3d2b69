"""What a stepper does with runs: what it collects, how fast it sends, and what keeps it from none of them."""

from uuid import uuid4

import pytest

from deadletters.models import (
    DeadLetter,
    FailureGroup,
    GroupFingerprint,
    RecoveryItem,
    RecoveryRun,
    RunKind,
    RunState,
)
from deadletters.queries import runs as reading
from deadletters.recovery import freezing, runs, standings, stepping
from deadletters.recovery.standings import Counts
from deadletters.recovery.stepping import step
from deadletters.store.audit import Actor
from deadletters.store.recovery import Sent
from deadletters.triage import recover
from deadletters.words.filters import LetterFilter
from deadletters.words.plans import Plan
from deadletters.words.scopes import Letters, Matching
from tests.db.runs import AT_ONCE, EVERYTHING, begun, dead, sent, to_the_end, totals

pytestmark = pytest.mark.django_db(transaction=True)


def test_the_machine_needs_nobody_to_start_its_runs(shop):
    dead(2)
    shop.mend()
    letters = list(DeadLetter.objects.values_list("pk", flat=True))
    run_id = runs.begin(kind=RunKind.SCHEDULE, scope=Letters(ids=letters), plan=AT_ONCE, by=Actor(name="schedule"))

    to_the_end(run_id)

    assert totals(run_id) == {"recovered": 2}
    assert set(DeadLetter.objects.values_list("recovery_attempts", flat=True)) == {1}


def test_the_rate_bounds_what_is_sent(shop, olga):
    dead(5)
    run_id = begun(olga, plan=Plan(canary=0, rate=0.001))
    for _ in range(5):
        step(5)

    assert reading.totals(run_id)["sent"] == 1
    RecoveryRun.objects.filter(pk=run_id).update(rate_refilled_at="2000-01-01T00:00Z", rate_tokens=0)
    step(5)
    assert reading.totals(run_id)["sent"] == 2


def test_letters_of_a_filter_beyond_the_newest_are_not_left_out(shop, olga, monkeypatch):
    dead(8)
    monkeypatch.setattr("deadletters.queries.letters.SEARCHED", 3)
    run_id = runs.prepare(user=olga, scope=Matching(filters=LetterFilter(cause="budget_spent")))
    assert reading.get(run_id).frozen_count == 8


def test_a_single_recovery_and_a_run_send_a_message_once(shop, olga):
    dead(1)
    shop.mend()
    run_id = sent(olga)
    again = recover(dead_letter_id=DeadLetter.objects.get().pk, user=olga)

    assert again.sent is Sent.RECOVERING
    assert again.by == "olga"
    to_the_end(run_id)
    assert shop.ran == [0]


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("scope", {"everything": True}, "its scope is not understood: This is no scope of a run."),
        ("scope", {"letters": ["no id"]}, "its scope is not understood: This is no scope of a run: an id is none."),
        ("scope", {"filter": {"colour": "red"}}, "its scope is not understood: There is no filter “colour”"),
        ("plan", {"canary": "five"}, "stopped: its plan is not understood: Canary must be a whole number."),
    ],
)
def test_a_run_that_nobody_understands_ends_and_says_why(shop, olga, column, value, said):
    dead(1)
    run_id = begun(olga)
    state = RunState.FREEZING if column == "scope" else RunState.RUNNING
    RecoveryRun.objects.filter(pk=run_id).update(**{column: value, "state": state})

    step(5)

    run = reading.get(run_id)
    assert run.state == RunState.STOPPED
    assert run.stop_reason.startswith(said)


def test_a_run_that_cannot_be_stepped_does_not_keep_the_others(shop, olga, monkeypatch):
    dead(1)
    broken, other = [runs.prepare(user=olga, scope=EVERYTHING) for _ in range(2)]
    for run_id in (broken, other):
        runs.start(user=olga, run_id=run_id, plan=AT_ONCE)
    go_on = stepping._go_on

    def fail(run, plan, counts):
        if run.run_id == broken:
            raise RuntimeError("not today")
        return go_on(run, plan, counts)

    monkeypatch.setattr(stepping, "_go_on", fail)
    step(5)
    assert totals(other) == {"sent": 1}
    assert reading.get(broken).state == RunState.RUNNING
    monkeypatch.undo()
    shop.mend()

    to_the_end(other)
    to_the_end(broken)
    assert totals(broken) == {"skipped": 1}


def test_a_scope_that_takes_too_long_to_collect_ends_the_run(shop, olga, monkeypatch):
    dead(1)
    monkeypatch.setattr(freezing, "FREEZE_SECONDS", 0.05)
    slow = freezing._FREEZE.replace("WITH letters", "WITH slow AS (SELECT pg_sleep(20)), letters", 1)
    monkeypatch.setattr(freezing, "_FREEZE", slow.replace("FROM placed l", "FROM slow, placed l"))
    run_id = runs.prepare(user=olga, scope=EVERYTHING)

    assert reading.get(run_id).stop_reason == "its letters were not found within 0.05 s"
    assert not RecoveryItem.objects.exists()


def test_more_letters_than_a_run_may_have_are_refused_whole(shop, olga, monkeypatch):
    dead(3)
    monkeypatch.setattr(freezing, "MAX_ITEMS", 2)
    run_id = runs.prepare(user=olga, scope=EVERYTHING)

    assert reading.get(run_id).stop_reason == "more than 2 letters match: narrow it down"
    assert not RecoveryItem.objects.exists()


def test_a_group_of_several_fingerprints_is_one_run_in_the_order_of_its_streams(shop, olga):
    dead(4, stream="order-7")
    group = FailureGroup.objects.create(group_id=uuid4())
    for n, letter in enumerate(DeadLetter.objects.all()):
        DeadLetter.objects.filter(pk=letter.pk).update(error_fingerprint=f"{n % 2:016}")
    for n in range(2):
        GroupFingerprint.objects.create(fingerprint=f"{n:016}", version=2, group=group)

    run_id = runs.prepare(user=olga, scope=Matching(filters=LetterFilter(group=str(group.pk))))

    items = RecoveryItem.objects.filter(run=run_id).order_by("place")
    assert [(item.place, item.is_next) for item in items] == [(1, True), (2, False), (3, False), (4, False)]


def test_a_run_is_not_counted_for_each_batch_that_it_sends(shop, olga, monkeypatch):
    dead(12)
    begun(olga)
    monkeypatch.setattr(stepping, "STEP_ITEMS", 2)
    monkeypatch.setattr(standings, "FRESH_SECONDS", 1000)
    counted = []
    count = Counts.count
    monkeypatch.setattr(Counts, "count", lambda counts, run: counted.append(1) or count(counts, run))

    step(60)

    assert RecoveryItem.objects.filter(state="sent").count() == 12
    assert len(counted) == 2


def test_what_another_stepper_sent_is_counted_before_more_is_sent(shop, olga, monkeypatch):
    dead(6)
    run_id = begun(olga, plan=Plan(canary=0, in_flight=4))
    monkeypatch.setattr(stepping, "STEP_ITEMS", 2)
    monkeypatch.setattr(standings, "FRESH_SECONDS", 1000)
    mine, others = Counts(), Counts()

    for counts in (mine, mine, others, mine, others):
        stepping._step_next(set(), counts)

    assert totals(run_id) == {"sent": 4, "waiting": 2}
