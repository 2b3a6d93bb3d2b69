"""The filters of the lists: read from a query string, said back in words and as a query string."""

from deadletters.words.filters.cursors import CountCursor, Cursor, DueCursor, StreamCursor
from deadletters.words.filters.groups import GROUP_SORTS, GROUP_STATES, GroupFilter
from deadletters.words.filters.letters import (
    CAUSES,
    DISPOSITIONS,
    SOURCES,
    STATUSES,
    LetterFilter,
    reason_name,
)
from deadletters.words.filters.listfilter import MAX_TEXT, NOBODY, SIZES
from deadletters.words.filters.live import (
    LIVE_STATES,
    InboxFilter,
    LiveFilter,
    OutboxFilter,
    PerspectiveFilter,
    StreamFilter,
)
from deadletters.words.filters.subjects import SubjectFilter

__all__ = [
    "CAUSES",
    "DISPOSITIONS",
    "GROUP_SORTS",
    "GROUP_STATES",
    "LIVE_STATES",
    "MAX_TEXT",
    "NOBODY",
    "SIZES",
    "SOURCES",
    "STATUSES",
    "CountCursor",
    "Cursor",
    "DueCursor",
    "GroupFilter",
    "InboxFilter",
    "LetterFilter",
    "LiveFilter",
    "OutboxFilter",
    "PerspectiveFilter",
    "StreamCursor",
    "StreamFilter",
    "SubjectFilter",
    "reason_name",
]
