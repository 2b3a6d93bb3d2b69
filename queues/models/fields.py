"""Column types of the queues."""

from datetime import UTC, datetime
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import JSONField, Q
from django.db.models.expressions import Expression


class JSONTextField(JSONField):
    """A jsonb column read as text.

    A message may nest deeper than the interpreter can parse; reading a list of rows must not raise for it.
    """

    def from_db_value(self, value: Any, _expression: Expression, _connection: BaseDatabaseWrapper) -> Any:
        return value


FROM, BEFORE = datetime(1900, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)


def in_calendar(*columns: str) -> Q:
    """Return that times, where set, are ones that every reader knows: PostgreSQL also has infinity and 4713 BC."""
    return Q(*(Q(**{column: None}) | Q(**{f"{column}__gte": FROM, f"{column}__lt": BEFORE}) for column in columns))
