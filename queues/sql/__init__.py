"""SQL files, as operations of migrations.

A file is never edited once released: a change is a new file with the next version in its name.
"""

from collections.abc import Mapping
from pathlib import Path

from django.db.migrations import RunSQL

HERE = Path(__file__).parent

_PLANNED_EACH_TIME = " SET plan_cache_mode = force_custom_plan SET enable_seqscan = off SET jit = off"
"""Of functions on the way of every message. A session keeps its plans: one made while a table was empty would read all
of it once two million rows wait. Statistics may say the same for minutes, so that in these functions no index but the
right one fits: rows are named by arrays of keys, lanes by whole ranges, and other indexes have conditions that are
never said here. No scan of a table is right either, though an index that was once large seems dearer than one."""

_MESSAGES = {
    "id": "message_id",
    "type": "w.message_type",
    "bytes": "coalesce(w.envelope_bytes, pg_column_size(w.event_data))",
    "in_queue": "",
    "has_free": "true",
    "planned": _PLANNED_EACH_TIME,
}
WORK_TABLES: Mapping[str, Mapping[str, str]] = {
    "wh_inbox": {
        "work": "wh_inbox",
        "queue": "'wh_inbox'",
        "lane": "w.message_type",
        "lanes": "the message type",
        **_MESSAGES,
    },
    "wh_outbox": {
        "work": "wh_outbox",
        "queue": "'wh_outbox'",
        "lane": "coalesce(w.destination, '')",
        "lanes": "the destination",
        **_MESSAGES,
    },
    "wh_perspective_events": {
        "work": "wh_perspective_events",
        "queue": "'wh_perspective_events:' || w.perspective_name",
        "in_queue": " AND w.perspective_name = substr(p_queue, length('wh_perspective_events:') + 1)",
        "lane": "w.perspective_name",
        "lanes": "the perspective",
        "has_free": "false",
        "planned": _PLANNED_EACH_TIME,
        "id": "event_work_id",
        "type": "w.perspective_name",
        "bytes": "coalesce(w.envelope_bytes, 0)",
    },
}
"""How the work tables differ, as the files' `{{key}}` placeholders.

`id` is the column of the work's id; `type` picks the handler, `bytes` is the size of the body and `queue` the
name in `wh_streams`, all of a row `w`; `in_queue` tells the rows of the queue `p_queue` from others. `lane` is what
can be stopped and has its fair share; `has_free` says whether there are rows without a stream.
"""


def run(name: str, reverse: str, *, folder: Path = HERE, names: Mapping[str, str] | None = None) -> RunSQL:
    """Return the operation that runs `<folder>/<name>.sql`; `{{key}}` in it and in `reverse` becomes `names[key]`."""
    text = (folder / f"{name}.sql").read_text(encoding="utf-8")
    return RunSQL(filled(text, names or {}), reverse_sql=filled(reverse, names or {}))


def filled(text: str, names: Mapping[str, str]) -> str:
    """Return the text with its `{{key}}` placeholders filled."""
    for key, value in names.items():
        text = text.replace("{{" + key + "}}", value)
    return text
