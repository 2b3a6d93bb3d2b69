"""Who may reach each URL of the pages, with which methods, and what answers there: the one table of it.

What a test expects is worked out from this table and from the permissions of the groups, never from what was seen.
"""

from dataclasses import dataclass
from typing import Literal

from deadletters.words import access

Kind = Literal["page", "fragment", "file", "action"]
"""A fragment is a part of a page for htmx; a browser that asks for one is sent to the page."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A URL: the permissions of which it needs one, the methods that it answers and what it is."""

    permissions: tuple[str, ...]
    methods: tuple[str, ...]
    kind: Kind


def page(permission: str = access.VIEW) -> Entry:
    return Entry(permissions=(permission,), methods=("get", "head"), kind="page")


def form(permission: str) -> Entry:
    """Return an entry for a page whose form is sent to itself."""
    return Entry(permissions=(permission,), methods=("get", "head", "post"), kind="page")


def fragment() -> Entry:
    return Entry(permissions=(access.VIEW,), methods=("get", "head"), kind="fragment")


def file(permission: str = access.VIEW) -> Entry:
    return Entry(permissions=(permission,), methods=("get", "head"), kind="file")


def action(*permissions: str) -> Entry:
    return Entry(permissions=permissions, methods=("post",), kind="action")


def sent_whole(permission: str) -> Entry:
    """Return an entry for an action whose form is never sent by htmx, and which answers with a page."""
    return Entry(permissions=(permission,), methods=("post",), kind="page")


TABLE = {
    "overview": page(),
    "region": page(),
    "letters": page(),
    "newer": fragment(),
    "count_letters": fragment(),
    "export": file(),
    "export_letter": file(),
    "payload": sent_whole(access.REVEAL),
    "suggest": fragment(),
    "save_view": sent_whole(access.VIEW),
    "saved_view": page(),
    "change_view": sent_whole(access.VIEW),
    "reveal": Entry(permissions=(access.REVEAL,), methods=("get", "post"), kind="action"),
    "letter": page(),
    "live": fragment(),
    "ask_many": form(access.TRIAGE),
    "change_many": sent_whole(access.TRIAGE),
    "row": fragment(),
    "act": action(access.RECOVER, access.TRIAGE),
    "recover": action(access.RECOVER),
    "add_note": action(access.TRIAGE),
    "triage_letter": action(access.TRIAGE),
    "edit": form(access.EDIT_PAYLOAD),
    "version": page(),
    "restore": sent_whole(access.EDIT_PAYLOAD),
    "purge": form(access.PURGE),
    "decide": action(access.TRIAGE),
    "groups": page(),
    "group": page(),
    "triage_group": action(access.TRIAGE),
    "add_group_note": action(access.TRIAGE),
    "group_of": page(),
    "group_menu": page(),
    "group_act": action(access.TRIAGE),
    "subjects": page(),
    "subject": page(),
    "runs": page(),
    "prepare_run": sent_whole(access.RECOVER),
    "run": page(),
    "run_live": fragment(),
    "run_preview": page(),
    "start_run": action(access.RECOVER),
    "change_run": action(access.RECOVER),
    "queues": page(),
    "pause": action(access.TRIAGE),
    "resume": action(access.TRIAGE),
    "held_streams": page(),
    "let_stream_go": action(access.TRIAGE),
    "destinations": page(),
    "try_destination": action(access.TRIAGE),
    "workers": page(),
    "live_messages": page(),
    "live_message": page(),
    "message_state": fragment(),
    "run_now": action(access.RECOVER),
    "stop": action(access.TRIAGE),
    "dead_letter": action(access.TRIAGE),
    "audit": page(),
    "export_audit": file(),
}

OPEN = {"patterns", "healthz", "readyz"}
"""Without a permission: the patterns are there with DEBUG only, and a probe has no session."""
