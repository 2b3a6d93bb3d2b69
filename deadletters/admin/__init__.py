"""The dead letters in Django's admin: read by those who may see them, triaged through the same door as on the pages."""

from deadletters.admin import controls, groups, letters, records, recovery

__all__ = ["controls", "groups", "letters", "records", "recovery"]
