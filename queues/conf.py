"""Settings of the queues: `QUEUES` in Django's settings, each with its unit and default here."""

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.signals import setting_changed
from django.utils.module_loading import import_string

from queues.words.classifiers import DEFAULT_CLASSIFIERS
from queues.words.dead_letters import DeadLetterStore
from queues.words.errors import InvalidSetting
from queues.words.outcomes import Budget, Classifier
from queues.words.payloads import PayloadLimits
from queues.words.redaction import mask
from queues.words.sources import SHORT_NAMES

Caps = int | None | Mapping[str, int | None]
"""One value for all sources, or a mapping of "inbox", "outbox" and "perspectives"; one left out has the default."""

LOG_MODES = ("off", "failures", "all")
TRANSPORTS: Mapping[str, str] = {
    "inbox": "queues.transports.inbox.InboxTransport",
    "kombu": "queues.transports.kombu.KombuTransport",
}
"""What can publish outbox messages, by the name that ROUTES uses."""
TRANSPORT_OPTIONS: Mapping[str, tuple[str, ...]] = {"inbox": (), "kombu": ("url", "queue")}
BROKER_SCHEMES = ("amqp", "amqps", "pyamqp", "redis", "rediss", "redis+socket", "sentinel", "memory")


def _default_run_dir() -> Path:
    """Return a folder for this user and database: projects on one host must not sweep each other's runs."""
    database = settings.DATABASES["default"]
    name = ":".join(str(database.get(part, "")) for part in ("HOST", "PORT", "NAME"))
    return Path(tempfile.gettempdir()) / f"deadletters-{os.getuid()}" / sha256(name.encode()).hexdigest()[:16]


@dataclass(frozen=True, kw_only=True)
class SourceConf:
    """The settings of one source."""

    max_attempts: int | None
    max_delays: int | None
    min_attempts_override: int | None
    max_attempts_override: int | None
    delivery_log: str

    def __post_init__(self) -> None:
        Budget(max_attempts=self.max_attempts, max_delays=self.max_delays)
        for name in ("min_attempts_override", "max_attempts_override"):
            _check_override(name.upper(), getattr(self, name))
        floor, ceiling = self.min_attempts_override, self.max_attempts_override
        if floor is not None and ceiling is not None and floor > ceiling:
            raise InvalidSetting("MIN_ATTEMPTS_OVERRIDE", floor, f"at most MAX_ATTEMPTS_OVERRIDE, which is {ceiling}")
        if self.delivery_log not in LOG_MODES:
            raise InvalidSetting("DELIVERY_LOG", self.delivery_log, f"one of {', '.join(LOG_MODES)}")


def _check_override(name: str, cap: object) -> None:
    if cap is not None and (isinstance(cap, bool) or not isinstance(cap, int) or cap < 1):
        raise InvalidSetting(name, cap, "a whole number from 1, or None for no bound")


@dataclass(frozen=True, kw_only=True)
class Conf:
    """The settings; an upper-case name without its unit is never used, so `lease_seconds` is LEASE_SECONDS."""

    dead_letter_store: str | None = None
    """Dotted path of a `DeadLetterStore`; without one nothing is ever dead-lettered."""
    service: str = "queues"
    generation: str = "unversioned"
    """The deployed build."""
    routes: Mapping[str, str | Mapping[str, str]] = field(default_factory=dict)
    """Destination of the outbox, or a pattern with * and ?, to its transport: the name, or {"transport": the name}
    with options of it: of kombu `url` (default: Celery's broker) and `queue` (default: the destination)."""
    run_dir: Path = field(default_factory=_default_run_dir)
    """Folder on this host where drainers note what they run; must survive their crash."""
    lease_seconds: float = 30
    renewal_seconds: float = 10
    time_limit_seconds: float = 300
    give_back_seconds: float = 1
    """Claims not started within this time are given back."""
    backoff_base_seconds: float = 5
    backoff_factor: float = 2
    backoff_max_seconds: float = 300
    circuit_failures: int = 3
    """Times in a row that a destination is not ready before its circuit opens."""
    transport_timeout_seconds: float = 5
    """How long a broker is waited for, to connect and to confirm."""
    transport_patience_seconds: float = 3 * 24 * 3600
    """Longest wait for a destination that is not ready; then a message fails by its budget, like any other."""
    hold_outbox_types: tuple[str, ...] = ()
    """Types of outbox messages, or patterns with * and ?, behind whose dead their stream waits."""
    tick_seconds: float = 5
    wakeup_fold_ms: float = 100
    """A process wakes a source at most once in this time; 0 = at every commit."""
    instance_timeout_seconds: float = 60
    """An instance whose last heartbeat is older counts as gone."""
    claim_batch: int = 500
    claim_per_stream: int = 50
    claim_bytes: int = 16 * 1024 * 1024
    """Bodies fetched at once; a single larger one is fetched alone."""
    group_messages: int = 100
    """Fast handlers that share a commit; of those that use the database 50 at most."""
    group_ms: float = 50
    drain_seconds: float = 10
    drains_per_source: int = field(default_factory=lambda: os.cpu_count() or 1)
    receive_batch: int = 100
    """Messages of a broker that are stored, and acknowledged, at once."""
    max_attempts: Caps = 10
    max_delays: Caps = 100
    min_attempts_override: Caps = None
    """The fewest attempts that a message has, whatever cap it or its handler brings."""
    max_attempts_override: Caps = None
    """The most."""
    max_payload_bytes: int = 64 * 1024 * 1024
    offload_payload_bytes: int = 1024 * 1024
    max_payload_depth: int = 100
    delivery_log: str | Mapping[str, str] = "failures"
    """What is logged: off, failures or all. Messages under recovery always are."""
    delivery_log_months_ahead: int = 3
    delivery_log_retention_days: int | None = 90
    """Months that ended longer ago are dropped; None keeps all."""
    deduplication_days: int | None = 30
    """An id that a sender chose is forgotten so long after it was first seen, unless its message waits or is dead."""
    classifiers: tuple[str, ...] = ()
    """Dotted paths of classifiers that are asked before the default ones."""

    def __post_init__(self) -> None:
        if not self.generation or not isinstance(self.generation, str):
            raise InvalidSetting("GENERATION", self.generation, "the name of a build, not empty")
        _check_routes(self.routes)
        if not self.wakeup_fold_ms >= 0:
            raise InvalidSetting("WAKEUP_FOLD_MS", self.wakeup_fold_ms, "0 or more")
        if isinstance(self.hold_outbox_types, str) or not all(isinstance(t, str) for t in self.hold_outbox_types):
            raise InvalidSetting("HOLD_OUTBOX_TYPES", self.hold_outbox_types, "a list of types or patterns")
        for name in _POSITIVE:
            if not getattr(self, name) > 0:
                raise InvalidSetting(name.upper(), getattr(self, name), "more than 0")
        for name in _PER_SOURCE:
            _check_sources(name.upper(), getattr(self, name))
        _check_whole("DELIVERY_LOG_MONTHS_AHEAD", self.delivery_log_months_ahead, least=0, most=120)
        if self.delivery_log_retention_days is not None:
            _check_whole("DELIVERY_LOG_RETENTION_DAYS", self.delivery_log_retention_days, least=1, most=36_525)
        if self.deduplication_days is not None:
            _check_whole("DEDUPLICATION_DAYS", self.deduplication_days, least=1, most=36_525)
        self._of_source  # noqa: B018 - checks the values of each source

    @cached_property
    def _of_source(self) -> Mapping[str, SourceConf]:
        return {source: SourceConf(**self._values_of(short)) for source, short in SHORT_NAMES.items()}

    def _values_of(self, short: str) -> dict[str, Any]:
        given = {name: getattr(self, name) for name in _PER_SOURCE}
        return {
            name: value.get(short, _DEFAULTS[name]) if isinstance(value, Mapping) else value
            for name, value in given.items()
        }

    def budget(self, source: str) -> Budget:
        """Return the caps that a message of the source has without any of its own or its handler's."""
        own = self._of_source[source]
        return Budget(max_attempts=own.max_attempts, max_delays=own.max_delays)

    def clamped(self, source: str, base: Budget, max_attempts: int | None, max_delays: int | None) -> Budget:
        """Return the caps of one message: its own as stored where set, else those of `base`, in the source's bounds."""
        own = self._of_source[source]
        return base.clamped(max_attempts, max_delays, own.min_attempts_override, own.max_attempts_override)

    def log_mode(self, source: str) -> str:
        """Return which events of the source's messages are logged."""
        return self._of_source[source].delivery_log

    def payload_limits(self) -> PayloadLimits:
        return self._limits

    @cached_property
    def _limits(self) -> PayloadLimits:
        return PayloadLimits(
            offload_bytes=self.offload_payload_bytes,
            max_bytes=self.max_payload_bytes,
            max_depth=self.max_payload_depth,
        )

    @property
    def lease(self) -> timedelta:
        return timedelta(seconds=self.lease_seconds)


def _check_routes(routes: object) -> None:
    known = ", ".join(sorted(TRANSPORTS))
    if not isinstance(routes, Mapping):
        raise InvalidSetting("ROUTES", routes, f"a mapping of destinations to transports: {known}")
    for destination, route in routes.items():
        name, options = route_of(route)
        if not isinstance(destination, str) or not destination or name not in list(TRANSPORTS):
            raise InvalidSetting("ROUTES", mask({destination: route}), f"destinations with a known transport: {known}")
        _check_options(destination, str(name), options)


def route_of(route: object) -> tuple[object, Mapping[str, Any]]:
    """Return a route's transport and its options."""
    if not isinstance(route, Mapping):
        return route, {}
    return route.get("transport"), {name: value for name, value in route.items() if name != "transport"}


def _check_options(destination: str, transport: str, options: Mapping[str, Any]) -> None:
    known = TRANSPORT_OPTIONS[transport]
    for name, value in options.items():
        if name not in known or not isinstance(value, str) or not value:
            want = f"{' or '.join(known) or 'without options'} of the transport {transport}, as text"
            raise InvalidSetting(f"ROUTES[{destination!r}]", mask({name: value}), want)
    url = options.get("url", "")
    if url and urlsplit(url).scheme not in BROKER_SCHEMES:
        want = f"a URL that starts with {', '.join(f'{scheme}://' for scheme in BROKER_SCHEMES)}"
        raise InvalidSetting(f"ROUTES[{destination!r}]", mask({"url": url}), want)


def _check_whole(name: str, value: object, *, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidSetting(name, value, f"a whole number from {least} to {most}")


def _check_sources(name: str, value: object) -> None:
    known = list(SHORT_NAMES.values())
    for source in value if isinstance(value, Mapping) else ():
        if source not in known:
            raise InvalidSetting(name, value, f"one value, or a mapping whose keys are among {', '.join(known)}")


_PER_SOURCE = tuple(f.name for f in fields(SourceConf))
_DEFAULTS = {f.name: f.default for f in fields(Conf)}
_POSITIVE = (
    "lease_seconds",
    "renewal_seconds",
    "time_limit_seconds",
    "give_back_seconds",
    "backoff_base_seconds",
    "backoff_max_seconds",
    "circuit_failures",
    "transport_timeout_seconds",
    "transport_patience_seconds",
    "tick_seconds",
    "receive_batch",
    "claim_batch",
    "claim_per_stream",
    "claim_bytes",
    "group_messages",
    "group_ms",
    "drain_seconds",
    "drains_per_source",
)


@cache
def conf() -> Conf:
    """Return the settings in force; raises InvalidSetting for a bad value or an unknown name."""
    given: dict[str, Any] = {name.lower(): value for name, value in getattr(settings, "QUEUES", {}).items()}
    known = {f.name for f in fields(Conf)}
    for name, value in given.items():
        if name not in known:
            raise InvalidSetting(name.upper(), value, "a known setting: " + ", ".join(sorted(n.upper() for n in known)))
    return Conf(**given)


@cache
def dead_letter_store() -> DeadLetterStore | None:
    """Return the store wired by DEAD_LETTER_STORE, or None."""
    path = conf().dead_letter_store
    return import_string(path)() if path else None


@cache
def classifiers() -> tuple[Classifier, ...]:
    """Return the classifiers in the order in which they are asked."""
    return (*(import_string(path) for path in conf().classifiers), *DEFAULT_CLASSIFIERS)


def _forget(*, setting: str, **_: Any) -> None:
    if setting == "QUEUES":
        conf.cache_clear()
        dead_letter_store.cache_clear()
        classifiers.cache_clear()


setting_changed.connect(_forget)
