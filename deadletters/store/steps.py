"""Wake-ups of what steps the recovery runs."""

from queues import wakeups
from queues.wakeups import Wakeup

STEP = Wakeup(task="deadletters.step_runs", queue="recovery")


def wake() -> None:
    """Have the open runs stepped when the present transaction commits: an answer came, or a person acted."""
    wakeups.wake_up(STEP)
