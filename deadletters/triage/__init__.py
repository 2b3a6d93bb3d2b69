"""What people do to dead letters, their groups, live messages and queues: one door for pages, admin and commands.

Each call checks the permission, changes the row and writes one operator action, in one transaction.
"""

from deadletters.triage.changes import Changed
from deadletters.triage.edits import edit, restore
from deadletters.triage.groups import change_group
from deadletters.triage.letters import Recovery, change_letter, recover
from deadletters.triage.live import Moved, dead_letter, let_stream_go, run_now, stop
from deadletters.triage.many import Done, Order, triage_many
from deadletters.triage.notes import MAX_NOTE, add_note
from deadletters.triage.pauses import change_pause, check_pause, pause, resume, try_destination
from deadletters.triage.purges import Purge, purge
from deadletters.triage.reveals import Revealed, reveal, revealed

__all__ = [
    "MAX_NOTE",
    "Changed",
    "Done",
    "Moved",
    "Order",
    "Purge",
    "Recovery",
    "Revealed",
    "add_note",
    "change_group",
    "change_letter",
    "change_pause",
    "check_pause",
    "dead_letter",
    "edit",
    "let_stream_go",
    "pause",
    "purge",
    "recover",
    "restore",
    "resume",
    "reveal",
    "revealed",
    "run_now",
    "stop",
    "triage_many",
    "try_destination",
]
