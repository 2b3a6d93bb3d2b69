"""The admin list over django-celery-results: asks for it with the query of each line it gets, and says the time.

Runs in an environment of its own, with the packages' own admin as it comes. Its first argument: JSON with `database`
(Django's settings of a database) and `rows`.
"""

import json
import sys
import time

import django
from django.conf import settings
from django.urls import path

SCHEMA = "celery_results"
ADDRESS = "/admin/django_celery_results/taskresult/"
GIVEN = json.loads(sys.argv[1])
ENGINES = [
    "django.template.context_processors.request",
    "django.contrib.auth.context_processors.auth",
    "django.contrib.messages.context_processors.messages",
]
WITHIN = {"OPTIONS": {"options": f"-c search_path={SCHEMA}"}}
settings.configure(
    ALLOWED_HOSTS=["*"],
    DATABASES={
        "default": {"ENGINE": "django.db.backends.postgresql", "CONN_MAX_AGE": None, **WITHIN, **GIVEN["database"]}
    },
    INSTALLED_APPS=[
        *("django.contrib.admin", "django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions"),
        *("django.contrib.messages", "django.contrib.staticfiles", "django_celery_results"),
    ],
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.messages.middleware.MessageMiddleware",
    ],
    ROOT_URLCONF=__name__,
    SECRET_KEY="bench",
    STATIC_URL="/static/",
    TEMPLATES=[
        {
            "BACKEND": "django.template.backends.django.DjangoTemplates",
            "APP_DIRS": True,
            "OPTIONS": {"context_processors": ENGINES},
        }
    ],
    USE_TZ=True,
)
django.setup()

from django.contrib import admin  # noqa: E402 - needs the settings
from django.contrib.auth.models import User  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import connection  # noqa: E402
from django.test import Client  # noqa: E402

urlpatterns = [path("admin/", admin.site.urls)]
FILL = """
INSERT INTO django_celery_results_taskresult (
       task_id, task_name, task_args, task_kwargs, status, worker, content_type, content_encoding, result, traceback,
       meta, date_created, date_done)
SELECT md5(n::text), 'shop.tasks.step_' || n % 40, '(' || n || ',)', '{"order": ' || n || '}',
       CASE WHEN n % 5 = 0 THEN 'SUCCESS' ELSE 'FAILURE' END, 'worker-' || n % 4, 'application/json', 'utf-8',
       '{"exc_type": "ConnectionError", "exc_message": ["warehouse-' || n % 13 || ' refused"]}',
       repeat('  File "/srv/shop/tasks.py", line ' || n % 900 || ', in run' || chr(10), 20) || 'ConnectionError', '{}',
       now() - n * interval '2.5 seconds', now() - n * interval '2.5 seconds'
  FROM generate_series(1, %s) n
"""


def fill() -> None:
    """Make the tables in their schema, and the rows."""
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE SCHEMA {SCHEMA}")
        call_command("migrate", verbosity=0)
        cursor.execute(FILL.replace(" % ", " %% "), [GIVEN["rows"]])
        cursor.execute("VACUUM ANALYZE django_celery_results_taskresult")


def main() -> None:
    fill()
    client = Client()
    client.force_login(User.objects.create_superuser("bench"))
    for line in sys.stdin:
        started = time.perf_counter()
        response = client.get(ADDRESS + line.strip())
        milliseconds = (time.perf_counter() - started) * 1_000
        if response.status_code != 200:
            raise RuntimeError(f"{line}: {response.status_code}")
        print(milliseconds, flush=True)  # noqa: T201 - this is its output


if __name__ == "__main__":
    main()
