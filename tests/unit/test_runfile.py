"""The run file: what a drainer noted is read back when it is gone, and not before."""

import os
import uuid
from pathlib import Path

import pytest

from queues.runfile import Noted, RunFile, orphan
from queues.store.claims import Held
from queues.words.sources import Queue

LONGEST = Queue(source="wh_perspective_events", perspective="\N{GRINNING FACE}" * 100)


def killed_while_running(folder: Path, held: Held, index: int) -> tuple[uuid.UUID, Path]:
    """Note a claim and a run in a process that ends without a word."""
    instance_id = uuid.uuid4()
    child = os.fork()
    if child == 0:
        file = RunFile(folder, instance_id, capacity=4)
        file.claimed(held)
        with file.running(index):
            os._exit(0)
    os.waitpid(child, 0)
    return instance_id, folder / f"{instance_id}.run"


@pytest.mark.parametrize("queue", [Queue(source="wh_inbox"), LONGEST])
def test_what_a_dead_drainer_held_and_ran_is_read_back_with_its_queue(tmp_path: Path, queue: Queue) -> None:
    messages, streams = (tuple(uuid.uuid4() for _ in range(n)) for n in (3, 2))
    held = Held(queue=queue, token=uuid.uuid4(), messages=messages, streams=streams)
    instance_id, path = killed_while_running(tmp_path, held, 1)

    with orphan(path) as noted:
        assert noted == Noted(
            instance_id=instance_id,
            queue=queue,
            token=held.token,
            messages=messages,
            streams=streams,
            running=messages[1],
        )
    assert not path.exists()


def test_the_file_of_a_living_drainer_is_left_alone(tmp_path: Path) -> None:
    file = RunFile(tmp_path, uuid.uuid4(), capacity=4)
    file.claimed(Held(queue=LONGEST, token=uuid.uuid4(), messages=(), streams=()))

    with orphan(file.path) as noted:
        assert noted is None
    assert file.path.exists()
    file.close()
