"""Where the embedded services of a data directory answer, running or not."""

import secrets
import subprocess
from importlib import metadata
from pathlib import Path
from urllib.parse import quote

from deadletters.embedded.places import Places, private_text

DATABASE = ROLE = "deadletters"


def secret_key(data: Path) -> str:
    """Return Django's secret key of this data directory; made on first need."""
    return private_text(data / "secret-key", lambda: secrets.token_urlsafe(64))


def database_password(data: Path) -> str:
    """Return the password of the embedded PostgreSQL's role; made on first need."""
    return private_text(data / "database-password")


def database_url(data: Path) -> str:
    """Return the URL of the embedded PostgreSQL, for Django and for libpq's programs alike."""
    host = quote(str(Places(data=data).sockets), safe="")
    return f"postgresql://{ROLE}:{database_password(data)}@/{DATABASE}?host={host}"


def broker_url(data: Path) -> str:
    """Return the URL of the embedded Valkey, for Celery."""
    return f"redis+socket://{quote(str(Places(data=data).valkey_socket))}"


def source_revision(base: Path) -> str:
    """Return the git revision of the checkout at this folder; elsewhere the installed version."""
    if (base / ".git").exists():
        command = ["git", "-C", str(base), "rev-parse", "--short=12", "HEAD"]
        try:
            return subprocess.run(command, capture_output=True, text=True, check=True, timeout=5).stdout.strip()
        except (OSError, subprocess.SubprocessError):
            pass  # no git here, or the checkout belongs to somebody else
    return metadata.version("deadletters")
