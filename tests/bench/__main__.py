"""What things cost: `make bench`, or `make bench ONLY=name`. Makes a database of its own and drops it again."""

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial

import django
from django.db import connection

from tests.bench import machine
from tests.bench.harness import Bench, run


def main() -> None:
    """Run the benches; each result is a line of JSON."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    django.setup()
    benches = _benches()
    asked = _asked(sorted(benches))
    creation = connection.creation
    given = connection.settings_dict["NAME"]
    creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
    machine.say(_server())
    try:
        for name in asked.only or benches:
            for bench in benches[name]():
                for result in run(bench, patience_seconds=asked.patience):
                    sys.stdout.write(f"{result.line()}\n")
                    sys.stdout.flush()
    finally:
        creation.destroy_test_db(given, verbosity=0)


def _server() -> str:
    """Return what of the server's settings decides how long a commit takes."""
    said = []
    with connection.cursor() as cursor:
        for name in ("server_version", "fsync", "synchronous_commit", "full_page_writes"):
            cursor.execute(f"SHOW {name}")
            said.append(f"{name} {cursor.fetchone()[0]}")
    return ", ".join(said)


def _benches() -> dict[str, Callable[[], Iterator[Bench]]]:
    from tests.bench import moves, pages, runs  # they need Django's models
    from tests.bench.throughput import backlog, benches

    scale = benches.Scale()
    return {
        "inbox_noop": partial(benches.inbox_noop, scale),
        "inbox_write": partial(benches.inbox_write, scale),
        "outbox_redis": partial(benches.outbox_redis, scale),
        "perspective_apply": partial(benches.perspective_apply, scale),
        "two_workers": partial(benches.two_workers, scale),
        "drain_backlog": partial(backlog.drain_backlog, scale),
        "move_many": moves.many,
        "move_one": moves.one,
        "run_freeze": runs.freeze,
        "run_dispatch": runs.dispatch,
        "recovery_due": runs.due,
        "pages_1m": pages.pages_1m,
        "admin_rival": pages.admin_rival,
    }


def _asked(names: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench", description="Measure what things cost.")
    parser.add_argument("only", nargs="*", choices=[[], *names], help="one of these; all without")
    parser.add_argument(
        "--patience", type=float, default=30, metavar="SECONDS", help="wait so long for an idle machine; 0: do not"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
