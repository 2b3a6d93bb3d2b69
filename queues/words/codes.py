"""The code that an exception carries: a SQLSTATE, the status of an HTTP response, or a name of its own.

Read by duck typing, so that no library is imported.
"""

import re

from queues.words.foreign import exact_text, is_a, qualified, read

_SQLSTATE = re.compile(r"[0-9A-Z]{5}")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,39}")
_ERROR_STATUSES = range(400, 600)


def error_code(exc: BaseException) -> str | None:
    """Return the code that tells errors of one type apart, such as "23505", "HTTP 503" or "card_declined".

    Django's database errors have that of the driver's error which they wrap.
    """
    sqlstate = sqlstate_of(exc) or _sqlstate_wrapped(exc)
    if sqlstate:
        return sqlstate
    status = http_status_of(exc)
    return f"HTTP {status}" if status else _matching(read(exc, "code"), _NAME)


def sqlstate_of(exc: BaseException) -> str | None:
    """Return the five characters of a database error, as psycopg (2 and 3) and asyncpg keep them."""
    return _matching(read(exc, "sqlstate"), _SQLSTATE) or _matching(read(exc, "pgcode"), _SQLSTATE)


def http_status_of(exc: BaseException) -> int | None:
    """Return the error status of the exception's response, or the exception's own."""
    response = read(exc, "response")
    for holder, name in ((response, "status_code"), (response, "status"), (exc, "status_code"), (exc, "status")):
        status = _status(read(holder, name))
        if status:
            return status
    return _status(read(exc, "code")) if qualified(type(exc)) == "urllib.error.HTTPError" else None


def _matching(value: object, pattern: re.Pattern[str]) -> str | None:
    text = exact_text(value)
    return text if text is not None and pattern.fullmatch(text) else None


def _status(value: object) -> int | None:
    status = int.__int__(value) if is_a(value, int) else 0
    return status if status in _ERROR_STATUSES else None


def _sqlstate_wrapped(exc: BaseException) -> str | None:
    cause = read(exc, "__cause__")
    return sqlstate_of(cause) if cause is not None and qualified(type(exc)).startswith("django.db.") else None
