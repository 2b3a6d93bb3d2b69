"""The base of admins that read: no write, no unbounded read, no secret."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.admin.utils import display_for_value
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import ValidationError
from django.db.models import Field, ForeignKey, Model, Q, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from queues.admin.bounds import BoundedChangeList, CappedPaginator
from queues.words.redaction import mask, mask_text
from queues.words.text import cut

MAX_TEXT = 4_000
"""Characters of a text that are shown."""

MAX_LINE = 120
"""Characters of a text that are shown in a list."""

EMPTY = "-"

if TYPE_CHECKING:
    _Admin = admin.ModelAdmin[Any]
else:
    _Admin = admin.ModelAdmin  # generic for the type checker only


class ReadingAdmin(_Admin):
    """Shows a table's rows without changing them; lists cost the same however many there are.

    heavy: columns that are never read. columns: what a page shows; empty = all but the heavy ones. searched: columns
    with an index by which a row is found, whole values only.
    list_filter names only columns with an index, or columns of small tables; nothing else is filtered by, since
    a lookup in the address could also spell out a masked value letter by letter.
    """

    heavy: Sequence[str] = ()
    searched: Sequence[str] = ()
    searched_words = ""
    columns: Sequence[Any] = ()
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    paginator = CappedPaginator
    list_per_page = 50
    list_max_show_all = 200
    sortable_by = ()
    actions_on_top = True

    def __init__(self, model: type[Model], admin_site: admin.AdminSite) -> None:
        super().__init__(model, admin_site)
        names = self.searched_words or ", ".join(name.replace("_", " ") for name in self.searched)
        self.search_help_text = f"Whole values of {names}."  # type: ignore[misc]  # said by each table

    def get_search_fields(self, request: HttpRequest) -> tuple[str, ...]:  # noqa: ARG002 - Django gives it
        return tuple(self.searched)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).defer(*self.heavy)

    def listed(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows that the list shows when nothing is searched for."""
        return rows

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:  # noqa: ARG002 - Django gives them
        return BoundedChangeList

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:  # noqa: ARG002 - Django gives them
        return lookup in {allowed for name in map(_filter_name, self.list_filter) for allowed in _lookups(name)}

    def get_search_results(
        self,
        request: HttpRequest,  # noqa: ARG002 - Django gives it
        queryset: QuerySet[Any],
        search_term: str,
    ) -> tuple[QuerySet[Any], bool]:
        term = search_term.strip()
        return (queryset.filter(self.matching(term)) if term else queryset), False

    def matching(self, term: str) -> Q:
        """Return which rows a search finds."""
        return self.found_by(term, self.searched)

    def found_by(self, term: str, names: Sequence[str]) -> Q:
        """Return which rows have the term in one of the columns; where it is no value of the column, none."""
        found = Q(pk__in=[])
        for name in names:
            value = _value(self.opts.get_field(name), term)
            if value is not None:
                found |= Q(**{name: value})
        return found

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:  # noqa: ARG002 - Django gives them
        if self.columns:
            return list(self.columns)
        shown = [field for field in self.opts.concrete_fields if field.name not in self.heavy]
        return [field.attname for field in sorted(shown, key=lambda field: not field.primary_key)]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        return self.get_fields(request, obj)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002 - Django gives it
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:  # noqa: ARG002 - Django gives them
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:  # noqa: ARG002 - Django gives them
        return False


def masked(name: str, label: str = "", *, limit: int = MAX_TEXT) -> Any:
    """Return an admin column that shows a text column cut and with its secrets masked."""

    @admin.display(description=label or name.replace("_", " "))
    def shown(row: Any) -> str:
        text = getattr(row, name)
        return EMPTY if text is None else mask_text(cut(text, limit))

    return shown


def masked_json(name: str, label: str = "") -> Any:
    """Return an admin column that shows a JSON column, one that this program wrote, masked and cut."""

    @admin.display(description=label or name.replace("_", " "))
    def shown(row: Any) -> str:
        value = getattr(row, name)
        return EMPTY if value is None else cut(json.dumps(mask(value), ensure_ascii=False), MAX_TEXT)

    return shown


def table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> SafeString | str:
    """Return rows of another table as an HTML table, or EMPTY when there are none."""
    if not rows:
        return EMPTY
    head = format_html_join("", '<th scope="col">{}</th>', ((heading,) for heading in headings))
    cells = (format_html_join("", "<td>{}</td>", ((_cell(value),) for value in row)) for row in rows)
    body = format_html_join("", "<tr>{}</tr>", ((row,) for row in cells))
    return format_html("<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table>", head, body)


def _cell(value: object) -> Any:
    """Show a value; text that others wrote with its secrets masked, markup of our own as it is."""
    is_text = isinstance(value, str) and not isinstance(value, SafeString)
    return display_for_value(mask_text(str(value)) if is_text else value, EMPTY)


def _filter_name(of: Any) -> str:
    return of if isinstance(of, str) else str(of.parameter_name)


def _lookups(name: str) -> tuple[str, ...]:
    return name, f"{name}__exact", f"{name}__isnull"


def _value(field: Any, term: str) -> object:
    column: Field[Any, Any] = field.target_field if isinstance(field, ForeignKey) else field
    try:
        return column.to_python(term)
    except (ValidationError, ValueError):
        return None
