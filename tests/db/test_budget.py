"""How often a message of the inbox runs, and when it dies; what all sources share is in test_budget_sources."""

from datetime import timedelta

import pytest

from deadletters.models import DeadLetter
from queues import Delay, Subject, Terminal, attributed, handles, send
from queues.testing import drain
from queues.words.errors import InvalidSetting
from queues.words.outcomes import Cause

pytestmark = pytest.mark.django_db


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


def test_a_cap_of_zero_is_refused_where_it_is_written(handlers, settings):
    with pytest.raises(InvalidSetting, match="from 1"):
        handles("test.Zero", max_attempts=0)(lambda message: None)

    settings.QUEUES = {**settings.QUEUES, "MAX_ATTEMPTS": 0}
    from queues.conf import conf

    with pytest.raises(InvalidSetting, match="MAX_ATTEMPTS"):
        conf()


def test_a_handler_sees_how_often_it_ran_with_this_run_and_how_often_it_delayed(handlers, time_passes):
    seen = []

    @handles("test.NotYet", max_attempts=3)
    def not_yet(message):
        seen.append((message.meta.attempts, message.meta.delays))
        raise Delay(timedelta(hours=3)) if message.meta.delays < 3 else ValueError

    send("test.NotYet", {})
    for _ in range(6):
        time_passes()
        drain()

    assert seen == [(1, 0), (2, 1), (3, 2), (4, 3), (5, 3), (6, 3)]


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
