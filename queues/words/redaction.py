"""Masks for secrets in payloads, headers and error texts."""

import re
from collections.abc import Collection, Mapping
from typing import Any

MASK = "••••••"

DEFAULT_KEYS = frozenset(
    """password passwd pwd passphrase secret token access_token refresh_token id_token api_key apikey authorization
    cookie set_cookie credential credentials card_number cardnumber pan cvv cvc iban ssn private_key client_secret
    session_id sessionid signature""".split()
)
MAX_DEPTH = 200

_WORDS = "|".join(sorted((key.replace("_", "[_-]?") for key in DEFAULT_KEYS), key=len, reverse=True))
_BEARER = re.compile(r"\b(bearer|basic)\s+[\w.~+/=-]{6,}", re.IGNORECASE)
_IN_URL = re.compile(r"(\w+://[^\s:/@]{0,256}:)[^\s@/]{1,256}(@)")
_PAIR = re.compile(
    rf"""((?:["']?)(?:[\w-]{{0,64}}[_-])?(?:{_WORDS})["']?\s*[=:]\s*)("[^"\n]{{1,4096}}"|'[^'\n]{{1,4096}}'|[^\s,;&"'<>{{}}]{{1,4096}})""",
    re.IGNORECASE,
)


def is_secret(key: str, keys: Collection[str] = DEFAULT_KEYS) -> bool:
    """Say whether a key names a secret: it is one of the keys, or ends in one after _, - or a capital."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key)
    name = spaced.lower().replace("-", "_")
    return any(name == k or name.endswith("_" + k) or name.replace("_", "") == k.replace("_", "") for k in keys)


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
    """Return a text with bearer tokens, passwords in URLs and `secret=value` pairs replaced."""
    text = _BEARER.sub(rf"\1 {MASK}", text)
    text = _IN_URL.sub(rf"\1{MASK}\2", text)
    return _PAIR.sub(rf"\1{MASK}", text)
