"""A small memory-mapped file in which a drainer notes what it holds and what it runs.

It survives SIGKILL without a round trip for each message. The kernel drops the file's lock with its process,
so that whoever gets the lock knows that the owner is gone, and reads exactly which message was running.
"""

import fcntl
import mmap
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from uuid import UUID

from queues.store.claims import Held
from queues.words.sources import Queue

_HEAD = struct.Struct("<8s16s512s16sII")
_RUNNING = struct.Struct("<I")
_MAGIC = b"dl-run-2"
_IDS_AT = _HEAD.size + _RUNNING.size
_NOBODY = 0


@dataclass(frozen=True, kw_only=True)
class Noted:
    """What a drainer had noted: the claim, and the message that was running, if one was.

    No messages: what the claim got was not noted any more.
    """

    instance_id: UUID
    queue: Queue
    token: UUID
    messages: tuple[UUID, ...]
    streams: tuple[UUID, ...]
    running: UUID | None


class RunFile:
    """The file of this process, for at most `capacity` messages at once."""

    def __init__(self, folder: Path, instance_id: UUID, capacity: int) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path = folder / f"{instance_id}.run"
        self._instance_id = instance_id
        self._file = self.path.open("w+b", buffering=0)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        self._file.truncate(_IDS_AT + 32 * capacity)
        self._map = mmap.mmap(self._file.fileno(), 0)

    def claiming(self, queue: Queue, token: UUID) -> None:
        """Note that a claim is being made: what it gets is not known yet."""
        self.claimed(Held(queue=queue, token=token, messages=(), streams=()))

    def claimed(self, held: Held) -> None:
        """Note a claim; nothing of it runs yet."""
        self._set_running(_NOBODY)
        ids = b"".join(i.bytes for i in (*held.messages, *held.streams))
        self._map[_IDS_AT : _IDS_AT + len(ids)] = ids
        queue, counts = held.queue.name.encode(), (len(held.messages), len(held.streams))
        _HEAD.pack_into(self._map, 0, _MAGIC, self._instance_id.bytes, queue, held.token.bytes, *counts)

    def running(self, index: int) -> Self:
        """Note that the claim's message with this index runs, until the block ends that this begins."""
        self._set_running(index + 1)
        return self

    def __enter__(self) -> None:
        """Begin the block of a run, which is noted already."""

    def __exit__(self, *_: object) -> None:
        self._set_running(_NOBODY)

    def unrecorded(self, index: int) -> None:
        """Note for the next sweep that the claim's message with this index has run, and could not be recorded."""
        self._set_running(index + 1)

    def _set_running(self, number: int) -> None:
        _RUNNING.pack_into(self._map, _HEAD.size, number)

    def close(self) -> None:
        """Remove the file: this process holds nothing any more."""
        self.path.unlink(missing_ok=True)
        self.leave()

    def leave(self) -> None:
        """Leave the file to the next sweep, as if this process were gone: it could not settle what it holds."""
        self._map.close()
        self._file.close()


@contextmanager
def orphan(path: Path) -> Iterator[Noted | None]:
    """Yield what a dead drainer had noted, and remove its file when the block succeeds.

    None: the owner lives, another process is reading the file, or it notes nothing.
    """
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        yield None
        return
    try:
        if not _is_ours(descriptor):
            yield None
            return
        yield _read(os.pread(descriptor, os.fstat(descriptor).st_size, 0))
        path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def _is_ours(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return os.fstat(descriptor).st_nlink > 0


def _read(data: bytes) -> Noted | None:
    if len(data) < _IDS_AT or not data.startswith(_MAGIC):
        return None
    _, instance, queue, token, messages, streams = _HEAD.unpack_from(data)
    ids = [UUID(bytes=data[_IDS_AT + 16 * n : _IDS_AT + 16 * n + 16]) for n in range(messages + streams)]
    (running,) = _RUNNING.unpack_from(data, _HEAD.size)
    return Noted(
        instance_id=UUID(bytes=instance),
        queue=Queue.named(queue.rstrip(b"\0").decode()),
        token=UUID(bytes=token),
        messages=tuple(ids[:messages]),
        streams=tuple(ids[messages:]),
        running=ids[running - 1] if 0 < running <= messages else None,
    )
