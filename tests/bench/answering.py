"""Processes that answer a line with a line of JSON."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ROOT = Path(__file__).parents[2]


class Answering:
    """A process that is asked by a line on its standard input, and answers each with a line of JSON.

    environment: without one the process has ours.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self._command = command
        self._environment = os.environ if environment is None else environment

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command,
            env=self._environment,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()

    def tell(self, line: str) -> None:
        """Send a line without waiting for what comes of it."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def answer(self) -> Any:
        """Wait for an answer and return it; raises RuntimeError when the process ended instead."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._command[-2:]} ended without an answer")
        return json.loads(line)

    def ask(self, line: str) -> Any:
        """Send a line and return the answer."""
        self.tell(line)
        return self.answer()
