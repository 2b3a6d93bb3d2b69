"""Classifiers asked by default. None of them calls a failure permanent: only the domain knows that."""

import json

from queues.words.outcomes import Classification, Classifier, FailureReason

_BY_SQLSTATE_CLASS = {
    "08": FailureReason.TRANSPORT_EXCEPTION,
    "57": FailureReason.TRANSPORT_EXCEPTION,
    "53": FailureReason.THROTTLED,
    "40": FailureReason.THROTTLED,
    "55": FailureReason.THROTTLED,
    "22": FailureReason.VALIDATION_ERROR,
    "23": FailureReason.VALIDATION_ERROR,
}


def by_sqlstate(exc: BaseException) -> Classification | None:
    """Classify a PostgreSQL error by the class of its SQLSTATE (the first two characters)."""
    sqlstate = getattr(exc, "sqlstate", None)
    reason = _BY_SQLSTATE_CLASS.get(sqlstate[:2]) if isinstance(sqlstate, str) else None
    return None if reason is None else Classification(permanent=False, reason=reason)


def by_type(exc: BaseException) -> Classification | None:
    """Classify what the standard library raises for transport and for data that cannot be read."""
    if isinstance(exc, ConnectionError | TimeoutError):
        return Classification(permanent=False, reason=FailureReason.TRANSPORT_EXCEPTION)
    if isinstance(exc, UnicodeError | json.JSONDecodeError):
        return Classification(permanent=False, reason=FailureReason.SERIALIZATION_ERROR)
    return None


DEFAULT_CLASSIFIERS: tuple[Classifier, ...] = (by_sqlstate, by_type)
