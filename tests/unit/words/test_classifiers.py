import errno
import json
import pickle
import ssl
import urllib.error
from collections.abc import Callable
from email.message import Message
from http import HTTPStatus
from http.client import BadStatusLine, IncompleteRead, RemoteDisconnected
from socket import gaierror
from types import SimpleNamespace
from typing import Any

import amqp.exceptions
import django.db
import kombu.exceptions
import psycopg
import pytest
import redis.exceptions
from django.core.exceptions import ValidationError

from queues.words.classifiers import DEFAULT_CLASSIFIERS
from queues.words.outcomes import FailureReason, Ruling, Verdict, rule

NONE = FailureReason.UNKNOWN
TRANSPORT = FailureReason.TRANSPORT_EXCEPTION
NOT_READY = FailureReason.TRANSPORT_NOT_READY
THROTTLED = FailureReason.THROTTLED
VALIDATION = FailureReason.VALIDATION_ERROR
SERIALISATION = FailureReason.SERIALIZATION_ERROR


def ruled(exc: BaseException) -> Ruling:
    return rule(exc, DEFAULT_CLASSIFIERS)


def reason_of(exc: BaseException) -> FailureReason:
    ruling = ruled(exc)
    assert ruling.verdict is Verdict.RETRY, "only the domain knows what is permanent"
    return ruling.reason


def alike(module: str, *names: str, base: type[Exception] = Exception) -> type[Any]:
    """Return a class that looks like a library's, below others of that library; the last name is the class."""
    kind = base
    for name in names:
        kind = type(name, (kind,), {"__module__": module})
    return kind


def caught(fail: Callable[[], object]) -> Exception:
    try:
        fail()
    except Exception as exc:
        return exc
    raise AssertionError("nothing was raised")


# --- databases


class DatabaseError(Exception):
    def __init__(self, sqlstate: object) -> None:
        super().__init__("database")
        self.sqlstate = sqlstate


@pytest.mark.parametrize(
    ("sqlstate", "reason"),
    [
        ("08006", TRANSPORT),
        ("57P01", TRANSPORT),
        ("57P03", NOT_READY),
        ("25006", NOT_READY),
        ("25P02", NONE),
        ("58030", TRANSPORT),
        ("40001", THROTTLED),
        ("40P01", THROTTLED),
        ("55P03", THROTTLED),
        ("53300", THROTTLED),
        ("22003", VALIDATION),
        ("23505", VALIDATION),
        ("42P01", NONE),
        ("", NONE),
        ("08", NONE),
        (None, NONE),
        (7, NONE),
    ],
)
def test_a_database_error_has_the_reason_of_its_sqlstate(sqlstate: object, reason: FailureReason) -> None:
    assert reason_of(DatabaseError(sqlstate)) is reason


@pytest.mark.parametrize(
    ("exc", "reason"),
    [
        (psycopg.errors.DeadlockDetected("deadlock"), THROTTLED),
        (psycopg.errors.UniqueViolation("duplicate"), VALIDATION),
        (psycopg.errors.UndefinedTable("no such table"), NONE),
        (psycopg.errors.AdminShutdown("terminated"), TRANSPORT),
        (psycopg.errors.ConnectionTimeout("timeout"), TRANSPORT),
        (psycopg.OperationalError("connection refused"), TRANSPORT),
        (psycopg.InterfaceError("the connection is closed"), TRANSPORT),
        (psycopg.ProgrammingError("no results to fetch"), NONE),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_of_psycopg_is_known_with_a_sqlstate_and_without(exc: Exception, reason: FailureReason) -> None:
    assert reason_of(exc) is reason


def test_the_code_of_psycopg2_is_a_sqlstate_too() -> None:
    exc = alike("psycopg2.errors", "UniqueViolation")()
    exc.pgcode = "23505"

    assert reason_of(exc) is VALIDATION


def wrapped(wrapper: type[Exception], cause: Exception) -> Exception:
    exc = wrapper("as Django wraps it")
    exc.__cause__ = cause
    return exc


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        (psycopg.errors.DeadlockDetected(), THROTTLED),
        (psycopg.errors.InvalidPassword(), TRANSPORT),
        (psycopg.OperationalError("connection refused"), TRANSPORT),
        (ValueError("what psycopg would never raise"), NONE),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_that_django_wrapped_has_the_reason_of_what_it_wraps(cause: Exception, reason: FailureReason) -> None:
    assert reason_of(wrapped(django.db.OperationalError, cause)) is reason


@pytest.mark.parametrize(
    ("kind", "reason"),
    [(django.db.OperationalError, TRANSPORT), (django.db.InterfaceError, TRANSPORT), (django.db.DatabaseError, NONE)],
)
def test_an_error_that_django_raised_itself_is_of_its_connection(kind: type[Exception], reason: FailureReason) -> None:
    assert reason_of(kind("connection already closed")) is reason


# --- networks and brokers


@pytest.mark.parametrize(
    ("exc", "reason"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), TRANSPORT),
        (ConnectionResetError(), TRANSPORT),
        (BrokenPipeError(), TRANSPORT),
        (TimeoutError(), TRANSPORT),
        (gaierror("Name or service not known"), TRANSPORT),
        (ssl.SSLError("handshake"), TRANSPORT),
        (OSError(errno.EHOSTUNREACH, "No route to host"), TRANSPORT),
        (OSError(errno.ENOSPC, "No space left on device"), NONE),
        (FileNotFoundError(errno.ENOENT, "No such file"), NONE),
        (RemoteDisconnected(""), TRANSPORT),
        (BadStatusLine("x"), TRANSPORT),
        (IncompleteRead(b""), TRANSPORT),
        (urllib.error.URLError("refused"), TRANSPORT),
        (kombu.exceptions.OperationalError("refused"), TRANSPORT),
        (kombu.exceptions.ConnectionLimitExceeded(), TRANSPORT),
        (amqp.exceptions.ConnectionForced("shut down"), TRANSPORT),
        (amqp.exceptions.NotFound("no queue"), TRANSPORT),
        (amqp.exceptions.MessageNacked(), TRANSPORT),
        (redis.exceptions.ConnectionError("refused"), TRANSPORT),
        (redis.exceptions.BusyLoadingError("loading"), TRANSPORT),
        (redis.exceptions.TimeoutError("slow"), TRANSPORT),
        (redis.exceptions.ReadOnlyError("a replica"), TRANSPORT),
        (redis.exceptions.OutOfMemoryError("maxmemory"), THROTTLED),
        (redis.exceptions.ResponseError("WRONGTYPE"), NONE),
        (alike("valkey.exceptions", "ConnectionError")(), TRANSPORT),
        (alike("httpx", "TransportError", "ConnectTimeout")(), TRANSPORT),
        (alike("httpx._exceptions", "TransportError", "ReadError")(), TRANSPORT),
        (alike("requests.exceptions", "RequestException", "ConnectionError", base=OSError)(), TRANSPORT),
        (alike("requests.exceptions", "RequestException", "Timeout", "ReadTimeout", base=OSError)(), TRANSPORT),
        (alike("requests.exceptions", "RequestException", base=OSError)(), NONE),
        (alike("urllib3.exceptions", "HTTPError", "MaxRetryError")(), TRANSPORT),
        (alike("aiohttp.client_exceptions", "ClientConnectionError", "ServerDisconnectedError")(), TRANSPORT),
        (alike("shop.errors", "TransportError")(), NONE),
        (alike("shop.errors", "ConnectionError")(), NONE),
    ],
    ids=lambda value: f"{type(value).__module__}.{type(value).__name__}",
)
def test_what_a_network_or_a_broker_raises_is_of_the_transport(exc: Exception, reason: FailureReason) -> None:
    assert reason_of(exc) is reason


# --- the status of a response


BY_STATUS = [
    (400, VALIDATION), (401, NONE), (404, NONE), (408, TRANSPORT), (409, NONE), (422, VALIDATION), (429, THROTTLED),
    (499, NONE), (500, TRANSPORT), (502, TRANSPORT), (503, THROTTLED), (504, TRANSPORT), (599, TRANSPORT),
    (200, NONE), (302, NONE), (600, NONE), (-503, NONE), (True, NONE), ("503", NONE), (None, NONE),
]  # fmt: skip


def with_response(kind: type[Exception], **attributes: object) -> Exception:
    exc: Any = kind("upstream")
    exc.response = SimpleNamespace(**attributes)
    return exc


@pytest.mark.parametrize(("status", "reason"), BY_STATUS)
@pytest.mark.parametrize(
    "build",
    [
        lambda status: with_response(alike("httpx", "HTTPStatusError"), status_code=status),
        lambda status: with_response(alike("requests.exceptions", "HTTPError", base=OSError), status_code=status),
        lambda status: with_response(alike("shop.client", "UpstreamFailed"), status=status),
    ],
    ids=["httpx", "requests", "status"],
)
def test_a_response_has_the_reason_of_its_status(
    build: Callable[[object], Exception], status: object, reason: FailureReason
) -> None:
    assert reason_of(build(status)) is reason


@pytest.mark.parametrize(("name", "kind"), [("status", "aiohttp.ClientResponseError"), ("status_code", "openai.Error")])
def test_a_status_may_be_the_exceptions_own(name: str, kind: str) -> None:
    module, _, qualname = kind.partition(".")
    exc = alike(module, qualname)()
    setattr(exc, name, HTTPStatus.TOO_MANY_REQUESTS)

    assert reason_of(exc) is THROTTLED


@pytest.mark.parametrize(("status", "reason"), [(404, NONE), (429, THROTTLED), (502, TRANSPORT)])
def test_an_answer_to_urllib_has_the_reason_of_its_status_although_it_is_an_url_error(
    status: int, reason: FailureReason
) -> None:
    with urllib.error.HTTPError("http://shop/", status, "answer", Message(), None) as exc:
        assert reason_of(exc) is reason


def test_a_code_of_the_domain_is_no_status() -> None:
    exc: Any = alike("shop.errors", "CardDeclined")()
    exc.code = 503

    assert reason_of(exc) is NONE


# --- data


def json_error() -> Exception:
    return caught(lambda: json.loads("{"))


@pytest.mark.parametrize(
    ("exc", "reason"),
    [
        (ValidationError("required"), VALIDATION),
        (alike("pydantic_core._pydantic_core", "ValidationError", base=ValueError)(), VALIDATION),
        (alike("pydantic.error_wrappers", "ValidationError", base=ValueError)(), VALIDATION),
        (alike("jsonschema.exceptions", "ValidationError")(), VALIDATION),
        (alike("marshmallow.exceptions", "ValidationError")(), VALIDATION),
        (alike("rest_framework.exceptions", "APIException", "ValidationError")(), VALIDATION),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), SERIALISATION),
        ("\ud800", SERIALISATION),
        (json_error(), SERIALISATION),
        (alike("requests.exceptions", "JSONDecodeError", base=type(json_error()))("no", "x", 0), SERIALISATION),
        (pickle.UnpicklingError("truncated"), SERIALISATION),
        (pickle.PicklingError("a lambda"), SERIALISATION),
        (kombu.exceptions.EncodeError(), SERIALISATION),
        (kombu.exceptions.DecodeError(), SERIALISATION),
        (kombu.exceptions.ContentDisallowed("pickle"), SERIALISATION),
        (ValueError("domain"), NONE),
        (KeyError("order"), NONE),
        (Exception(), NONE),
    ],
    ids=lambda value: f"{type(value).__module__}.{type(value).__name__}",
)
def test_what_is_wrong_with_data_is_validation_or_serialisation(exc: Any, reason: FailureReason) -> None:
    failure = caught(lambda: exc.encode()) if isinstance(exc, str) else exc

    assert reason_of(failure) is reason


def test_a_parse_error_that_answers_400_is_one_of_serialisation() -> None:
    exc = alike("rest_framework.exceptions", "APIException", "ParseError")()
    exc.status_code = 400

    assert reason_of(exc) is SERIALISATION


# --- all of them


class Sly(Exception):
    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)


@pytest.mark.parametrize("classify", DEFAULT_CLASSIFIERS, ids=lambda classify: classify.__name__)
def test_a_classifier_does_not_know_what_it_cannot_read(classify: Any) -> None:
    assert classify(Sly()) is None
    assert ruled(Sly()) == Ruling(verdict=Verdict.RETRY)


@pytest.mark.parametrize("classify", DEFAULT_CLASSIFIERS, ids=lambda classify: classify.__name__)
def test_a_classifier_looks_at_one_exception_and_not_behind_it(classify: Any) -> None:
    outer = RuntimeError()
    outer.__cause__ = psycopg.errors.DeadlockDetected()
    outer.__context__ = with_response(TimeoutError, status_code=503)

    assert classify(outer) is None
