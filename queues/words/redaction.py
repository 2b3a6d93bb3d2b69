"""Masks for secrets in payloads, headers and error texts."""

import re
from collections.abc import Collection, Mapping
from typing import Any

MASK = "••••••"

DEFAULT_KEYS = frozenset(
    {
        "password",
        "passwd",
        "pwd",
        "passphrase",
        "secret",
        "token",
        "access_token",
        "refresh_token",
        "id_token",
        "api_key",
        "apikey",
        "authorization",
        "cookie",
        "set_cookie",
        "credential",
        "credentials",
        "card_number",
        "cardnumber",
        "pan",
        "cvv",
        "cvc",
        "iban",
        "ssn",
        "private_key",
        "secret_key",
        "access_key",
        "client_secret",
        "session_id",
        "sessionid",
        "signature",
    }
)
MAX_DEPTH = 200
"""Levels beyond which everything is masked."""

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORDS = "|".join(sorted((key.replace("_", "[_-]?") for key in DEFAULT_KEYS), key=len, reverse=True))
_BEARER = re.compile(r"\b(bearer)\s+[\w.~+/=-]{6,}", re.IGNORECASE)
_WEB_TOKEN = re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?")
_IN_URL = re.compile(r"(?<=://)([^\s:/@]{0,256}:)[^\s/]{1,256}(@)")
_COOKIES = re.compile(r"\b((?:set-)?cookie:\s*)[^\r\n\"']+", re.IGNORECASE)
_PAIR = re.compile(
    rf"""
    ( (?: (?<![a-z0-9]) | (?-i:(?<=[a-z0-9])(?=[A-Z])) ) (?:{_WORDS})  # a whole word, or the end of one_or-anOther
      \\{{0,8}}["']? \s* [=:] \s* )
    (?: (?:basic|bearer|digest|token)\s+ )?
    (?: "(?:[^"\\\n]++|\\.)*+"?  |  '(?:[^'\\\n]++|\\.)*+'?  |  \\{{1,8}}"[^"\n]*"?  |  [^\s,;&"'<>{{}}]+ )
    """,
    re.IGNORECASE | re.VERBOSE,
)


def is_secret(key: str, keys: Collection[str] = DEFAULT_KEYS) -> bool:
    """Say whether a key names a secret: it is one of the keys, or ends in one after _, - or a capital."""
    name = _HUMP.sub("_", key).lower().replace("-", "_")
    joined = name.replace("_", "")
    return any(name == k or name.endswith("_" + k) or joined == k.replace("_", "") for k in keys)


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
    """Return a text with bearer and web tokens, passwords in URLs and `secret=value` pairs replaced."""
    text = _BEARER.sub(rf"\1 {MASK}", text)
    text = _WEB_TOKEN.sub(MASK, text)
    text = _IN_URL.sub(rf"\1{MASK}\2", text)
    text = _COOKIES.sub(rf"\1{MASK}", text)
    return _PAIR.sub(rf"\1{MASK}", text)
