"""The demo shop."""

from django.apps import AppConfig


class DemoConfig(AppConfig):
    name = "deadletters.demo"
    label = "demo"
    verbose_name = "Demo shop"
