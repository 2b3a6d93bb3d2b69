"""What the tests of recovery runs share: letters of one type, a handler that can be mended, a run taken to its end."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from deadletters.models import DeadLetter, RecoveryRun, RunState
from deadletters.queries import runs as reading
from deadletters.recovery import runs
from deadletters.recovery.stepping import step
from deadletters.words.filters import LetterFilter
from deadletters.words.plans import Plan
from deadletters.words.scopes import Matching, Scope
from queues.drainer import drain
from queues.words.handlers import handles
from tests.db.conftest import send_numbers

EVERYTHING = Matching(filters=LetterFilter(type="test.N"))
AT_ONCE = Plan(canary=0, ramp=0, stop_failures=None)


class Shop:
    """A handler of test.N that fails for some payloads, at first for all; it notes what it ran."""

    def __init__(self, **options: Any) -> None:
        self.fails: Callable[[Any], bool] = lambda payload: True
        self.error: type[Exception] = ValueError
        self.ran: list[Any] = []
        handles("test.N", max_attempts=1, **options)(self.handle)

    def handle(self, message: Any) -> None:
        self.ran.append(message.payload)
        if self.fails(message.payload):
            raise self.error("no such order")

    def mend(self, *but: Any) -> None:
        """Let the handler succeed from now on, but for some payloads; forget what it ran."""
        self.fails = lambda payload: payload in but
        self.ran.clear()


def work() -> None:
    drain("wh_inbox", seconds=None)


def dead(count: int, stream: str | None = None) -> None:
    """Let so many messages die."""
    before = DeadLetter.objects.count()
    send_numbers(count, stream)
    work()
    assert DeadLetter.objects.count() == before + count


def begun(user: Any, scope: Scope = EVERYTHING, plan: Plan = AT_ONCE) -> UUID:
    """Prepare and start a run."""
    run_id = runs.prepare(user=user, scope=scope)
    step(5)
    runs.start(user=user, run_id=run_id, plan=plan, count=reading.to_send(run_id))
    return run_id


def sent(user: Any, plan: Plan = AT_ONCE) -> UUID:
    """Begin a run and let it send what it may."""
    run_id = begun(user, plan=plan)
    step(5)
    return run_id


def to_the_end(run_id: UUID) -> RecoveryRun:
    """Step and drain in turn until the run has ended and everything is answered."""
    for _ in range(100):
        step(5)
        work()
        run = reading.get(run_id)
        if run.state in (RunState.FINISHED, RunState.STOPPED) and not reading.totals(run_id)["sent"]:
            return run
    raise AssertionError("the run does not end")


def totals(run_id: UUID) -> dict[str, int]:
    """Return the run's letters by state, without the states of none."""
    return {state: count for state, count in reading.totals(run_id).items() if count}
