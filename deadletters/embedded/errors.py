"""Errors of the embedded services."""


class CannotStart(Exception):
    """Something cannot start; the text is the sentence that the person at the terminal reads."""
