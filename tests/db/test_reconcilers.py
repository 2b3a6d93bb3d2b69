"""What reconcilers of dead letters must do, built on `on_dead_letter`: a merge queue whose batches carry requests.

A message of the type merge.Speculate that dies fails batches: those that its failure is about, else its own. The
requests of a failed batch end as errors, the live batches of the queue are told to go on, once, and why is logged.
All of it is one transaction with the end of the reaction.
"""

import pytest

from deadletters.models import DeadLetter
from queues import Subject, attributed, handles, on_dead_letter, send
from queues.drainer import drain
from queues.models import InboxMessage
from queues.reactions import subscribe
from tests.db.conftest import move_by_hand

pytestmark = pytest.mark.django_db

TYPE = "merge.Speculate"
REACTION = "dead_letter:" + TYPE
LIVE = ("running", "cancelling")


class Queue:
    """The tables of the merge queue, and its reconciler."""

    def __init__(self, sql):
        self.sql = sql
        sql("CREATE TEMP TABLE batches (id text PRIMARY KEY, queue text, state text) ON COMMIT DROP")
        sql("CREATE TEMP TABLE requests (id text PRIMARY KEY, batch text, state text) ON COMMIT DROP")
        sql("CREATE TEMP TABLE request_log (request text, label text, error text, stage text) ON COMMIT DROP")

    def add(self, batch, state="running", *, requests=(), request_state="queued"):
        self.sql("INSERT INTO batches VALUES (%s, 'main', %s)", batch, state)
        for request in requests:
            self.sql("INSERT INTO requests VALUES (%s, %s, %s)", request, batch, request_state)

    def states(self, table="batches"):
        return {row["id"]: row["state"] for row in self.sql(f"SELECT id, state FROM {table}")}

    def log(self):
        return self.sql("SELECT * FROM request_log ORDER BY request")

    def reconcile(self, letter):
        label, batches = self.blamed(letter)
        moved = [batch for batch in batches if self.fail(batch)]
        for batch in batches:
            self.fail_requests(batch, letter, label)
        if moved:
            self.wake_the_next()

    def blamed(self, letter):
        own = letter.payload["batch_id"]
        if not own:
            raise ValueError("the batch id is empty")
        if letter.failure is None:
            return "unattributed", [own]
        if named := letter.failure.ids("batch"):
            return "batch", list(named)
        return ("queue" if letter.failure.ids("queue") else "unattributed"), [own]

    def fail(self, batch):
        """Fail a live batch; False = it is not there, or at its end already."""
        changed = "UPDATE batches SET state = 'failed' WHERE id = %s AND state = ANY (%s) RETURNING id"
        return bool(self.sql(changed, batch, list(LIVE)))

    def fail_requests(self, batch, letter, label):
        failed = self.sql(
            "UPDATE requests r SET state = 'error' FROM batches b WHERE r.batch = %s AND b.id = r.batch"
            " AND b.state = 'failed' AND r.state <> 'error' RETURNING r.id",
            batch,
        )
        failure = letter.failure
        for row in failed:
            self.write_log(
                row["id"], label, failure and failure.message, failure.detail.get("stage") if failure else None
            )

    def write_log(self, request, label, error, stage):
        self.sql("INSERT INTO request_log VALUES (%s, %s, %s, %s)", request, label, error, stage)

    def wake_the_next(self):
        live = self.sql("SELECT min(id) AS id FROM batches WHERE queue = 'main' AND state = ANY (%s)", list(LIVE))
        if live[0]["id"]:
            send("merge.WakeUp", {"batch_id": live[0]["id"]})

    def woken(self):
        return [row.event_data for row in InboxMessage.objects.filter(message_type="merge.WakeUp")]


@pytest.fixture
def queue(sql, handlers):
    """Let speculation fail with what the test puts into the message, and reconcile what died."""
    made = Queue(sql)

    @handles(TYPE, max_attempts=1)
    def speculate(message):
        subjects = [Subject(*pair) for pair in message.payload.get("about", ())]
        with attributed(*subjects, **message.payload.get("detail", {})):
            raise ValueError("no path merges")

    handles("merge.WakeUp")(lambda message: None)
    on_dead_letter(TYPE, max_attempts=3)(lambda letter: made.reconcile(letter))
    subscribe()
    return made


def die(batch, about=(), **detail):
    """Let a message about a batch die, up to the message that tells of it."""
    send(TYPE, {"batch_id": batch, "about": about, "detail": detail})
    drain("wh_inbox", seconds=None)


def without_wake_ups(monkeypatch):
    """Keep the wake-ups in the inbox, to be read."""
    woken = []
    monkeypatch.setattr(Queue, "wake_the_next", lambda queue: woken.append(queue.states()))
    return woken


def test_a_batch_subject_that_names_another_batch_fails_that_one(queue):
    queue.add("b1", requests=["r1"])
    queue.add("b2", requests=["r2", "r3"])

    die("b1", [("batch", "b2"), ("request", "r1")], stage="read dependency")

    assert queue.states() == {"b1": "running", "b2": "failed"}
    assert queue.states("requests") == {"r1": "queued", "r2": "error", "r3": "error"}
    said = {"label": "batch", "error": "ValueError: no path merges", "stage": "read dependency"}
    assert queue.log() == [{"request": name, **said} for name in ("r2", "r3")]


@pytest.mark.parametrize(
    ("about", "label"),
    [([("queue", "main")], "queue"), ([], "unattributed"), ([("request", "r2")], "unattributed")],
    ids=["a queue subject", "a message only", "a request subject"],
)
def test_without_a_batch_subject_the_message_s_own_batch_fails(queue, about, label):
    queue.add("b1", requests=["r1"])
    queue.add("b2", requests=["r2"])

    die("b1", about)

    assert queue.states() == {"b1": "failed", "b2": "running"}
    assert [(row["request"], row["label"]) for row in queue.log()] == [("r1", label)]


@pytest.mark.parametrize("error", [None, ""])
def test_no_recorded_failure_blames_the_message_s_batch_and_is_not_an_empty_one(queue, error):
    queue.add("b1", requests=["r1"])

    move_by_hand(send(TYPE, {"batch_id": "b1"}).message_id, error=error)
    drain("wh_inbox", seconds=None)

    assert queue.states() == {"b1": "failed"}
    assert [(row["label"], row["error"]) for row in queue.log()] == [("unattributed", error)]


def test_live_batches_that_remain_are_woken_once_by_the_smallest_id(queue, handlers):
    woken = []
    for batch in ("b3", "b2", "b1"):
        queue.add(batch)
    with handlers.scratch() as scratch:
        scratch._handlers.pop("merge.WakeUp")
        handles("merge.WakeUp")(lambda message: woken.append(message.payload))
        die("b1")

    assert woken == [{"batch_id": "b2"}]


def test_no_wake_up_is_sent_when_no_live_batch_remains(queue):
    queue.add("b1")
    queue.add("b2", "succeeded")

    die("b1")

    assert not DeadLetter.objects.exclude(message_type=TYPE).exists()
    assert queue.woken() == []


def test_a_batch_that_has_failed_already_gets_its_requests_repaired_and_wakes_nobody(queue, monkeypatch):
    woken = without_wake_ups(monkeypatch)
    queue.add("b1", "failed", requests=["r1"])
    queue.add("b2")

    die("b1")

    assert queue.states("requests") == {"r1": "error"}
    assert woken == []


@pytest.mark.parametrize("state", ["succeeded", "cancelled"])
def test_a_batch_at_its_end_is_left_alone(queue, state, monkeypatch):
    woken = without_wake_ups(monkeypatch)
    queue.add("b1", state, requests=["r1"])
    queue.add("b2")

    die("b1")

    assert queue.states() == {"b1": state, "b2": "running"}
    assert queue.states("requests") == {"r1": "queued"}
    assert woken == []


def test_a_batch_that_is_being_cancelled_fails_with_its_requests(queue):
    queue.add("b1", "cancelling", requests=["r1"], request_state="cancelling")

    die("b1")

    assert (queue.states(), queue.states("requests")) == ({"b1": "failed"}, {"r1": "error"})


def test_a_batch_that_is_not_there_is_done_with(queue):
    die("nowhere")

    assert not InboxMessage.objects.exists()
    assert [letter.message_type for letter in DeadLetter.objects.all()] == [TYPE]


def broken_once(monkeypatch, name):
    """Let one step of the reconciler fail at its first call, after it has done its work."""
    whole, calls = getattr(Queue, name), []

    def breaks(queue, *arguments):
        calls.append(name)
        done = whole(queue, *arguments)
        if len(calls) == 1:
            raise ConnectionError("the store is away")
        return done

    monkeypatch.setattr(Queue, name, breaks)


@pytest.mark.parametrize("step", ["fail", "write_log", "wake_the_next"])
def test_an_error_at_any_step_undoes_the_others_and_the_next_run_does_all_of_them_once(
    queue, step, monkeypatch, time_passes
):
    """A batch that is failed, and whose wake-up is not sent, would look failed already: the queue would be stranded."""
    broken_once(monkeypatch, step)
    queue.add("b1", requests=["r1"])
    queue.add("b2")

    die("b1")
    assert queue.states() == {"b1": "running", "b2": "running"}
    assert (queue.log(), queue.woken()) == ([], [])
    assert [(row.message_type, row.attempts) for row in InboxMessage.objects.all()] == [(REACTION, 1)]

    woken = []
    monkeypatch.setattr("tests.db.test_reconcilers.send", lambda kind, payload: woken.append(payload["batch_id"]))
    time_passes()
    drain("wh_inbox", seconds=None)
    assert queue.states() == {"b1": "failed", "b2": "running"}
    assert ([row["request"] for row in queue.log()], woken) == (["r1"], ["b2"])


@pytest.mark.parametrize("payload", [{"batch_id": ""}, {}, [], "b1", None])
def test_a_malformed_payload_or_an_empty_id_is_an_error_and_ends_as_a_dead_letter_of_its_own(
    queue, payload, time_passes
):
    queue.add("b1", requests=["r1"])
    move_by_hand(send(TYPE, payload).message_id)
    for _ in range(3):
        drain("wh_inbox", seconds=None)
        time_passes()

    assert queue.states() == {"b1": "running"}
    letter = DeadLetter.objects.get(message_type=REACTION)
    assert (letter.attempts_when_dlq, letter.cause) == (3, "budget_spent")


def test_a_second_death_of_the_same_message_is_reconciled_as_one_of_its_own(queue, sql):
    """The first one's outcome is not taken for the second's: each death is told."""
    queue.add("b1", requests=["r1"])
    die("b1")
    sql("UPDATE batches SET state = 'running'")
    sql("UPDATE requests SET state = 'queued'")

    sql("SELECT recover_dead_letter(%s, 'ann')", DeadLetter.objects.get().pk)
    drain("wh_inbox", seconds=None)

    assert (queue.states(), queue.states("requests")) == ({"b1": "failed"}, {"r1": "error"})
    assert len(queue.log()) == 2
