"""A filter as one line of text: `key:value` tokens and plain text, read and written."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from deadletters.words.errors import BadFilter
from deadletters.words.filters.letters import LetterFilter

MAX_SEARCH = 8_000
"""Characters of a search: every filter at once, and the quotation marks."""

KEYS: Mapping[str, str] = {
    "status": "open, recovering, held, recovered or given up",
    "type": "the message's type",
    "reason": "the failure reason",
    "cause": "why its queue gave up",
    "source": "the queue that it is of",
    "subject": "what it is about, as type:id",
    "owner": "who looks after it; - is nobody",
    "again": "yes: it died after a recovery",
    "disposition": "what a person decided",
    "since": "it died since, as 24h or 2026-01-31",
    "until": "it died before, as 24h or 2026-01-31",
    "destination": "where the outbox sends it",
    "perspective": "the perspective that could not apply it",
    "stream": "the id of its stream",
    "group": "the id of its group",
    "fingerprint": "16 characters that name its fault",
    "generation": "the build on which it died",
    "payload": "a text in one of the newest payloads",
}
"""What may stand before a colon, and what it says."""

SYNONYMS = LetterFilter.SYNONYMS

_WORD = re.compile(
    r"""\s*
    (?:(?P<key>-?[a-z_]{1,40}):(?!//))?  # an address such as https://… is no filter
    (?:"(?P<quoted>(?:[^"\\]|\\.)*)(?P<end>"?)|(?P<bare>\S*))""",
    re.DOTALL | re.VERBOSE,
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_NEEDS_QUOTES = re.compile(r"[\s\"\\]|^//")


@dataclass(frozen=True, kw_only=True)
class Token:
    """A part of a search: a value under a key, or plain text without one."""

    key: str
    value: str


def read_search(text: str) -> LetterFilter:
    """Read a search; raises BadFilter for a key that is unknown, given twice or without a value, naming it."""
    if len(text) > MAX_SEARCH:
        raise BadFilter(f"A search has at most {MAX_SEARCH:,} characters.")
    values: dict[str, str] = {}
    plain: list[str] = []
    for token in tokens_of(text):
        key = _key(token)
        if not key:
            plain.append(token.value)
        elif key in values:
            raise BadFilter(f"The filter “{key}” is given more than once; once is enough.")
        else:
            values[key] = token.value
    return LetterFilter.parse({**values, "q": " ".join(plain)})


def write_search(filters: LetterFilter) -> str:
    """Write a filter as the search that reads back as it."""
    return write_values(dict(filters.parts()))


def write_values(values: Mapping[str, str]) -> str:
    """Write values by filter as a search, those too that no filter understands; others than filters are left out."""
    written = [f"{name}:{quoted(value)}" for name in KEYS if (value := values.get(name, "").strip())]
    text = values.get("q", "").strip()
    return " ".join([*written, _plain(text)] if text else written)


def tokens_of(text: str) -> Iterator[Token]:
    """Yield the parts of a search; raises BadFilter for a quotation mark that is not closed."""
    at, text = 0, text.rstrip()
    while at < len(text) and (match := _WORD.match(text, at)):
        at = match.end()
        yield _token(match)


def _token(match: re.Match[str]) -> Token:
    key, quoted = match["key"] or "", match["quoted"]
    if quoted is not None:
        if not match["end"]:
            raise BadFilter("A quotation mark is not closed.")
        return Token(key=key, value=_ESCAPED.sub(r"\1", quoted))
    if key and not match["bare"] and not is_key(key):
        return Token(key="", value=f"{key}:")  # words such as "error: no such order"
    return Token(key=key, value=match["bare"])


def is_key(name: str) -> bool:
    """Say whether a filter is called so."""
    return name in KEYS or name in SYNONYMS


def _key(token: Token) -> str:
    """Return the filter that a token names, "" for plain text; raises BadFilter."""
    name = SYNONYMS.get(token.key, token.key)
    if name.startswith("-") and is_key(name[1:]):
        raise BadFilter(f"“{name}:” would mean all but these, which no list shows; say what is looked for instead.")
    if name and name not in KEYS:
        raise BadFilter(
            f"There is no filter “{name}”{_did_you_mean(name)} A text with a colon goes in quotation marks."
        )
    if name and not token.value.strip():
        raise BadFilter(f"The filter “{name}” has no value; write {name}:value, or a text in quotation marks.")
    return name


def _did_you_mean(name: str) -> str:
    """Return how the sentence ends: with a question after the known filter that is written most like the name."""
    close = get_close_matches(name.lstrip("-"), [*KEYS, *SYNONYMS], n=1, cutoff=0.6)
    return f"; did you mean “{SYNONYMS.get(close[0], close[0])}”?" if close else "."


def quoted(value: str) -> str:
    """Return a value as it stands behind its key."""
    if not _NEEDS_QUOTES.search(value):
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _plain(text: str) -> str:
    """Write plain text: as it is where it reads back so, else in quotation marks."""
    try:
        is_plain = read_search(text) == LetterFilter(q=text)
    except BadFilter:
        is_plain = False
    return text if is_plain else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
