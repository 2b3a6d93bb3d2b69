"""Errors of the embedded services."""

import errno
from pathlib import Path

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
ABOUT_THE_FOLDER = FULL | {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EFBIG}
"""What the system refuses because of the place, so that a sentence about the place helps."""


class CannotStart(Exception):
    """Something cannot start; the text is the sentence that the person at the terminal reads."""


def unusable(path: Path, exc: OSError) -> CannotStart:
    """Say why a folder or file cannot be used."""
    if exc.errno in FULL:
        return disk_full(path)
    return CannotStart(f"{path} cannot be used: {(exc.strerror or str(exc)).lower()}.")


def disk_full(path: Path) -> CannotStart:
    """Say that there is no room left."""
    return CannotStart(f"The disk that holds {path} is full: make room, or set DEADLETTERS_DATA_DIR to another place.")
