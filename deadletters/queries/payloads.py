"""Letters by what is in their payloads: a bounded look at the newest, of what everybody may see."""

import json
from collections.abc import Sequence
from uuid import UUID

from django.db.models import Func, IntegerField, QuerySet, TextField
from django.db.models.functions import Cast

from deadletters.models import DeadLetter
from deadletters.words.jsontexts import masked_json

SEARCHED = 1_000
"""How many of the newest letters are looked at."""
MAX_BYTES = 64 * 1024
"""Stored bytes of a payload that is looked into; a larger one is passed over."""
MAX_CHARACTERS = 128 * 1024
"""Characters of a payload that is masked whole before it is compared; of a longer one only its beginning is."""


class StoredBytes(Func):
    """What a value takes in the table, read without its body."""

    function = "pg_column_size"
    output_field = IntegerField()


def ids_with(letters: QuerySet[DeadLetter], text: str) -> Sequence[UUID]:
    """Return which of the newest SEARCHED letters hold a text in their payload.

    Secrets are masked before they are compared, so that a search does not spell out what a page hides.
    """
    newest = letters.order_by("-dead_lettered_at", "-dead_letter_id").values("dead_letter_id")[:SEARCHED]
    small = DeadLetter.objects.filter(dead_letter_id__in=newest).alias(stored=StoredBytes("envelope"))
    bodies = small.filter(stored__lte=MAX_BYTES).annotate(body=Cast("envelope", TextField()))
    wanted = json.dumps(text, ensure_ascii=False)[1:-1]
    found = bodies.filter(body__icontains=wanted).values_list("dead_letter_id", "body")
    return [letter_id for letter_id, body in found if wanted.casefold() in _visible(body)]


def _visible(body: str) -> str:
    return masked_json(body, "event_data", max_characters=MAX_CHARACTERS).text.casefold()
