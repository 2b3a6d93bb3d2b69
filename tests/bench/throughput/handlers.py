"""What becomes of the benches' messages: nothing, or one row each."""

from queues import handles, projects
from tests.bench.throughput.models import Effect
from tests.bench.throughput.rows import EVENT, NOTHING, PERSPECTIVE, WRITE


@handles(NOTHING)
def do_nothing(message):
    pass


@handles(WRITE)
def write_one_row(message):
    Effect.objects.create(number=message.payload["number"])


@projects(PERSPECTIVE, EVENT)
def apply_nothing(message):
    pass
