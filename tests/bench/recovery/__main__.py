"""Shows a recovery of many letters, all of it by `manage.py dead_letters` and real Celery workers: `make recovery`.

A run whose canary stops it, since the handler is still broken; the same once it works, its workers all killed in the
middle, to the end; then a new build, which replays one group and leaves alone what a person holds. Wants an empty
database, and migrates it. Prints one JSON line and OK or FAILED.
"""

import json
import os
import sys
import tempfile
from argparse import ArgumentParser
from pathlib import Path

import django
from django.core.management import call_command


def main() -> None:
    parser = ArgumentParser(prog="python -m tests.bench.recovery", description=__doc__)
    parser.add_argument("--count", type=int, default=100_000, help="letters")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="deadletters-recovery-") as folder:
        os.environ |= {"DJANGO_SETTINGS_MODULE": "tests.bench.recovery.settings", "SHOW_FOLDER": folder}
        os.environ["SHOW_MENDED"] = str(Path(folder) / "mended")
        django.setup()
        call_command("migrate", verbosity=0)
        from tests.bench.recovery.show import Show

        result = Show(count=options.count, folder=Path(folder)).run()
    print(json.dumps(result))  # noqa: T201 - this is its output
    print("FAILED" if result["faults"] else "OK")  # noqa: T201
    sys.exit(bool(result["faults"]))


if __name__ == "__main__":
    main()
