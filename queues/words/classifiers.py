"""Classifiers asked by default. None of them calls a failure permanent: only the domain knows that.

Libraries are known by the names of their classes, so that none has to be installed or imported.
"""

import errno
from collections.abc import Mapping

from queues.words.codes import http_status_of, sqlstate_of
from queues.words.foreign import is_a, qualified, read
from queues.words.outcomes import Classification, Classifier, FailureReason

_BY_SQLSTATE = {
    "25006": FailureReason.TRANSPORT_NOT_READY,  # read-only: a standby that is not promoted yet
    "57P03": FailureReason.TRANSPORT_NOT_READY,  # the server is starting up or shutting down
    "08": FailureReason.TRANSPORT_EXCEPTION,
    "57": FailureReason.TRANSPORT_EXCEPTION,
    "58": FailureReason.TRANSPORT_EXCEPTION,
    "53": FailureReason.THROTTLED,
    "40": FailureReason.THROTTLED,
    "55": FailureReason.THROTTLED,
    "22": FailureReason.VALIDATION_ERROR,
    "23": FailureReason.VALIDATION_ERROR,
}
"""A SQLSTATE, or its class: the first two characters."""

_BY_STATUS = {
    400: FailureReason.VALIDATION_ERROR,
    408: FailureReason.TRANSPORT_EXCEPTION,
    422: FailureReason.VALIDATION_ERROR,
    429: FailureReason.THROTTLED,
    503: FailureReason.THROTTLED,
}

_NETWORK_DOWN = {errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTDOWN, errno.EHOSTUNREACH}

_CLASSES: Mapping[FailureReason | None, str] = {
    FailureReason.TRANSPORT_NOT_READY: "queues.NotReady queues.NeverReady",
    FailureReason.TRANSPORT_EXCEPTION: """
        builtins.ConnectionError builtins.TimeoutError asyncio.IncompleteReadError
        socket.gaierror socket.herror ssl.SSLError urllib.URLError
        http.BadStatusLine http.IncompleteRead smtplib.SMTPConnectError smtplib.SMTPServerDisconnected
        psycopg.OperationalError psycopg.InterfaceError psycopg2.OperationalError psycopg2.InterfaceError
        asyncpg.InterfaceError asyncpg.PostgresConnectionError
        kombu.OperationalError kombu.LimitExceeded amqp.ConnectionError amqp.ChannelError amqp.MessageNacked
        redis.ConnectionError redis.TimeoutError redis.ReadOnlyError redis.ClusterDownError redis.TryAgainError
        valkey.ConnectionError valkey.TimeoutError valkey.ReadOnlyError valkey.ClusterDownError valkey.TryAgainError
        httpx.TransportError httpcore.NetworkError httpcore.ProtocolError httpcore.ProxyError httpcore.TimeoutException
        requests.ConnectionError requests.Timeout requests.ChunkedEncodingError
        urllib3.TimeoutError urllib3.ProtocolError urllib3.ProxyError urllib3.SSLError urllib3.MaxRetryError
        urllib3.NewConnectionError aiohttp.ClientConnectionError aiohttp.ClientPayloadError
    """,
    FailureReason.THROTTLED: "redis.OutOfMemoryError valkey.OutOfMemoryError rest_framework.Throttled",
    FailureReason.VALIDATION_ERROR: """
        django.ValidationError rest_framework.ValidationError pydantic.ValidationError pydantic_core.ValidationError
        jsonschema.ValidationError fastjsonschema.JsonSchemaValueException marshmallow.ValidationError
        msgspec.ValidationError
    """,
    FailureReason.SERIALIZATION_ERROR: """
        builtins.UnicodeError json.JSONDecodeError simplejson.JSONDecodeError pickle.PickleError binascii.Error
        struct.error csv.Error xml.ParseError tomllib.TOMLDecodeError yaml.YAMLError
        kombu.SerializationError kombu.SerializerNotInstalled
        rest_framework.ParseError msgspec.MsgspecError httpx.DecodingError google.DecodeError
    """,
    None: "urllib.HTTPError",  # an URLError, but what it says is its status
}
"""Classes as package.Name: the modules inside a package move between its versions."""

_AWAY = {FailureReason.TRANSPORT_NOT_READY, FailureReason.TRANSPORT_EXCEPTION, FailureReason.THROTTLED}
_BY_CLASS = {name: reason for reason, names in _CLASSES.items() for name in names.split()}
_DJANGO_CONNECTION = {"django.db.utils.OperationalError", "django.db.utils.InterfaceError"}


def by_sqlstate(exc: BaseException) -> Classification | None:
    """Classify a database error by its SQLSTATE."""
    sqlstate = sqlstate_of(exc)
    if sqlstate is None:
        return None
    return _retried(_BY_SQLSTATE.get(sqlstate) or _BY_SQLSTATE.get(sqlstate[:2]))


def by_class(exc: BaseException) -> Classification | None:
    """Classify by the nearest of the exception's classes that is known."""
    for kind in type(exc).__mro__:
        name = _short(kind)
        if name in _BY_CLASS:
            return _retried(_BY_CLASS[name])
    return None


def is_away(exc: BaseException) -> bool:
    """Say whether the exception's class means that another side is out of reach, or takes nothing now."""
    known = by_class(exc)
    return known is not None and known.reason in _AWAY


def by_connection(exc: BaseException) -> Classification | None:
    """Classify what has no class of its own: an unreachable network, and a database that Django could not reach.

    A Django error that wraps a driver's says nothing here: the driver's is looked at itself.
    """
    down = is_a(exc, OSError) and read(exc, "errno") in _NETWORK_DOWN
    alone = qualified(type(exc)) in _DJANGO_CONNECTION and read(exc, "__cause__") is None
    return _retried(FailureReason.TRANSPORT_EXCEPTION) if down or alone else None


def by_status(exc: BaseException) -> Classification | None:
    """Classify by the status of an HTTP response; what is left of 4xx is for the domain to judge."""
    status = http_status_of(exc)
    if status is None:
        return None
    default = FailureReason.TRANSPORT_EXCEPTION if status >= 500 else None
    return _retried(_BY_STATUS.get(status, default))


def _retried(reason: FailureReason | None) -> Classification | None:
    return None if reason is None else Classification(permanent=False, reason=reason)


def _short(kind: type) -> str:
    module, _, name = qualified(kind).rpartition(".")
    return f"{module.partition('.')[0].lstrip('_')}.{name}"


# A class before a status: a parse error that answers 400 is one of serialisation.
DEFAULT_CLASSIFIERS: tuple[Classifier, ...] = (by_sqlstate, by_class, by_connection, by_status)
