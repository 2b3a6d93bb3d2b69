"""What people do to dead letters, their groups, live messages and queues: one door for pages, admin and commands.

Each call checks the permission, changes the row and writes one operator action, in one transaction.
"""

from deadletters.triage.changes import Changed
from deadletters.triage.groups import change_group
from deadletters.triage.letters import Recovery, change_letter, recover
from deadletters.triage.live import Moved, dead_letter, let_stream_go, run_now, stop
from deadletters.triage.notes import MAX_NOTE, add_note
from deadletters.triage.pauses import change_pause, check_pause, pause, resume, try_destination

__all__ = [
    "MAX_NOTE",
    "Changed",
    "Moved",
    "Recovery",
    "add_note",
    "change_group",
    "change_letter",
    "change_pause",
    "check_pause",
    "dead_letter",
    "let_stream_go",
    "pause",
    "recover",
    "resume",
    "run_now",
    "stop",
    "try_destination",
]
