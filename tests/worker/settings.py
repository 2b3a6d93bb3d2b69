"""Settings of the processes that the worker tests start: short times, and handlers that misbehave."""

import json
import os
from pathlib import Path

from tests.settings import *  # noqa: F403
from tests.settings import INSTALLED_APPS as PRODUCT_APPS
from tests.settings import QUEUES as TEST_QUEUES

INSTALLED_APPS = ["tests.worker.shop.apps.ShopConfig", *PRODUCT_APPS]
QUEUES = {
    **TEST_QUEUES,
    "RUN_DIR": Path(os.environ["TEST_RUN_DIR"]),
    "BACKOFF_BASE_SECONDS": 0.001,
    "GIVE_BACK_SECONDS": 60,
    "RENEWAL_SECONDS": 0.2,
    "ROUTES": {"here": "inbox"},
    **json.loads(os.environ.get("TEST_QUEUES", "{}")),
}
