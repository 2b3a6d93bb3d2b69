"""Settings of the tests: those of the product, with quick password hashing and static files as they are."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

from deadletters.project import settings as product
from deadletters.project.settings import *  # noqa: F403
from deadletters.project.settings import QUEUES as PRODUCT_QUEUES

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.InMemoryStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}

# Each test process notes its runs apart: a sweep must not find those of another database.
RUN_DIR = Path(tempfile.mkdtemp(prefix="deadletters-test-"))
atexit.register(shutil.rmtree, RUN_DIR, ignore_errors=True)
QUEUES = {
    **PRODUCT_QUEUES,
    "RUN_DIR": RUN_DIR,
    "WAKEUP_FOLD_MS": 0,  # a test sees its own wake-ups only, each at once
}

# WhiteNoise warns of a folder that nobody has collected static files into.
STATIC_ROOT = RUN_DIR

# Test processes share a broker, and each has a database of its own: their wake-ups must not cross.
if product.CELERY_BROKER_URL.startswith("redis"):
    CELERY_BROKER_TRANSPORT_OPTIONS = {
        **product.CELERY_BROKER_TRANSPORT_OPTIONS,
        "global_keyprefix": f"{os.environ.get('PYTEST_XDIST_WORKER', 'only')}-",
    }
