"""Rows of `dead_letter_subscriptions`: types whose deaths somebody reacts to."""

from collections.abc import Sequence

from django.db import connection

_SUBSCRIBE = """
INSERT INTO dead_letter_subscriptions (message_type)
SELECT k.message_type FROM unnest(%s::text[]) AS k(message_type)
 WHERE NOT EXISTS (SELECT FROM dead_letter_subscriptions s WHERE s.message_type = k.message_type)
 ORDER BY k.message_type
ON CONFLICT (message_type) DO NOTHING
"""


def subscribe(message_types: Sequence[str]) -> int:
    """Add the types that are missing; return how many there were."""
    if not message_types:
        return 0
    with connection.cursor() as cursor:
        cursor.execute(_SUBSCRIBE, [list(message_types)])
        return int(cursor.rowcount)
