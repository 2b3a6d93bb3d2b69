"""Settings of the tests: those of the product, with quick password hashing and static files as they are."""

import atexit
import shutil
import tempfile
from pathlib import Path

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
QUEUES = {**PRODUCT_QUEUES, "RUN_DIR": RUN_DIR}

# WhiteNoise warns of a folder that nobody has collected static files into.
STATIC_ROOT = RUN_DIR
