"""What a search that is being typed may go on with: its last word, keys that fit it, values that are known."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deadletters.words.filters.letters import AGAIN, CAUSES, DISPOSITIONS, OTHER_SOURCES, SOURCES, STATUSES
from deadletters.words.filters.listfilter import NOBODY
from deadletters.words.filters.tokens import KEYS, SYNONYMS, is_key, quoted
from queues.words.outcomes import FailureReason

CHOICES: Mapping[str, Sequence[str]] = {
    "status": tuple(STATUSES),
    "reason": tuple(reason.name.lower() for reason in FailureReason),
    "cause": tuple(CAUSES),
    "source": (*SOURCES, OTHER_SOURCES),
    "again": tuple(AGAIN),
    "disposition": tuple(DISPOSITIONS),
    "since": ("1h", "24h", "7d", "30d"),
    "until": ("1h", "24h", "7d"),
    "owner": (NOBODY,),
}
"""Values that are known without looking."""

_LAST_WORD = re.compile(r"(?:(?P<key>[a-z_]{1,40}):)?(?:\"(?P<quoted>[^\"]*)|(?P<bare>[^\s\"]*))$")


@dataclass(frozen=True, kw_only=True)
class Typed:
    """The word at the end of what is typed; `key` is empty while a key may still be meant."""

    key: str
    text: str
    start: int


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """What the last word may become, in the place of it; `told` says what it is."""

    text: str
    told: str
    is_whole: bool


def last_word(text: str) -> Typed:
    """Return the word that is being typed at the end of a text."""
    match = _LAST_WORD.search(text)
    if match is None:  # behind a quotation mark that is closed
        return Typed(key="", text="", start=len(text))
    name = SYNONYMS.get(match["key"] or "", match["key"] or "")
    written = match["bare"] if match["quoted"] is None else match["quoted"]
    is_known = not name or is_key(name)
    return Typed(key=name if is_known else "", text=written if is_known else match[0], start=match.start())


def keys_for(typed: Typed, used: Sequence[str]) -> Sequence[Suggestion]:
    """Return the keys that begin with what is typed, or mean it; without those that are used already."""
    names = {**{name: name for name in KEYS}, **SYNONYMS}
    fitting = dict.fromkeys(key for name, key in names.items() if name.startswith(typed.text) and key not in used)
    return [Suggestion(text=f"{key}:", told=KEYS[key], is_whole=False) for key in fitting]


def token(key: str, value: str, told: str = "") -> Suggestion:
    """Return a value as the token that it is in a search; a subject's type still wants its id."""
    is_whole = not (key == "subject" and value.endswith(":"))
    return Suggestion(text=f"{key}:{quoted(value)}", told=told, is_whole=is_whole)
