"""`manage.py dead_letters` as a shell runs it."""

import io
import json
from types import SimpleNamespace
from typing import Any

from django.core.management import call_command
from django.core.management.base import CommandError


def run(*words: Any) -> SimpleNamespace:
    """Run the command; return its exit code and what it wrote."""
    out, err = io.StringIO(), io.StringIO()
    code: Any = 0
    try:
        call_command("dead_letters", *map(str, words), stdout=out, stderr=err)
    except SystemExit as exc:
        code = exc.code
    except CommandError as exc:
        code = exc.returncode
        err.write(str(exc))
    return SimpleNamespace(code=code, out=out.getvalue(), err=err.getvalue())


def objects(done: SimpleNamespace) -> list[dict[str, Any]]:
    """Return the JSON Lines that it wrote."""
    return [json.loads(line) for line in done.out.splitlines()]
