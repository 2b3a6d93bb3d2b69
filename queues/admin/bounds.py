"""Change lists whose cost does not grow with their tables."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django.contrib.admin.views.main import SEARCH_VAR, ChangeList
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property

COUNT_CAP = 10_000
"""Rows that are counted, and that can be paged to; what is older is found by searching."""

if TYPE_CHECKING:
    _Paginator = Paginator[Any]
else:
    _Paginator = Paginator  # generic for the type checker only


class CappedPaginator(_Paginator):
    """Pages through at most COUNT_CAP rows, of which no more than one beyond is counted."""

    @cached_property
    def count(self) -> int:
        return min(self._found, COUNT_CAP)

    @property
    def is_capped(self) -> bool:
        return self._found > COUNT_CAP

    @cached_property
    def _found(self) -> int:
        rows = self.object_list
        if not isinstance(rows, QuerySet):
            return len(rows)
        return rows.order_by().values("pk")[: COUNT_CAP + 1].count()


class BoundedChangeList(ChangeList):
    """A change list in the order of its admin's index alone, and over what the admin lists."""

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet[Any]:
        if not request.GET.get(SEARCH_VAR):
            self.root_queryset = self.model_admin.listed(self.root_queryset)  # type: ignore[attr-defined]  # see reading.py
        return super().get_queryset(request, exclude_parameters)

    def get_results(self, request: HttpRequest) -> None:
        """Read the page; its foot alone says how many rows there are."""
        super().get_results(request)
        self.full_result_count = self.result_count
        self.counted = f"{self.result_count:,}{'+' if self.paginator.is_capped else ''}"

    def get_ordering(self, request: HttpRequest, queryset: QuerySet[Any]) -> Sequence[Any]:  # type: ignore[override]  # noqa: ARG002
        """Return the admin's ordering, whatever the address asks for: another would sort the whole table."""
        return list(self.model_admin.get_ordering(request))

    def apply_select_related(self, qs: QuerySet[Any]) -> QuerySet[Any]:
        """Join nothing."""
        return qs
