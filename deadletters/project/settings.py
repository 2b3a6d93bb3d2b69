"""Settings of the stand-alone product, read from the environment.

Every variable is listed in the README's table. Without DATABASE_URL or CELERY_BROKER_URL the embedded
PostgreSQL or Valkey of the data directory is used.
"""

from datetime import timedelta
from pathlib import Path

import environ
import structlog
from csp.constants import NONE, SELF

from deadletters import embedded

env = environ.FileAwareEnv()

PACKAGE_DIR = Path(__file__).resolve().parent.parent
BASE_DIR = PACKAGE_DIR.parent
DATA_DIR = embedded.data_dir(env.str("DEADLETTERS_DATA_DIR", default=""))

DEBUG = env.bool("DEADLETTERS_DEBUG", default=False)
SECRET_KEY = env.str("DEADLETTERS_SECRET_KEY", default="") or embedded.secret_key(DATA_DIR)
ALLOWED_HOSTS = env.list("DEADLETTERS_ALLOWED_HOSTS", default=["127.0.0.1", "localhost", "[::1]"])
CSRF_TRUSTED_ORIGINS = env.list("DEADLETTERS_TRUSTED_ORIGINS", default=[])
GENERATION = env.str("DEADLETTERS_GENERATION", default="") or embedded.source_revision(BASE_DIR)

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

DATABASES = {"default": env.db_url("DATABASE_URL", default=embedded.database_url(DATA_DIR))}
DATABASES["default"]["CONN_HEALTH_CHECKS"] = True
DATABASES["default"].setdefault("CONN_MAX_AGE", 60)
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

CELERY_BROKER_URL = env.str("CELERY_BROKER_URL", default=embedded.broker_url(DATA_DIR))

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator")
]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "deadletters:letters"
LOGOUT_REDIRECT_URL = "login"

USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"

SOURCE_STATIC = BASE_DIR / "static"
STATIC_URL = "static/"
STATIC_ROOT = DATA_DIR / "static"
STATICFILES_DIRS = [SOURCE_STATIC] if SOURCE_STATIC.is_dir() else []
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}

HTTPS = env.bool("DEADLETTERS_HTTPS", default=False)
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
    "SERVICE": env.str("DEADLETTERS_SERVICE", default="deadletters"),
}

structlog.configure(
    processors=[
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        structlog.processors.JSONRenderer()
        if env.bool("DEADLETTERS_JSON_LOGS", default=False)
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
    "root": {"handlers": ["console"], "level": env.str("DEADLETTERS_LOG_LEVEL", default="INFO")},
}
