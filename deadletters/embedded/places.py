"""Where the data live: the data directory, its parts, and the small private files in it."""

import hashlib
import os
import secrets
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISDIR

from deadletters.embedded.errors import CannotStart, unusable

SYSTEM_DATA_DIR = Path("/var/lib/deadletters")
MAX_SOCKET_PATH_BYTES = 107
LONGEST_SOCKET_NAME = ".s.PGSQL.5432.lock"


def data_dir(given: str) -> Path:
    """Return the data directory as an absolute path: the given one, else the platform's; nothing is made."""
    if given:
        return Path(given).expanduser().resolve()
    if os.geteuid() == 0:
        return SYSTEM_DATA_DIR
    try:
        home = Path.home()
    except RuntimeError as exc:
        raise CannotStart("This user has no home folder: set DEADLETTERS_DATA_DIR.") from exc
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "deadletters"
    return Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share") / "deadletters"


@dataclass(frozen=True, kw_only=True)
class Places:
    """The parts of one data directory."""

    data: Path

    @property
    def lock(self) -> Path:
        return self.data / "lock"

    @property
    def login(self) -> Path:
        return self.data / "login"

    @property
    def logs(self) -> Path:
        return self.data / "log"

    @property
    def postgres(self) -> Path:
        return self.data / "postgres"

    @property
    def valkey(self) -> Path:
        return self.data / "valkey"

    @property
    def programs(self) -> Path:
        return self.data / "programs"

    @property
    def sockets(self) -> Path:
        """Return the folder of the sockets: under /tmp when the data directory's path will not do for one.

        That is when it is too long, or has a comma, which separates hosts for libpq.
        """
        inside = self.data / "sockets"
        if len(os.fsencode(inside / LONGEST_SOCKET_NAME)) <= MAX_SOCKET_PATH_BYTES and "," not in str(inside):
            return inside
        name = hashlib.sha256(os.fsencode(self.data)).hexdigest()[:16]
        return Path("/tmp") / f"deadletters-{os.geteuid()}-{name}"  # noqa: S108 - owner and mode are checked

    @property
    def valkey_socket(self) -> Path:
        return self.sockets / "valkey"


def make_folder(path: Path, *, mode: int = 0o700, owner: tuple[int, int] | None = None) -> Path:
    """Make a folder of ours, or take the one that is there; a folder or link of somebody else is refused."""
    try:
        path.mkdir(mode=mode, parents=True, exist_ok=True)
        found = path.lstat()
        if not S_ISDIR(found.st_mode) or found.st_uid not in {os.geteuid(), *(owner or ())[:1]}:
            raise CannotStart(f"{path} belongs to somebody else: set DEADLETTERS_DATA_DIR to a folder of yours.")
        path.chmod(mode)
        if owner is not None:
            os.chown(path, *owner)
    except OSError as exc:
        raise unusable(path, exc) from exc
    return path


def make_data_dir(data: Path) -> Path:
    """Make the data directory; as root others may pass through it, since the servers run as somebody else."""
    if os.geteuid() != 0:
        return make_folder(data)
    try:
        data.mkdir(mode=0o711, parents=True, exist_ok=True)
        data.chmod(data.stat().st_mode & 0o777 | 0o111)
    except OSError as exc:
        raise unusable(data, exc) from exc
    return data


def private_text(path: Path, make: Callable[[], str] = secrets.token_urlsafe) -> str:
    """Return the text of a file that only its owner may read; made on first need, one winner in a race."""
    with suppress(FileNotFoundError):
        return _read(path)
    make_data_dir(path.parent)
    try:
        write_private(path, make(), replace=False)
    except FileExistsError:
        pass
    except OSError as exc:
        raise unusable(path, exc) from exc
    return _read(path)


def write_private(path: Path, text: str, *, replace: bool = True) -> None:
    """Write a file that only its owner may read, complete or not at all; raises FileExistsError unless replacing."""
    made = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        made.touch(mode=0o600, exist_ok=False)
        made.write_text(text + "\n")
        if os.geteuid() == 0:
            os.chown(made, *_owner(path.parent))
        if replace:
            made.replace(path)
        else:
            os.link(made, path)
    finally:
        made.unlink(missing_ok=True)


def _owner(folder: Path) -> tuple[int, int]:
    found = folder.stat()
    return found.st_uid, found.st_gid


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        raise
    except OSError as exc:
        raise unusable(path, exc) from exc
