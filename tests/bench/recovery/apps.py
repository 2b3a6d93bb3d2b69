"""The handlers of the show as an app of their own."""

from django.apps import AppConfig


class ShowConfig(AppConfig):
    name = "tests.bench.recovery"
    label = "recovery_show"
