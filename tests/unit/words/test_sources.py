import pytest

from queues.words.sources import SOURCES, Queue


@pytest.mark.parametrize(
    "queue",
    [
        *(Queue(source=source) for source in SOURCES),
        Queue(source="wh_perspective_events", perspective="order_totals"),
        Queue(source="wh_perspective_events", perspective="a:b:"),
    ],
)
def test_a_queue_is_read_back_from_its_name(queue: Queue) -> None:
    assert Queue.named(queue.name) == queue


def test_a_perspective_has_a_queue_of_its_own() -> None:
    assert Queue(source="wh_perspective_events", perspective="a").name == "wh_perspective_events:a"
