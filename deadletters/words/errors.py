"""Errors of the dead letters: a class for each thing that a caller does differently."""


class DeadLettersError(Exception):
    """Something went wrong with the dead letters."""


class BadFilter(DeadLettersError):
    """A filter cannot be understood; the message says which part and what it may be."""


class BadNote(DeadLettersError):
    """A note cannot be kept; the message says why."""


class NoSuchLetter(DeadLettersError):
    """There is no such dead letter."""
