"""Handlers that the worker tests drive: each writes a line for a start, and a row for its effect."""

import os
import re
import signal
import time
from pathlib import Path

from django.db import connection

from queues import Terminal, handles, projects


def _started(message):
    with Path(os.environ["TEST_STARTS"]).open("a") as file:
        file.write(f"{message.type} {message.payload}\n")


def _effect(message):
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO test_effects (message_id, payload) VALUES (%s, %s)", [message.id, str(message.payload)]
        )


def _wait_at_the_gate():
    while not Path(os.environ["TEST_GATE"]).exists():
        time.sleep(0.01)


@handles("test.Good")
def good(message):
    _started(message)
    _effect(message)


@handles("test.Kill", max_attempts=3)
def kill(message):
    _started(message)
    _effect(message)
    os.kill(os.getpid(), signal.SIGKILL)


@handles("test.Hang", max_attempts=1, time_limit=1)
def hang(message):
    _started(message)
    while True:
        time.sleep(0.05)


@handles("test.Stuck", max_attempts=1)
def stuck(message):
    """Match an expression that takes for ever, in C code that lets no other thread run."""
    _started(message)
    re.match(r"(a+)+$", "a" * 60 + "b")


@handles("test.FailKill", max_attempts=2)
def fail_then_kill(message):
    """Report a failure, and take the process the next time."""
    _started(message)
    if message.meta.attempts == 1:
        raise ValueError("the reported failure")
    os.kill(os.getpid(), signal.SIGKILL)


@handles("test.Hungry", max_attempts=3)
def hungry(message):
    """Ask for more memory than there is."""
    _started(message)
    bytearray(1 << 62)


@handles("test.Cut", max_attempts=2)
def cut(message):
    _started(message)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")


@handles("test.Gate")
def gate(message):
    """Wait until the test opens the gate; then leave the effect."""
    _started(message)
    _wait_at_the_gate()
    _effect(message)


@handles("test.Plain", max_attempts=2, atomic=False)
def plain(message):
    _started(message)
    assert not connection.in_atomic_block
    _effect(message)


@handles("test.PlainGate", atomic=False)
def plain_gate(message):
    """Wait outside any transaction until the test opens the gate; then leave the effect."""
    _started(message)
    _wait_at_the_gate()
    _effect(message)


@projects("test_totals", "test.Added", "test.GateAdded", "test.KillAdded", max_attempts=2, after_death="continue")
def add(message):
    _started(message)
    _effect(message)
    if message.type == "test.GateAdded":
        _wait_at_the_gate()
    if message.type == "test.KillAdded":
        os.kill(os.getpid(), signal.SIGKILL)


@handles("test.Terminal")
def terminal(message):
    _started(message)
    _effect(message)
    raise Terminal("declined")
