"""What things cost: `make bench`, or `make bench ONLY=name`. Makes a database of its own and drops it again."""

import argparse
import os
import sys
from collections.abc import Callable, Iterator

import django
from django.db import connection

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
    try:
        for name in asked.only or benches:
            for bench in benches[name]():
                for result in run(bench, patience_seconds=asked.patience):
                    sys.stdout.write(f"{result.line()}\n")
                    sys.stdout.flush()
    finally:
        creation.destroy_test_db(given, verbosity=0)


def _benches() -> dict[str, Callable[[], Iterator[Bench]]]:
    from tests.bench import inbox, moves, pages, runs  # they need Django's models

    return {
        "inbox_noop": inbox.noop,
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
