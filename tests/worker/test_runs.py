"""Recovery runs whose steppers and drainers are killed: whoever comes next goes on, and every letter has its end."""

import json
import signal
from collections.abc import Sequence
from uuid import UUID

import pytest

from deadletters.models import DeadLetter, RecoveryItem, RunState
from deadletters.queries import runs as reading
from deadletters.recovery import runs
from deadletters.words.filters import LetterFilter
from deadletters.words.plans import Plan
from deadletters.words.scopes import Matching
from queues import NewMessage, send_many
from queues.models import InboxMessage
from tests.db.conftest import move_by_hand
from tests.db.runs import totals
from tests.factories import a_user
from tests.worker.conftest import Shop

pytestmark = pytest.mark.django_db(transaction=True)

GOOD = 12
SAME_BUILD = json.dumps({"GENERATION": "build-1"})
"""On another one than that of their deaths the letters would be replayed, too."""
PLAN = Plan(canary=2, ramp=0, in_flight=5, stop_failures=None)


def letters_of(shop: Shop, message_type: str, count: int) -> None:
    """Let so many messages be dead, two streams among them."""
    streams = [f"s{n % 2}" if n < count // 2 else None for n in range(count)]
    new = [NewMessage(type=message_type, payload=str(n), stream=stream) for n, stream in enumerate(streams)]
    for receipt in send_many(new):
        assert move_by_hand(receipt.message_id) is not None


def begin(plan: Plan) -> UUID:
    """Start a run over all letters, and leave its freezing to a stepper."""
    olga = a_user("olga", "Operators")
    run_id = runs.prepare(user=olga, scope=Matching(filters=LetterFilter()))
    runs.start(user=olga, run_id=run_id, plan=plan, count=reading.to_send(run_id))
    return run_id


def to_the_end(shop: Shop, run_id: UUID, **faults: str) -> Sequence[int]:
    """Step and drain in processes of their own until the run has ended; return the exit codes of those that died."""
    codes = []
    faults["TEST_QUEUES"] = SAME_BUILD
    for _ in range(40):
        codes += [shop.run("dead_letters", "tick", **faults).wait(), shop.drainer(**faults).wait()]
        is_over = reading.get(run_id).state in (RunState.FINISHED, RunState.STOPPED)
        if is_over and not reading.totals(run_id)["sent"] and not InboxMessage.objects.exists():
            return [code for code in codes if code]
    raise AssertionError(f"the run does not end: {totals(run_id)}, {shop.log()}")


@pytest.mark.parametrize("point", ["before_send", "after_send", "after_step", "before_settle", "after_settle"])
def test_a_run_goes_on_where_its_stepper_or_drainer_was_killed(shop: Shop, point: str) -> None:
    letters_of(shop, "test.Good", GOOD)
    run_id = begin(PLAN)

    assert to_the_end(shop, run_id, TEST_KILL_AT=point) == [-signal.SIGKILL]

    assert totals(run_id) == {"recovered": GOOD}
    assert sorted(shop.effects(), key=int) == [str(n) for n in range(GOOD)]
    assert DeadLetter.objects.filter(recovery_status=3, recoveries_total=1).count() == GOOD


@pytest.mark.parametrize("point", ["before_skip", "after_skip", "after_move"])
def test_a_run_that_stops_itself_is_stopped_whoever_is_killed(shop: Shop, point: str) -> None:
    letters_of(shop, "test.Terminal", GOOD)
    run_id = begin(Plan(canary=2))

    assert to_the_end(shop, run_id, TEST_KILL_AT=point) == [-signal.SIGKILL]

    found = totals(run_id)
    assert found == {"failed_differently": 2, "skipped": GOOD - 2}
    assert reading.get(run_id).stop_reason == "stopped itself: 2 of 2 canaries were failures"


def test_letters_are_collected_once_though_the_collector_is_killed(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    letters_of(shop, "test.Good", 4)
    monkeypatch.setattr(runs, "_is_small", lambda scope: False)
    run_id = runs.prepare(user=a_user("olga", "Operators"), scope=Matching(filters=LetterFilter()))

    codes = [
        shop.run("dead_letters", "tick", TEST_QUEUES=SAME_BUILD, TEST_KILL_AT="after_freeze").wait() for _ in range(2)
    ]

    assert codes == [-signal.SIGKILL, 0]
    assert reading.get(run_id).state == RunState.READY
    assert RecoveryItem.objects.filter(run=run_id).count() == 4
