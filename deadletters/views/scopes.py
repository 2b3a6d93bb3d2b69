"""The letters that a form is about: those that are picked in it, or all that match its filter."""

from dataclasses import replace
from urllib.parse import parse_qsl

from django.http import QueryDict

from deadletters.words.errors import BadFilter, BadScope
from deadletters.words.filters import LetterFilter
from deadletters.words.filters.listfilter import uuid_of
from deadletters.words.scopes import Letters, Matching

PICKED, MATCHING, EVERYTHING = "picked", "matching", "everything"


def scope_of(typed: QueryDict) -> Letters | Matching:
    """Read which letters are meant; raises BadScope, BadFilter.

    A form without a filter means no letter, unless it asks for everything.
    """
    scope = typed.get("scope")
    if scope == PICKED:
        ids = [uuid_of(text) for text in typed.getlist("letter")]
        return Letters(ids=[letter_id for letter_id in ids if letter_id is not None])
    if scope not in (MATCHING, EVERYTHING):
        raise BadScope("Say which letters: those that match a filter, or those that are picked.")
    filters = filters_of(typed)
    wants_everything = scope == EVERYTHING or typed.get("everything") == "yes"
    if filters.is_empty and not wants_everything:
        raise BadScope("No filter is given, which is every dead letter there is: say so, or filter first.")
    if scope == EVERYTHING and not filters.is_empty:
        raise BadScope("Everything is asked for, and a filter is given: say which.")
    return Matching(filters=filters)


def filters_of(typed: QueryDict) -> LetterFilter:
    """Read the filter that the form carries as a query string; raises BadFilter."""
    return replace(page_of(typed), after=None, size=LetterFilter.size)


def page_of(typed: QueryDict) -> LetterFilter:
    """Read the filter with the page of the list on which the form stands; raises BadFilter."""
    given = parse_qsl(typed.get("filter", ""))
    if len(dict(given)) != len(given):
        raise BadFilter("A filter is given twice; once is enough.")
    return LetterFilter.parse(dict(given))
