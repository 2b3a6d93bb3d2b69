"""What stops messages from being claimed: a person's pause, a destination that is down."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from queues.models.fields import in_calendar
from queues.models.work import Source


class PauseKind(models.TextChoices):
    """What a pause covers. A perspective is paused as the type of its events."""

    SOURCE = "source", "A whole source"
    TYPE = "type", "A message type or a perspective"
    DESTINATION = "destination", "A destination"


class SourcePause(models.Model):
    """A source, type or destination that an operator stopped; deleted when it is resumed.

    `value` is the type, perspective or destination, and empty for a whole source. Types are the inbox's, destinations
    the outbox's. Past `until` the pause is over, and stays as a row until somebody pauses the same again.
    """

    id = models.BigAutoField(primary_key=True)
    source = models.TextField(choices=Source)
    kind = models.TextField(choices=PauseKind)
    value = models.CharField(max_length=500, blank=True, db_default="")
    paused_by = models.TextField()
    paused_at = models.DateTimeField(db_default=Now())
    reason = models.TextField(blank=True, db_default="")
    until = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "source_pauses"
        verbose_name = "pause"
        constraints = [
            # The claim's "what of this source is paused?", and one pause for each thing.
            models.UniqueConstraint(name="source_pauses_once", fields=["source", "kind", "value"]),
            models.CheckConstraint(name="source_pauses_times_in_calendar", condition=in_calendar("paused_at", "until")),
            models.CheckConstraint(
                name="source_pauses_value_fits_kind",
                condition=Q(kind=PauseKind.SOURCE, value="") | (~Q(kind=PauseKind.SOURCE) & ~Q(value="")),
            ),
            models.CheckConstraint(
                name="source_pauses_source_has_kind",
                condition=Q(kind=PauseKind.SOURCE, source__in=(Source.INBOX, Source.OUTBOX, Source.PERSPECTIVE))
                | Q(kind=PauseKind.TYPE, source__in=(Source.INBOX, Source.PERSPECTIVE))
                | Q(kind=PauseKind.DESTINATION, source=Source.OUTBOX),
            ),
        ]

    def __str__(self) -> str:
        return f"pause of {self.get_source_display()} {self.value}".strip()


class CircuitState(models.TextChoices):
    """Whether messages are sent to a destination."""

    CLOSED = "closed", "Closed: messages flow"
    OPEN = "open", "Open: messages wait"
    HALF_OPEN = "half_open", "Half open: one message tries"


class Destination(models.Model):
    """The circuit of one destination of the outbox: its backlog burns no attempts while it is open."""

    id = models.BigAutoField(primary_key=True)
    name = models.CharField(max_length=500)
    state = models.TextField(choices=CircuitState, db_default=CircuitState.CLOSED)
    failures = models.IntegerField(db_default=0)
    opened_at = models.DateTimeField(null=True)
    retry_at = models.DateTimeField(null=True)
    last_error = models.TextField(null=True)
    changed_at = models.DateTimeField(db_default=Now())

    class Meta:
        db_table = "destination_circuits"
        constraints = [
            # A destination's circuit, before each publish.
            models.UniqueConstraint(name="destination_circuits_once", fields=["name"]),
            models.CheckConstraint(name="destination_circuits_state_known", condition=Q(state__in=CircuitState.values)),
            models.CheckConstraint(
                name="destination_circuits_times_in_calendar",
                condition=in_calendar("opened_at", "retry_at", "changed_at"),
            ),
            models.CheckConstraint(
                name="destination_circuits_open_has_times",
                condition=Q(state=CircuitState.CLOSED) | Q(opened_at__isnull=False, retry_at__isnull=False),
            ),
        ]
