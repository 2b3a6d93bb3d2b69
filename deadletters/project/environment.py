"""Settings from the environment: a bad value stops the start with the variable's name and no traceback."""

from typing import Any
from urllib.parse import urlsplit

import environ
from django.core.exceptions import ImproperlyConfigured

TRUE = ("1", "on", "true", "yes")
FALSE = ("0", "off", "false", "no", "")


class Environment(environ.FileAwareEnv):  # type: ignore[misc]
    """django-environ, stricter: NAME_FILE is stripped, and what cannot be read ends the process by name."""

    def get_value(self, var: str, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().get_value(var, *args, **kwargs)
        except (ImproperlyConfigured, OSError, UnicodeError, ValueError) as exc:
            raise SystemExit(f"{var}: {exc}") from None

    def text(self, var: str, default: str = "") -> str:
        """Return a text without the white space around it."""
        return str(self.str(var, default=default)).strip()

    def flag(self, var: str, *, default: bool) -> bool:
        """Return yes or no; any other word ends the process."""
        given = self.text(var).lower()
        if not given:
            return default
        if given not in TRUE + FALSE:
            raise SystemExit(f"{var}: {given!r} is neither on nor off.")
        return given in TRUE

    def number(self, var: str, *, default: int, least: int, most: int) -> int:
        """Return a whole number within its bounds; anything else ends the process."""
        given = self.text(var) or str(default)
        if not (given.isascii() and given.isdigit() and least <= int(given) <= most):
            raise SystemExit(f"{var}: {given!r} is not a whole number from {least} to {most}.")
        return int(given)

    def words(self, var: str, default: list[str]) -> list[str]:
        """Return a comma-separated list."""
        return [word.strip() for word in self.text(var).split(",") if word.strip()] or default

    def choice(self, var: str, *, default: str, among: tuple[str, ...]) -> str:
        """Return one of the given words, without regard to case; anything else ends the process."""
        given = self.text(var) or default
        for word in among:
            if word.lower() == given.lower():
                return word
        raise SystemExit(f"{var}: {given!r} is not one of {', '.join(among)}.")

    def address(self, var: str, *, schemes: tuple[str, ...]) -> str:
        """Return a URL of one of the schemes, or nothing when the variable is not set."""
        given = self.text(var)
        if given and urlsplit(given).scheme not in schemes:
            raise SystemExit(f"{var}: it has to start with {' or '.join(f'{scheme}://' for scheme in schemes)}.")
        return given


env = Environment()
DATABASE_SCHEMES = ("postgresql", "postgres")
BROKER_SCHEMES = ("redis", "rediss", "redis+socket", "sentinel", "amqp", "amqps", "pyamqp", "memory")


def given_database_url() -> str:
    """Return DATABASE_URL, or nothing: then PostgreSQL is embedded."""
    return env.address("DATABASE_URL", schemes=DATABASE_SCHEMES)


def given_broker_url() -> str:
    """Return CELERY_BROKER_URL, or nothing: then Valkey is embedded."""
    return env.address("CELERY_BROKER_URL", schemes=BROKER_SCHEMES)


def database_settings(url: str) -> dict[str, Any]:
    """Return Django's settings for a PostgreSQL URL; libpq options such as sslmode ride in the query."""
    try:
        found: dict[str, Any] = env.db_url_config(url)
    except (ImproperlyConfigured, ValueError) as exc:
        raise SystemExit(f"DATABASE_URL: it cannot be read ({type(exc).__name__}).") from None
    options = found.setdefault("OPTIONS", {})
    found["HOST"] = options.pop("host", found["HOST"])  # the only form that keeps the case of a socket's path
    if not found["NAME"]:
        raise SystemExit("DATABASE_URL: it names no database.")
    return found | {"CONN_HEALTH_CHECKS": True, "CONN_MAX_AGE": found.get("CONN_MAX_AGE", 60)}
