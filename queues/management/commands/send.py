"""`manage.py send FILE|-`: messages from JSON Lines or CloudEvents JSON."""

import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from queues.conf import conf
from queues.sending import send_many
from queues.words.errors import InvalidMessage
from queues.words.messages import NewMessage, parse_line

BATCH = 200


class Command(BaseCommand):
    help = "Send messages to the inbox: one JSON object a line, our own form or a CloudEvent."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", help="a file, or - for standard input")

    def handle(self, *args: Any, **options: Any) -> None:
        """Store every good line; report every bad one by number and reason, and then exit with 1."""
        self.stored = self.seen = self.bad = 0
        batch: list[NewMessage] = []
        for message in self._messages(options["file"]):
            batch.append(message)
            if len(batch) >= BATCH:
                self._send(batch)
                batch = []
        self._send(batch)
        self.stderr.write(f"{self.stored} stored, {self.seen} sent before, {self.bad} refused")
        if self.bad:
            sys.exit(1)

    def _messages(self, name: str) -> Iterator[NewMessage]:
        limits = conf().payload_limits()
        for number, line in self._lines(name):
            try:
                if line is None:
                    raise InvalidMessage(f"longer than {limits.max_bytes:,} bytes")
                message = parse_line(line, limits=limits)
                message.encoded(limits)
            except InvalidMessage as exc:
                self.bad += 1
                self.stderr.write(f"line {number}: {exc}")
            else:
                yield message

    def _lines(self, name: str) -> Iterator[tuple[int, bytes | None]]:
        """Yield numbered lines without blank ones; None stands for a line over the limit."""
        with ExitStack() as stack:
            stream = self._open(name, stack)
            limit = conf().max_payload_bytes + 1
            number = 0
            while line := stream.readline(limit):
                number += 1
                whole = line.endswith(b"\n") or len(line) < limit
                while not whole and not (rest := stream.readline(limit)).endswith(b"\n") and rest:
                    continue
                if line.strip():
                    yield number, line.strip() if whole else None

    def _open(self, name: str, stack: ExitStack) -> IO[bytes]:
        if name == "-":
            return sys.stdin.buffer
        try:
            return stack.enter_context(Path(name).open("rb"))
        except OSError as exc:
            raise CommandError(f"{name}: {exc.strerror}") from exc

    def _send(self, batch: list[NewMessage]) -> None:
        if not batch:
            return
        with transaction.atomic():
            receipts = send_many(batch)
        self.stored += sum(receipt.is_new for receipt in receipts)
        self.seen += sum(not receipt.is_new for receipt in receipts)
