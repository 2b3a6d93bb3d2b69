"""How often a message runs, and when it dies: design.md section 5 on a real inbox."""

from datetime import timedelta

import pytest

from deadletters.models import DeadLetter
from queues import Delay, Subject, Terminal, attributed, handles, send
from queues.models import DeliveryLogEntry
from queues.testing import drain
from queues.words.errors import InvalidSetting
from queues.words.outcomes import Cause, FailureReason

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("cap", [1, 2, 3])
def test_a_failing_message_runs_exactly_cap_times_and_dies_with_its_last_failure(cap, handlers, inbox_row, time_passes):
    runs = []

    @handles("test.Fail", max_attempts=cap)
    def fail(message):
        runs.append(message.meta.attempts)
        raise ValueError(f"run {message.meta.attempts}")

    message_id = send("test.Fail", {}).message_id
    for _ in range(cap + 2):
        drain()
        time_passes()

    letter = DeadLetter.objects.get(source_id=message_id)
    assert runs == list(range(1, cap + 1))
    assert inbox_row(message_id) is None
    assert letter.attempts_when_dlq == cap
    assert letter.error_line == f"ValueError: run {cap}"
    assert letter.cause == Cause.BUDGET_SPENT
    assert letter.failure_reason == FailureReason.MAX_ATTEMPTS_EXCEEDED
    logged = DeliveryLogEntry.objects.filter(message_id=message_id).order_by("id")
    assert [entry.attempt for entry in logged] == runs


def test_the_default_cap_is_ten_runs(handlers, time_passes):
    runs = []

    @handles("test.Fail")
    def fail(message):
        runs.append(1)
        raise ValueError

    send("test.Fail", {})
    for _ in range(12):
        drain()
        time_passes()

    assert len(runs) == 10


def test_a_message_without_a_limit_never_dies(handlers, inbox_row, time_passes):
    @handles("test.Fail", max_attempts=2)
    def fail(message):
        raise ValueError

    message_id = send("test.Fail", {}, max_attempts=-1).message_id
    for _ in range(15):
        drain()
        time_passes()

    assert inbox_row(message_id)["attempts"] == 15
    assert not DeadLetter.objects.exists()


def test_a_cap_of_zero_is_refused_where_it_is_written(handlers, settings):
    with pytest.raises(InvalidSetting, match="from 1"):
        handles("test.Zero", max_attempts=0)(lambda message: None)

    settings.QUEUES = {**settings.QUEUES, "MAX_ATTEMPTS": 0}
    from queues.conf import conf

    with pytest.raises(InvalidSetting, match="MAX_ATTEMPTS"):
        conf()


def test_a_message_may_not_exceed_the_ceiling_of_its_source(handlers, settings, time_passes):
    settings.QUEUES = {**settings.QUEUES, "MAX_ATTEMPTS_OVERRIDE": 2}
    runs = []

    @handles("test.Fail", max_attempts=1)
    def fail(message):
        runs.append(1)
        raise ValueError

    send("test.Fail", {}, max_attempts=-1)
    for _ in range(4):
        drain()
        time_passes()

    assert len(runs) == 2


def test_delays_burn_no_attempt_and_the_first_failure_after_them_waits_the_first_step(
    handlers, inbox_row, time_passes, sql
):
    seen = []

    @handles("test.NotYet", max_attempts=3)
    def not_yet(message):
        seen.append((message.meta.attempts, message.meta.delays))
        if message.meta.delays < 30:
            raise Delay(timedelta(hours=3))
        raise ValueError("for real")

    message_id = send("test.NotYet", {}).message_id
    for _ in range(31):
        time_passes()
        drain()

    row = inbox_row(message_id)
    assert seen == [(run + 1, run) for run in range(31)]
    assert (row["attempts"], row["delays"]) == (31, 30)
    (wait,) = sql("SELECT extract(epoch FROM scheduled_for - clock_timestamp()) AS s FROM wh_inbox")
    assert 0 < wait["s"] <= 5
    outcomes = list(DeliveryLogEntry.objects.order_by("id").values_list("outcome", flat=True))
    assert outcomes == ["delayed"] * 30 + ["failure"]


def test_a_delay_is_due_after_what_it_asked_by_the_database_clock(handlers, sql):
    @handles("test.Later")
    def later(message):
        raise Delay(timedelta(hours=3))

    send("test.Later", {})
    drain()

    (row,) = sql("SELECT scheduled_for - clock_timestamp() AS wait, failure_reason, error FROM wh_inbox")
    assert timedelta(hours=2, minutes=59) < row["wait"] <= timedelta(hours=3)
    assert row["error"] is None


def test_a_delay_keeps_the_last_real_failure(handlers, inbox_row, time_passes):
    @handles("test.Mixed")
    def mixed(message):
        if message.meta.attempts == 1:
            raise ValueError("the real one")
        raise Delay(60)

    message_id = send("test.Mixed", {}).message_id
    drain()
    time_passes()
    drain()

    assert inbox_row(message_id)["error"].startswith("ValueError: the real one")


def test_the_delay_over_the_cap_dies_with_its_own_text(handlers, time_passes):
    @handles("test.Ever", max_delays=2)
    def ever(message):
        raise Delay(60, "the bank is closed")

    message_id = send("test.Ever", {}).message_id
    for _ in range(3):
        drain()
        time_passes()

    letter = DeadLetter.objects.get(source_id=message_id)
    assert letter.cause == Cause.DELAY_CAP
    assert "the bank is closed" in letter.error_line
    assert (letter.attempts_when_dlq, letter.delays_when_dlq) == (3, 2)


def test_terminal_dies_on_this_attempt_with_its_cause_and_subjects(handlers):
    class CardDeclined(Exception):
        pass

    @handles("test.Charge", max_attempts=5)
    def charge(message):
        with attributed(Subject("order", message.payload["order_id"]), code="51"):
            raise Terminal(CardDeclined("do not honour"))

    message_id = send("test.Charge", {"order_id": 42}).message_id
    drain()

    letter = DeadLetter.objects.get(source_id=message_id)
    assert letter.cause == Cause.TERMINAL
    assert letter.attempts_when_dlq == 1
    assert "do not honour" in letter.error_text
    assert "CardDeclined" in letter.error_text
    assert letter.failure_detail == {"subjects": [{"type": "order", "id": "42"}], "detail": {"code": "51"}}
    assert list(letter.subjects.values_list("type", "id")) == [("order", "42")]


def test_a_failure_without_attribution_leaves_the_detail_null(handlers, sql):
    @handles("test.Plain", max_attempts=1)
    def plain(message):
        raise ValueError("nothing attached")

    send("test.Plain", {})
    drain()

    assert sql("SELECT failure_detail FROM wh_dead_letters") == [{"failure_detail": None}]


def test_a_lowered_cap_moves_the_row_at_its_next_turn_without_running_it(handlers, time_passes):
    runs = []

    @handles("test.Fail", max_attempts=5)
    def fail(message):
        runs.append(1)
        raise ValueError("third")

    send("test.Fail", {})
    for _ in range(3):
        drain()
        time_passes()
    with handlers.scratch():
        handlers._handlers.clear()
        handles("test.Fail", max_attempts=2)(fail)
        drain()

    letter = DeadLetter.objects.get()
    assert len(runs) == 3
    assert (letter.attempts_when_dlq, letter.error_line) == (3, "ValueError: third")
    assert DeliveryLogEntry.objects.count() == 3


def test_without_a_store_nothing_is_dead_lettered(handlers, settings, inbox_row, time_passes):
    settings.QUEUES = {**settings.QUEUES, "DEAD_LETTER_STORE": None}

    @handles("test.Fail", max_attempts=1)
    def fail(message):
        raise ValueError

    message_id = send("test.Fail", {}).message_id
    for _ in range(3):
        drain()
        time_passes()

    assert inbox_row(message_id) is not None
    assert not DeadLetter.objects.exists()
