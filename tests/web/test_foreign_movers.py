"""A mover in plain SQL, without Python: its letters are found and shown like any other."""

import pytest
from django.db import connection

from deadletters import counting
from deadletters.models import DeadLetter, FailureGroup

pytestmark = pytest.mark.django_db

STRUCTURE = """'{"subjects": [{"type": "order", "id": "42/7"}], "detail": {"tries": 3}}'"""
ROWS = {
    "wh_inbox": f"""
        INSERT INTO wh_inbox (message_id, message_type, event_data, error, failure_detail)
        VALUES (gen_random_uuid(), 'by.Hand', '{{"n": 1970670598291982291}}', 'shop.Refused: no', {STRUCTURE})
        RETURNING message_id
    """,
    "wh_outbox": f"""
        INSERT INTO wh_outbox (message_id, message_type, destination, event_data, metadata, error, failure_detail)
        VALUES (gen_random_uuid(), 'by.Hand', 'bank', '{{"n": 1970670598291982291}}', '{{}}', 'shop.Refused: no',
                {STRUCTURE})
        RETURNING message_id
    """,
    "wh_perspective_events": f"""
        INSERT INTO wh_perspective_events (event_work_id, stream_id, perspective_name, event_id, error, failure_detail)
        VALUES (gen_random_uuid(), gen_random_uuid(), 'totals', gen_random_uuid(), 'shop.Refused: no', {STRUCTURE})
        RETURNING event_work_id
    """,
}


@pytest.fixture(params=ROWS)
def letter(request):
    """Move a row written by hand with the seven arguments of the source."""
    with connection.cursor() as cursor:
        cursor.execute(ROWS[request.param])
        cursor.execute(
            "SELECT move_to_dead_letters(gen_random_uuid(), %s, %s, 2, 'attempts=11 > max=10', NULL, 'build-1')",
            [request.param, cursor.fetchone()[0]],
        )
        moved = cursor.fetchone()[0]
    counting.fold()
    return DeadLetter.objects.get(pk=moved)


def test_it_is_found_by_subject_by_group_by_id_and_by_its_words(letter, page):
    group = FailureGroup.objects.get()

    for query in (
        {"subject": "order:42/7"},
        {"group": str(group.pk)},
        {"q": str(letter.source_id)},
        {"q": "attempts=11"},
        {"fingerprint": letter.error_fingerprint},
    ):
        assert str(letter.pk) in page.get("/letters/", query).content.decode(), query
    assert str(letter.pk) in page.get("/subject/", {"type": "order", "id": "42/7"}).content.decode()
    assert str(letter.pk) in page.get(f"/groups/{group.pk}/").content.decode()


def test_its_page_says_all_that_was_recorded_and_it_can_be_recovered(letter, page):
    content = page.get(f"/letters/{letter.pk}/").content.decode()

    assert "attempts=11 &gt; max=10" in content
    assert "last error: shop.Refused: no" in content
    assert "42/7" in content
    assert "tries" in content
    if letter.source_table != "wh_perspective_events":
        assert "1970670598291982291" in content

    assert page.post(f"/letters/{letter.pk}/recover").status_code == 302
    letter.refresh_from_db()
    assert letter.recovery_status == 1
