import json

import pytest

from queues.words.classifiers import DEFAULT_CLASSIFIERS
from queues.words.outcomes import FailureReason, Ruling, Verdict, rule


class DatabaseError(Exception):
    def __init__(self, sqlstate: object) -> None:
        super().__init__("database")
        self.sqlstate = sqlstate


def unreadable(text: str) -> Exception:
    try:
        json.loads(text)
    except json.JSONDecodeError as exc:
        return exc
    raise AssertionError(text)


@pytest.mark.parametrize(
    ("sqlstate", "reason"),
    [
        ("08006", FailureReason.TRANSPORT_EXCEPTION),
        ("57P01", FailureReason.TRANSPORT_EXCEPTION),
        ("40001", FailureReason.THROTTLED),
        ("40P01", FailureReason.THROTTLED),
        ("55P03", FailureReason.THROTTLED),
        ("53300", FailureReason.THROTTLED),
        ("22003", FailureReason.VALIDATION_ERROR),
        ("23505", FailureReason.VALIDATION_ERROR),
        ("42P01", FailureReason.UNKNOWN),
        ("", FailureReason.UNKNOWN),
        (None, FailureReason.UNKNOWN),
        (7, FailureReason.UNKNOWN),
    ],
)
def test_database_errors_are_retried_with_the_reason_of_their_sqlstate(sqlstate: object, reason: FailureReason) -> None:
    assert rule(DatabaseError(sqlstate), DEFAULT_CLASSIFIERS) == Ruling(verdict=Verdict.RETRY, reason=reason)


@pytest.mark.parametrize(
    ("exc", "reason"),
    [
        (ConnectionResetError(), FailureReason.TRANSPORT_EXCEPTION),
        (TimeoutError(), FailureReason.TRANSPORT_EXCEPTION),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), FailureReason.SERIALIZATION_ERROR),
        (unreadable("{"), FailureReason.SERIALIZATION_ERROR),
        (ValueError("domain"), FailureReason.UNKNOWN),
    ],
)
def test_errors_of_the_standard_library_are_retried_with_a_reason(exc: Exception, reason: FailureReason) -> None:
    assert rule(exc, DEFAULT_CLASSIFIERS) == Ruling(verdict=Verdict.RETRY, reason=reason)


def test_a_wrapped_database_error_is_reached_through_its_cause() -> None:
    wrapper = RuntimeError("django wraps it")
    wrapper.__cause__ = DatabaseError("40001")

    assert rule(wrapper, DEFAULT_CLASSIFIERS).reason is FailureReason.THROTTLED
