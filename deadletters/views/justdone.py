"""What a person did just now to letters of a list: their rows stay for one look, whether they match or not."""

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from django.http import HttpRequest

_KEY = "deadletters_just_done"


@dataclass(frozen=True, kw_only=True)
class JustDone:
    """Letters that stay in their places, and what is said in their rows."""

    ids: frozenset[UUID] = frozenset()
    said: str = ""


NOTHING = JustDone()


def keep(request: HttpRequest, ids: Iterable[UUID], *, address: str, said: str) -> None:
    """Keep letters for the next look at the list under an address; where there is no session they are not kept."""
    session = getattr(request, "session", None)
    if session is not None:
        session[_KEY] = {"ids": [each.hex for each in ids], "address": address, "said": said}


def take(request: HttpRequest) -> JustDone:
    """Return what is kept for this look, once; nothing for another address: it was for a page that is gone."""
    session = getattr(request, "session", None)
    kept = session.pop(_KEY, None) if session is not None else None
    if not kept or kept["address"] != request.get_full_path():
        return NOTHING
    return JustDone(ids=frozenset(UUID(each) for each in kept["ids"]), said=kept["said"])
