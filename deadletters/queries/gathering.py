"""Several small reads in one round trip."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connection
from django.db.models import Field, Model, QuerySet


@dataclass(frozen=True, kw_only=True)
class Part:
    """A read of a few rows of one model, in their order: of all columns, those in `only`, or those not in `without`."""

    rows: QuerySet[Any]
    only: Sequence[str] = ()
    without: Sequence[str] = ()

    @property
    def fields(self) -> "Mapping[str, Field[Any, Any]]":
        """The columns that are read, in the model's order, by name of the column."""
        known = self.rows.model._meta.concrete_fields
        return {str(field.column): field for field in known if self._is_read(field.attname)}

    def _is_read(self, name: str) -> bool:
        return name in self.only if self.only else name not in self.without


def gather(**parts: Part) -> Mapping[str, list[Any]]:
    """Return the rows of each part as instances of its model; columns that were not read are deferred.

    One statement, so that all of it is of one moment. For small rows only: they travel as JSON.
    """
    statements: list[str] = []
    parameters: list[Any] = []
    for part in parts.values():
        values = part.rows.values(*(field.attname for field in part.fields.values()))
        statement, given = values.query.sql_with_params()
        statements.append(f"(SELECT coalesce(json_agg(p), '[]')::text FROM ({statement}) p)")  # noqa: S608 - the ORM's
        parameters += given
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(statements)}", parameters)
        found = cursor.fetchone()
    return {name: _instances(part, json.loads(text)) for (name, part), text in zip(parts.items(), found, strict=True)}


def _instances(part: Part, rows: Sequence[Mapping[str, Any]]) -> list[Model]:
    model: type[Model] = part.rows.model
    names = [field.attname for field in part.fields.values()]
    return [
        model.from_db(DEFAULT_DB_ALIAS, names, [field.to_python(row[name]) for name, field in part.fields.items()])
        for row in rows
    ]
