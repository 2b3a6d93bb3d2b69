"""Column types of the queues."""

from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import JSONField
from django.db.models.expressions import Expression


class JSONTextField(JSONField):
    """A jsonb column read as text.

    A message may nest deeper than the interpreter can parse; reading a list of rows must not raise for it.
    """

    def from_db_value(self, value: Any, _expression: Expression, _connection: BaseDatabaseWrapper) -> Any:
        return value
