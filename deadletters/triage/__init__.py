"""What people do to dead letters and their groups: one door for pages, admin and commands.

Each call checks the permission, changes the row and writes one operator action, in one transaction.
"""

from deadletters.triage.changes import Changed
from deadletters.triage.groups import change_group
from deadletters.triage.letters import Recovery, change_letter, recover
from deadletters.triage.notes import MAX_NOTE, add_note

__all__ = ["MAX_NOTE", "Changed", "Recovery", "add_note", "change_group", "change_letter", "recover"]
