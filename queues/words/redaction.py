"""Masks for secrets in payloads, headers and error texts."""

import re
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

MASK = "••••••"

DEFAULT_KEYS = frozenset(
    {
        "password", "passwd", "pwd", "passphrase", "passcode", "password_hash", "password_confirm",
        "password_confirmation", "otp", "pin",
        "secret", "client_secret", "secret_key", "private_key", "access_key", "signing_key", "encryption_key",
        "api_key", "apikey",
        "token", "access_token", "refresh_token", "id_token", "authtoken", "csrftoken", "csrfmiddlewaretoken",
        "csrf", "xsrf", "jwt",
        "auth", "authorization", "credential", "credentials", "signature", "cookie", "set_cookie", "session_id",
        "sessionid", "session_key",
        "card_number", "cardnumber", "pan", "cvv", "cvc", "iban", "ssn",
    }
)  # fmt: skip
MAX_DEPTH = 200
"""Levels beyond which everything is masked."""

_LONG = 6
"""Letters from which a key is no chance ending of another word: `adminpassword` is one, `span` is none."""
_PROSE = {"auth", "pin"}
"""Keys that are ordinary words where a sentence has a colon."""

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_GAP = re.compile(r"[\W_]+")


def _pattern_of(keys: Collection[str]) -> str:
    return "|".join(sorted((key.replace("_", "[_-]?") for key in keys), key=len, reverse=True))


_IN_TEXT = DEFAULT_KEYS - _PROSE
_KEY = rf"""
    (?: (?: {_pattern_of([key for key in _IN_TEXT if len(key) >= _LONG])} )s?
      | (?: (?<![a-z0-9]) | (?-i: (?<=[a-z0-9])(?=[A-Z]) | (?<=[A-Z])(?=[A-Z][a-z]) ) )
        (?: {_pattern_of([key for key in _IN_TEXT if len(key) < _LONG])} )
    ) \d{{0,3}}
"""
_QUOTED = r"""(?: "(?:[^"\\\n]++|\\.)*+"? | '(?:[^'\\\n]++|\\.)*+'? | \\{1,8}"[^"\n]*+"? )"""
_ENDS = r"""\s,;&"'<>{}\])"""

# Every pattern is linear in the text whatever it holds, and finds in its own result what it found before.
_PRIVATE_KEY = re.compile(r"(-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----).*?(?=-----END|\Z)", re.DOTALL)
_HEADER = re.compile(
    r"""
    \b ( (?:set-)?cookie: [ \t]*+
       | authorization: [ \t]*+ (?= (?:basic|bearer|digest|hawk|negotiate|ntlm|token|aws4-hmac-sha256) [ \t] ) )
    (?: = (?: "[^"\r\n]*+"? | '[^'\r\n]*+'? ) | [^\r\n"'] )++
    """,
    re.IGNORECASE | re.VERBOSE,
)
_PAIR = re.compile(
    rf"""
    ( {_KEY} (?: \\{{0,8}}["'] | \] ){{0,2}} \s*+ [=:]{{1,3}}>? \s*+ )  # key= key: key=> "key": [key]= ["key"]=
    (?: {MASK}(?=[{_ENDS}@]|\Z)
      | (?: (?:basic|bearer|digest|token) \s++ )?
        (?: {_QUOTED} [^{_ENDS}]*+
          | [\[({{] (?: {_QUOTED} | [^"'\[\](){{}}\n] )*+ [\])}}] [^{_ENDS}]*+
          | [\[({{] [^\n]*+                                         # a branch within a branch: the rest of the line
          | [^\s,;&"'<>{{}}]++
        )
    )
    """,
    re.IGNORECASE | re.VERBOSE,
)
_ELEMENT = re.compile(rf"(<(?:[\w.-]++:)?[\w.-]*?{_KEY}(?:\s[^<>]*+)?>)[^<]++(?=</)", re.IGNORECASE | re.VERBOSE)
_BEARER = re.compile(r"\b(bearer\s)\s*+[\w.~+/=-]{6,}", re.IGNORECASE)
_WEB_TOKEN = re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?")
_IN_URL = re.compile(r"(?<=://)(?:([^\s:/@]*+:)[^\s/]+(?=@)|[^\s:/@]{20,}+(?=@))")


_PARTS = tuple({max(key.split("_"), key=len) for key in _IN_TEXT})
"""Of each key its longest part: a text without any of them names no secret."""


def is_secret(key: str, keys: Collection[str] = DEFAULT_KEYS) -> bool:
    """Say whether a key names a secret: it ends in one of the keys, as a word of its own unless the key is long."""
    name = _GAP.sub("_", _HUMP.sub("_", key)).lower().strip("_").rstrip("0123456789").rstrip("_")
    words, run_together = _endings(frozenset(keys))
    return f"_{name}".endswith(words) or name.replace("_", "").removesuffix("s").endswith(run_together)


@lru_cache(maxsize=8)
def _endings(keys: frozenset[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    joined = (key.replace("_", "").removesuffix("s") for key in keys)
    return tuple(f"_{key}" for key in keys), tuple(key for key in joined if len(key) >= _LONG)


def mask(value: Any, keys: Collection[str] = DEFAULT_KEYS, _depth: int = MAX_DEPTH) -> Any:
    """Return a JSON value with every secret replaced, at any depth; secrets inside text are masked too."""
    if _depth <= 0:
        return MASK
    if isinstance(value, Mapping):
        return {k: MASK if is_secret(str(k), keys) else mask(v, keys, _depth - 1) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [mask(inner, keys, _depth - 1) for inner in value]
    return mask_text(value) if isinstance(value, str) else value


def mask_text(text: str) -> str:
    """Return a text with private keys, tokens, passwords in URLs, cookies and `secret=value` pairs replaced."""
    for pattern in _patterns_for(text):
        text = pattern.sub(rf"\1{MASK}", text)
    if "eyJ" in text:
        text = _WEB_TOKEN.sub(MASK, text)
    if "://" in text:
        text = _IN_URL.sub(lambda found: (found[1] or "") + MASK, text)
    return text


def _patterns_for(text: str) -> Sequence[re.Pattern[str]]:
    """Return those that can find anything at all: most of what a page shows is short and holds no secret."""
    lowered = text.lower()
    is_plain = text.isascii()  # beyond ASCII, other letters compare alike
    has_pair, has_element = ":" in text or "=" in text, "</" in text
    is_named = (has_pair or has_element) and (not is_plain or any(part in lowered for part in _PARTS))
    return [
        *([_PRIVATE_KEY] if "-----BEGIN" in text else []),
        *([_HEADER] if ":" in text else []),
        *([_PAIR] if is_named and has_pair else []),
        *([_ELEMENT] if is_named and has_element else []),
        *([_BEARER] if not is_plain or "bearer" in lowered else []),
    ]
