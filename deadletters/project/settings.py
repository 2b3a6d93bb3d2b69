"""Settings of the stand-alone product, read from the environment.

Every variable is listed in the README's table. Without DATABASE_URL or CELERY_BROKER_URL the embedded
PostgreSQL or Valkey of the data directory is used.
"""

from datetime import timedelta
from pathlib import Path

import structlog
from csp.constants import NONE, SELF

from deadletters import embedded
from deadletters.embedded.errors import CannotStart
from deadletters.project.environment import database_settings, env, given_broker_url, given_database_url

PACKAGE_DIR = Path(__file__).resolve().parent.parent
BASE_DIR = PACKAGE_DIR.parent

try:
    DATA_DIR = embedded.data_dir(env.text("DEADLETTERS_DATA_DIR"))
    SECRET_KEY = env.text("DEADLETTERS_SECRET_KEY") or embedded.secret_key(DATA_DIR)
    DATABASE_URL = given_database_url() or embedded.database_url(DATA_DIR)
    CELERY_BROKER_URL = given_broker_url() or embedded.broker_url(DATA_DIR)
except CannotStart as exc:
    raise SystemExit(str(exc)) from None

DEBUG = env.flag("DEADLETTERS_DEBUG", default=False)
ALLOWED_HOSTS = env.words("DEADLETTERS_ALLOWED_HOSTS", ["127.0.0.1", "localhost", "[::1]"])
CSRF_TRUSTED_ORIGINS = env.words("DEADLETTERS_TRUSTED_ORIGINS", [])
GENERATION = env.text("DEADLETTERS_GENERATION") or embedded.source_revision(BASE_DIR)

INSTALLED_APPS = [
    "queues",
    "deadletters",
    "deadletters.demo",
    "django_celery_beat",
    "django_htmx",
    "csp",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.postgres",
    "django.contrib.staticfiles",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "deadletters.views.timing.EveryView",
]

ROOT_URLCONF = "deadletters.project.urls"
WSGI_APPLICATION = "deadletters.project.wsgi.application"

SOURCE_TEMPLATES = BASE_DIR / "templates"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [SOURCE_TEMPLATES] if SOURCE_TEMPLATES.is_dir() else [],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

DATABASES = {"default": database_settings(DATABASE_URL)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

DRAIN_SECONDS = 10
HANDLER_SECONDS = 300
CELERY_TASK_DEFAULT_QUEUE = "inbox"
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_TIME_LIMIT = DRAIN_SECONDS + HANDLER_SECONDS + 10
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = False  # the lease fences a drain that runs on
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_BEAT_SCHEDULER = "django_celery_beat.schedulers:DatabaseScheduler"
CELERY_TIMEZONE = "UTC"
if CELERY_BROKER_URL.startswith(("redis", "sentinel")):
    CELERY_BROKER_TRANSPORT_OPTIONS = {
        "visibility_timeout": CELERY_TASK_TIME_LIMIT + 10,
        "unacked_restore_interval": 10,
        "unacked_restore_throttle": 1,
        "socket_timeout": 30,
        "socket_connect_timeout": 5,
        "socket_keepalive": True,
        # A sender does not wait for a broker that is away: its wake-up is lost, and the tick finds the message.
        "max_retries": 1,
        "interval_start": 0,
        "interval_step": 0.1,
        "interval_max": 0.2,
    }

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator")
]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "deadletters:overview"
LOGOUT_REDIRECT_URL = "login"
CSRF_FAILURE_VIEW = "deadletters.views.errors.out_of_date"

USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"

SOURCE_STATIC = BASE_DIR / "static"
STATIC_URL = "static/"
STATIC_ROOT = DATA_DIR / "static"
STATICFILES_DIRS = [SOURCE_STATIC] if SOURCE_STATIC.is_dir() else []
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "deadletters.project.staticfiles.ModuleStorage"},
}

HTTPS = env.flag("DEADLETTERS_HTTPS", default=False)
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = HTTPS
SECURE_HSTS_SECONDS = int(timedelta(days=365).total_seconds()) if HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = HTTPS
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS else None
SESSION_COOKIE_HTTPONLY = True
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
    },
}

QUEUES = {
    "DEAD_LETTER_STORE": "deadletters.store.letters.Store",
    "GENERATION": GENERATION,
    "RUN_DIR": DATA_DIR / "run",
    "DRAIN_SECONDS": DRAIN_SECONDS,
    "TIME_LIMIT_SECONDS": HANDLER_SECONDS,
    "SERVICE": env.text("DEADLETTERS_SERVICE", "deadletters"),
    "ROUTES": {"shop.warehouse": "inbox"},  # the demo shop's
}

DEADLETTERS = {
    "OWN_CODE": env.words("DEADLETTERS_OWN_CODE", []),
    "REGION_SECONDS": env.number("DEADLETTERS_REGION_SECONDS", default=2, least=1, most=60),
    "PAGE_SECONDS": env.number("DEADLETTERS_PAGE_SECONDS", default=10, least=1, most=600),
}

LOG_LEVEL = env.choice("DEADLETTERS_LOG_LEVEL", default="INFO", among=("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"))
structlog.configure(
    processors=[
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        structlog.processors.JSONRenderer()
        if env.flag("DEADLETTERS_JSON_LOGS", default=False)
        else structlog.dev.ConsoleRenderer(colors=False),
    ],
    logger_factory=structlog.stdlib.LoggerFactory(),
    cache_logger_on_first_use=True,
)
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"plain": {"format": "%(message)s"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "plain"}},
    "root": {"handlers": ["console"], "level": LOG_LEVEL},
}
