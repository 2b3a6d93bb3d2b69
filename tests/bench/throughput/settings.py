"""Settings of the benches' worker processes: those of the product, with the benches' handlers."""

import os

from tests.bench.throughput.rows import DESTINATION
from tests.settings import *  # noqa: F403
from tests.settings import INSTALLED_APPS as PRODUCT_APPS
from tests.settings import QUEUES as TEST_QUEUES

INSTALLED_APPS = ["tests.bench.throughput.apps.ThroughputConfig", *PRODUCT_APPS]
QUEUES = {**TEST_QUEUES, "ROUTES": {DESTINATION: {"transport": "kombu", "url": os.environ["BENCH_BROKER"]}}}
if "BENCH_GROUP" in os.environ:
    QUEUES["GROUP_MESSAGES"] = int(os.environ["BENCH_GROUP"])
