"""What the ids in a filter stand for: a page says the name of a fault, not its id."""

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from deadletters.models import DeadLetter, FailureGroup, RecoveryRun
from deadletters.queries import groups
from deadletters.words.filters.listfilter import ListFilter, uuid_of

Named = FailureGroup | RecoveryRun | DeadLetter


def of(filters: ListFilter) -> Mapping[str, Named]:
    """Return what the filter names by an id, by name of the filter, one statement for each; unknown ids are missing."""
    wanted = {name: value for name, value in filters.parts() if name in _FIND}
    found = {name: _FIND[name](value) for name, value in wanted.items()}
    return {name: one for name, one in found.items() if one is not None}


def _by_id(get: Callable[[UUID], Any]) -> Callable[[str], Any]:
    def find(value: str) -> Any:
        identity = uuid_of(value)
        return None if identity is None else get(identity)

    return find


_FIND: Mapping[str, Callable[[str], Named | None]] = {
    "group": _by_id(lambda group_id: groups.named([group_id]).get(group_id)),
    "fingerprint": groups.with_fingerprint,
    "run": _by_id(lambda run_id: RecoveryRun.objects.defer("scope").filter(pk=run_id).first()),
    "letter": _by_id(lambda letter_id: DeadLetter.objects.only("message_type").filter(pk=letter_id).first()),
}
