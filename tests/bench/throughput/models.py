"""What a handler of the benches writes, and the bare rows of the floors; the benches make the tables."""

from typing import ClassVar

from django.db import models


class Effect(models.Model):
    """One row for each message that was handled."""

    number = models.IntegerField()

    class Meta:
        managed = False
        db_table = "bench_effects"
        constraints: ClassVar = []
