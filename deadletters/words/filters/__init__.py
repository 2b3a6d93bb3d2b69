"""The filters of the lists: read from a query string, said back in words and as a query string."""

from deadletters.words.filters.actions import TARGETS, ActionFilter
from deadletters.words.filters.cursors import CountCursor, Cursor, NumberedCursor, PlaceCursor, StreamCursor
from deadletters.words.filters.groups import GROUP_SORTS, GROUP_STATES, GROUPED_BY, TALLY_SORTS, GroupFilter
from deadletters.words.filters.letters import (
    AGAIN,
    CAUSES,
    DISPOSITIONS,
    OTHER_SOURCES,
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
from deadletters.words.filters.runs import ITEM_STATES, RUN_KINDS, RUN_STATES, ItemFilter, RunFilter
from deadletters.words.filters.subjects import SubjectFilter
from deadletters.words.filters.tokens import MAX_SEARCH, read_search, write_search

__all__ = [
    "AGAIN",
    "CAUSES",
    "DISPOSITIONS",
    "GROUPED_BY",
    "GROUP_SORTS",
    "GROUP_STATES",
    "ITEM_STATES",
    "LIVE_STATES",
    "MAX_SEARCH",
    "MAX_TEXT",
    "NOBODY",
    "OTHER_SOURCES",
    "RUN_KINDS",
    "RUN_STATES",
    "SIZES",
    "SOURCES",
    "STATUSES",
    "TALLY_SORTS",
    "TARGETS",
    "ActionFilter",
    "CountCursor",
    "Cursor",
    "GroupFilter",
    "InboxFilter",
    "ItemFilter",
    "LetterFilter",
    "LiveFilter",
    "NumberedCursor",
    "OutboxFilter",
    "PerspectiveFilter",
    "PlaceCursor",
    "RunFilter",
    "StreamCursor",
    "StreamFilter",
    "SubjectFilter",
    "read_search",
    "reason_name",
    "write_search",
]
