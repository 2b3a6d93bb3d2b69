"""The handlers of the soak as an app of their own."""

from django.apps import AppConfig


class SoakConfig(AppConfig):
    name = "tests.bench.soak"
    label = "soak"
