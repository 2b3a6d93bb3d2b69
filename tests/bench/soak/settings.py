"""Settings of the soak's processes: short waits, so that what fails is dead before the end."""

import os
from pathlib import Path

from tests.settings import *  # noqa: F403
from tests.settings import INSTALLED_APPS as PRODUCT_APPS
from tests.settings import QUEUES as TEST_QUEUES

INSTALLED_APPS = ["tests.bench.soak.apps.SoakConfig", *PRODUCT_APPS]
LOG_LEVEL = "WARNING"
BROKER = os.environ.get("SOAK_BROKER", "")
QUEUES = {
    **TEST_QUEUES,
    "RUN_DIR": Path(os.environ["SOAK_FOLDER"]) / "run",
    "ROUTES": {"soak.*": {"transport": "kombu", "url": BROKER} if BROKER else "inbox"},
    "MAX_ATTEMPTS": 3,
    "BACKOFF_BASE_SECONDS": 0.1,
    "BACKOFF_MAX_SECONDS": 1,
    "DRAIN_SECONDS": 2,
    "TICK_SECONDS": 0.5,
}
