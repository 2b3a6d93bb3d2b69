"""What a host's tests get from `queues.testing`, without a database."""

import pytest

from queues import Failure, Subject, Terminal, handles, on_dead_letter, projects
from queues.testing import NoHandler, apply, react, run
from queues.words.handlers import registry
from queues.words.messages import stream_uuid


@pytest.fixture(autouse=True)
def scratch():
    with registry.scratch():
        yield


def test_run_hands_a_handler_its_payload_as_a_drainer_would_and_returns_what_it_returns():
    handles("test.Echo", max_attempts=4)(lambda message: (message.payload, message.headers, message.meta))

    payload, headers, meta = run("test.Echo", {"n": 1.50}, headers={"a": "b"}, attempts=3, delays=1)

    assert (payload, headers) == ({"n": 1.5}, {"a": "b"})
    assert (meta.attempts, meta.delays, meta.max_attempts, meta.source) == (3, 1, 4, "wh_inbox")


def test_run_raises_what_the_handler_raises():
    @handles("test.Fail")
    def fail(message):
        raise Terminal("no")

    with pytest.raises(Terminal):
        run("test.Fail", None)


def test_apply_hands_a_projection_an_event_of_a_stream_and_a_version():
    projects("totals", "test.Added")(lambda message: (message.type, message.payload, message.meta))

    name, data, meta = apply("totals", "test.Added", [1], stream="order-7", version=5)

    assert (name, data) == ("test.Added", [1])
    assert (meta.stream_id, meta.version, meta.source) == (stream_uuid("order-7"), 5, "wh_perspective_events")


@pytest.mark.parametrize("asked", [("elsewhere", "test.Added"), ("totals", "test.Other")])
def test_apply_refuses_an_event_that_no_projection_applies(asked):
    projects("totals", "test.Added")(lambda message: None)

    with pytest.raises(NoHandler):
        apply(*asked, None)


def test_run_refuses_a_type_without_a_handler():
    with pytest.raises(NoHandler):
        run("test.Nobody", None)


def test_react_hands_over_a_dead_letter_with_its_payload_and_failure():
    on_dead_letter("test.Pay")(lambda letter: letter)

    failure = Failure(message="no", subjects=(Subject("order", "42"),), detail={"a": 1})
    letter = react("test.Pay", {"n": 1.50}, failure=failure, cause="terminal", headers={"a": "b"}, delays=2)

    assert (letter.payload, letter.headers, letter.type) == ({"n": 1.5}, {"a": "b"}, "test.Pay")
    assert (letter.failure, letter.cause, letter.meta.delays) == (failure, "terminal", 2)
    assert react("test.Pay", None).failure is None


@pytest.mark.parametrize("call", [lambda: react("test.Nobody", {}), lambda: run("dead_letter:test.Pay", {})])
def test_what_nothing_reacts_to_and_a_reaction_run_as_a_handler_are_refused(call):
    on_dead_letter("test.Pay")(lambda letter: letter)

    with pytest.raises(NoHandler):
        call()
