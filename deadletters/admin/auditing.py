"""The base of admins that write: each change is an operator action in the same transaction."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder
from django.db import transaction
from django.db.models import Model, QuerySet
from django.http import HttpRequest

from deadletters.admin.reading import ReadingAdmin
from deadletters.store import audit
from deadletters.store.audit import Actor


class AuditedAdmin(ReadingAdmin):
    """A small table that those change who have its model permissions.

    thing: what the audit calls a row. stamped: columns that say who and when, set by the admin and not by hand.
    """

    thing = ""
    stamped: Sequence[str] = ()

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        by_hand = [field.name for field in self.opts.concrete_fields if field.editable and not field.primary_key]
        seen = ["seen"] if obj is not None and self.has_change_permission(request, obj) else []
        return [*(name for name in by_hand if obj is not None or name not in self.stamped), *seen]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:  # noqa: ARG002 - Django gives them
        return list(self.stamped) if obj is not None else []

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self._may(request, "add")

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:  # noqa: ARG002 - Django gives them
        return self._may(request, "change")

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:  # noqa: ARG002 - Django gives them
        return self._may(request, "delete")

    def _may(self, request: HttpRequest, verb: str) -> bool:
        wanted = f"{self.opts.app_label}.{verb}_{self.opts.model_name}"
        return self.has_view_permission(request) and request.user.has_perm(wanted)

    def stamp(self, row: Any, *, by: Actor, change: bool, form: Any) -> None:
        """Set who and when on a row that is about to be saved."""

    def subject_of(self, row: Any) -> Mapping[str, Any]:  # noqa: ARG002 - for subclasses
        """Return the letter or group that the audit names beside the change, as arguments of `record`."""
        return {}

    def carry_out(self, before: Any, after: Any) -> Mapping[str, Any]:  # noqa: ARG002 - for subclasses
        """Do what follows from a change of a row, in its transaction; return what the audit says of it.

        before, after: the row then and now, None where there is none.
        """
        return {}

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: Any) -> None:
        by = _actor(request)
        was = type(obj)._base_manager.select_for_update().get(pk=obj.pk) if change else None
        self.stamp(obj, by=by, change=change, form=form)
        with transaction.atomic():
            obj.save()
            obj.refresh_from_db()
            before, after = values_of(was) if was else None, values_of(obj)
            if before != after:
                after |= self.carry_out(was, obj)
                self._record(by, f"{self.thing}_{'changed' if change else 'added'}", obj, before, after)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        with transaction.atomic():
            follows = dict(self.carry_out(obj, None)) or None
            self._record(_actor(request), f"{self.thing}_deleted", obj, values_of(obj), follows)
            obj.delete()

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        with transaction.atomic():
            for row in queryset.select_for_update():
                self.delete_model(request, row)

    def _record(
        self, by: Actor, action: str, row: Any, before: dict[str, Any] | None, after: dict[str, Any] | None
    ) -> None:
        audit.record(actor=by, action=action, before=before, after=after, **self.subject_of(row))


def _actor(request: HttpRequest) -> Actor:
    return Actor(name=request.user.get_username(), id=str(request.user.pk))


def values_of(row: Model) -> dict[str, Any]:
    """Return a row's columns as JSON."""
    columns = {field.attname: field.value_from_object(row) for field in row._meta.concrete_fields}
    values: dict[str, Any] = json.loads(json.dumps(columns, cls=DjangoJSONEncoder))
    return values
