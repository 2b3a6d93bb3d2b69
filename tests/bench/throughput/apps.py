"""The handlers of the throughput benches as an app of their own."""

from django.apps import AppConfig


class ThroughputConfig(AppConfig):
    name = "tests.bench.throughput"
    label = "throughput"
