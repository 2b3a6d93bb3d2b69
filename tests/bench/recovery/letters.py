"""The letters of the show: messages that are stored and moved as the engine does it, in sets."""

from django.db import connection

ORDER, SILENT, LATER = "show.Order", "show.Silent", "show.Later"
"""Most; those whose type is paused, so that they give no answer; those that only a new build handles."""
SILENT_SHARE = 1_000
"""One in so many is silent."""

_STORE = """
INSERT INTO wh_inbox (message_id, message_type, event_data, metadata, handler_name, stream_id, envelope_bytes)
SELECT gen_random_uuid(), CASE WHEN n %% %s = 501 AND %s = %s THEN %s ELSE %s END, to_jsonb(n), '{}', '',
       CASE WHEN n %% 5 = 0 THEN md5((n / 50)::text)::uuid END, 8
  FROM generate_series(0, %s - 1) n
"""
_MOVE = """
SELECT count(*) FROM move_batch_to_dead_letters('wh_inbox', (
       SELECT jsonb_agg(jsonb_build_object(
              'dead_letter_id', gen_random_uuid(), 'source_id', w.message_id, 'failure_reason', 99,
              'error_text', %s, 'cause', 'budget_spent', 'attempts', 1, 'fingerprint', %s, 'fingerprint_version', %s,
              'failure_detail', jsonb_build_object('subjects', jsonb_build_array(
                  jsonb_build_object('type', 'order', 'id', w.event_data #>> '{}')))))
         FROM (SELECT message_id, event_data FROM wh_inbox
                WHERE dead_letter_id IS NULL ORDER BY position LIMIT 1000) w), NULL, %s)
"""


def fails_again(number: int) -> bool:
    return number % 100 == 7


def fails_differently(number: int) -> bool:
    return number % 250 == 11


def make(message_type: str, count: int, *, build: str, error: str, fingerprint: tuple[str, int]) -> None:
    """Make so many letters of a type that died on a build; one in SILENT_SHARE of the orders is silent."""
    with connection.cursor() as cursor:
        cursor.execute(_STORE, [SILENT_SHARE, message_type, ORDER, SILENT, message_type, count])
        moved = 1
        while moved:
            cursor.execute(_MOVE, [error, *fingerprint, build])
            (moved,) = cursor.fetchone()
        cursor.execute("ANALYZE wh_dead_letters, dead_letter_deaths, dead_letter_subjects")
