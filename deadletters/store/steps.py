"""Wake-ups of what steps the recovery runs, and of the schedule."""

from queues import wakeups
from queues.wakeups import Wakeup

STEP = Wakeup(task="deadletters.step_runs", queue="recovery")
SCHEDULE = Wakeup(task="deadletters.recover_due", queue="recovery")


def wake() -> None:
    """Have the open runs stepped when the present transaction commits: an answer came, or a person acted."""
    wakeups.wake_up(STEP)


def wake_schedule() -> None:
    """Have the schedule look at what is due, and go on with its passes, when the present transaction commits."""
    wakeups.wake_up(SCHEDULE)
