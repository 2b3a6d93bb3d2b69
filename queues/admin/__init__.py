"""The tables of the queues in Django's admin, to read."""

from queues.admin import records, work

__all__ = ["records", "work"]
