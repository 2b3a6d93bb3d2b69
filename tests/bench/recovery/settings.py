"""Settings of the show's processes."""

import os
from pathlib import Path

from tests.settings import *  # noqa: F403
from tests.settings import INSTALLED_APPS as PRODUCT_APPS
from tests.settings import QUEUES as TEST_QUEUES

INSTALLED_APPS = ["tests.bench.recovery.apps.ShowConfig", *PRODUCT_APPS]
LOG_LEVEL = "WARNING"
QUEUES = {
    **TEST_QUEUES,
    "RUN_DIR": Path(os.environ["SHOW_FOLDER"]) / "run",
    "GENERATION": os.environ.get("SHOW_BUILD", "build-1"),
    "TICK_SECONDS": 1,
}
