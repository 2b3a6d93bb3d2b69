"""Errors of the dead letters: a class for each thing that a caller does differently."""


class DeadLettersError(Exception):
    """Something went wrong with the dead letters."""


class BadFilter(DeadLettersError):
    """A filter cannot be understood; the message says which part and what it may be."""


class BadNote(DeadLettersError):
    """A note cannot be kept; the message says why."""


class BadView(DeadLettersError):
    """A view of the list cannot be kept; the message says why."""


class NoSuchView(DeadLettersError):
    """There is no such saved view, or it is not this person's."""


class NoSuchLetter(DeadLettersError):
    """There is no such dead letter."""


class NoSuchVersion(DeadLettersError):
    """A letter's payload has no such version."""

    def __init__(self, version: int) -> None:
        super().__init__(f"There is no version {version:,}.")


class NoSuchGroup(DeadLettersError):
    """There is no such failure group."""


class NoSuchMessage(DeadLettersError):
    """There is no such message in the queue: it was handled, moved or removed."""


class NoSuchPause(DeadLettersError):
    """There is no such pause: somebody has ended it."""


class NoSuchDestination(DeadLettersError):
    """Nothing was ever wrong with a destination of this name."""


class AlreadyPaused(DeadLettersError):
    """It is paused already; `pause` is the pause in force."""

    def __init__(self, pause: object) -> None:
        super().__init__()
        self.pause = pause


class BadChange(DeadLettersError):
    """A change cannot be made; `field` is the column, `problem` says why without naming it."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field.replace('_', ' ').capitalize()} {problem}.")
        self.field, self.problem = field, problem


class NoSuchRun(DeadLettersError):
    """There is no such recovery run."""


class BadScope(DeadLettersError):
    """A run cannot be asked for this; the message says why."""


class BadPlan(BadChange):
    """A run cannot go on this plan; `field` is its part, `problem` says why."""


class FormTooLong(DeadLettersError):
    """That is too much to be kept."""


class NoSuchForm(DeadLettersError):
    """What was filled in here was sent, or is not kept any more."""


class NotYourForm(DeadLettersError):
    """Somebody else filled this in."""


class BadBuild(DeadLettersError):
    """A build without a name that can be kept was reported."""

    def __init__(self, service: str, problem: str) -> None:
        super().__init__(f"The build that {service} reports {problem}.")
        self.service, self.problem = service, problem


class StaleChange(DeadLettersError):
    """Somebody changed it meanwhile."""
