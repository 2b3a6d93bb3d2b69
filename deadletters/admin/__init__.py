"""The dead letters in Django's admin, to read; what changes them is done on their pages."""

from deadletters.admin import letters, records

__all__ = ["letters", "records"]
