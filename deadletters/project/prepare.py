"""Prepares the database and the static files before the processes start: migrations, an administrator, hashed files.

Run as a program by the runner; its last line of output says in JSON what the runner has to know.
"""

import hashlib
import json
import os
import secrets
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import django
from django.conf import settings
from django.contrib.auth.hashers import check_password
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command, get_commands
from django.db import OperationalError, connection
from kombu.exceptions import OperationalError as BrokerError

from deadletters.embedded.errors import CannotStart
from deadletters.embedded.places import write_private
from deadletters.project.celery import app

ADMINISTRATOR = "admin"
ADVISORY_LOCK = 0x6465_6164_6C74_7273
LOCK_SECONDS = 600
BROKER_SECONDS = 10


def main() -> int:
    """Prepare everything; returns the exit code."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "deadletters.project.settings")
    django.setup()
    try:
        with _alone():
            call_command("migrate", interactive=False, verbosity=1)
            password = administrator_password(settings.DATA_DIR / "login")
        collect_static(Path(settings.STATIC_ROOT))
        _reach_broker()
    except (CannotStart, OperationalError) as exc:
        sys.stderr.write(_sentence(exc) + "\n")
        return 1
    sys.stdout.write(json.dumps({"password": password, "has_demo": "demo_shop" in get_commands()}) + "\n")
    return 0


def administrator_password(login: Path) -> str | None:
    """Make the administrator when there is none; returns the password, or None when a person has changed it."""
    from django.contrib.auth.models import User

    kept = _kept_password(login)
    user = User.objects.filter(username=ADMINISTRATOR).first()
    if user is not None:
        return kept if kept and check_password(kept, user.password) else None
    password = kept or secrets.token_urlsafe(12)
    write_private(login, f"username: {ADMINISTRATOR}\npassword: {password}")  # first, so that it is never lost
    User.objects.create_superuser(ADMINISTRATOR, email="", password=password)
    return password


def collect_static(root: Path) -> None:
    """Hash and compress the static files when one of them has changed."""
    stamp, now = root.with_name("static.stamp"), _static_digest()
    if stamp.exists() and stamp.read_text() == now and root.is_dir():
        return
    stamp.unlink(missing_ok=True)
    call_command("collectstatic", interactive=False, clear=root.is_dir(), verbosity=0)
    stamp.write_text(now)


def _reach_broker() -> None:
    """Raise CannotStart when nobody answers at CELERY_BROKER_URL."""
    try:
        with app.connection_for_write() as broker:
            broker.ensure_connection(max_retries=1, interval_start=0, timeout=BROKER_SECONDS)
    except (BrokerError, OSError) as exc:
        raise CannotStart(f"The broker of CELERY_BROKER_URL cannot be used: {exc}.") from exc


@contextmanager
def _alone() -> Iterator[None]:
    """Hold an advisory lock of the database, so that two hosts do not migrate at once.

    It is tried again and again: waiting inside PostgreSQL would keep a snapshot, for which a concurrent index
    build of the one who migrates would wait in turn.
    """
    limit = time.monotonic() + LOCK_SECONDS
    with connection.cursor() as cursor:
        while not _try_lock(cursor):
            if time.monotonic() > limit:
                raise CannotStart("Somebody else has been migrating this database for ten minutes.")
            time.sleep(0.2)
        try:
            yield
        finally:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [ADVISORY_LOCK])


def _try_lock(cursor: Any) -> bool:
    cursor.execute("SELECT pg_try_advisory_lock(%s)", [ADVISORY_LOCK])
    return bool(cursor.fetchone()[0])


def _kept_password(login: Path) -> str | None:
    try:
        lines = login.read_text().splitlines()
    except FileNotFoundError:
        return None
    return next((line.removeprefix("password: ") for line in lines if line.startswith("password: ")), None)


def _static_digest() -> str:
    digest = hashlib.sha256(django.__version__.encode())
    for finder in get_finders():
        for name, storage in finder.list([]):
            found = Path(storage.path(name)).stat()
            digest.update(f"{name} {found.st_mtime_ns} {found.st_size}\n".encode())
    return digest.hexdigest()


def _sentence(exc: Exception) -> str:
    if isinstance(exc, CannotStart):
        return str(exc)
    return f"The database of DATABASE_URL cannot be used: {str(exc).strip().splitlines()[0]}"


if __name__ == "__main__":
    sys.exit(main())
