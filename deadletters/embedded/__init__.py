"""PostgreSQL and Valkey from wheels, run in a data directory; placeholders until the launcher lands."""

import os
import subprocess
from pathlib import Path


def data_dir(given: str) -> Path:
    return Path(given or "/var/lib/deadletters")


def secret_key(data: Path) -> str:
    return "insecure-placeholder"


def source_revision(base: Path) -> str:
    return "dev"


def database_url(data: Path) -> str:
    return "postgresql:///postgres"


def broker_url(data: Path) -> str:
    return "redis://"
