"""The shop of the worker tests."""

from django.apps import AppConfig


class ShopConfig(AppConfig):
    name = "tests.worker.shop"

    def ready(self) -> None:
        from tests.worker.shop import faults

        faults.arm()
