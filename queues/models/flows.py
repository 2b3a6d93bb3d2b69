"""How many messages came, succeeded, died and left, per source."""

from django.db import models


class Flow(models.Model):
    """Numbers of messages: `removed` ones left without a verdict, deleted by hand or withdrawn."""

    sent = models.BigIntegerField(db_default=0)
    returned = models.BigIntegerField(db_default=0)
    succeeded = models.BigIntegerField(db_default=0)
    died = models.BigIntegerField(db_default=0)
    removed = models.BigIntegerField(db_default=0)

    class Meta:
        abstract = True


class FlowDelta(Flow):
    """A change of a source's flow: appended in the transaction of whoever writes work rows, eaten by the folder."""

    id = models.BigAutoField(primary_key=True)
    source = models.TextField()

    class Meta:
        db_table = "flow_deltas"


class FlowTotal(Flow):
    """The flow of a source without the deltas that still wait. Written by the folder alone; never deleted."""

    id = models.BigAutoField(primary_key=True)
    source = models.TextField()

    class Meta:
        db_table = "flow_totals"
        constraints = [
            # The folder adds to a source's one row.
            models.UniqueConstraint(name="flow_totals_once", fields=["source"]),
        ]
