"""What the tests of edits share: an edit and a restore of a letter as it is, and its payload."""

import json

from deadletters import triage
from deadletters.models import DeadLetter


def edit(letter, text, user, **named):
    letter.refresh_from_db()
    given = {"reason": "the house number was missing", "row_version": letter.row_version, **named}
    return triage.edit(user=user, dead_letter_id=letter.pk, text=text, **given)


def restore(letter, version, user):
    letter.refresh_from_db()
    given = {"reason": "it was right", "row_version": letter.row_version}
    return triage.restore(user=user, dead_letter_id=letter.pk, version=version, **given)


def payload_of(letter):
    return json.loads(DeadLetter.objects.get(pk=letter.pk).envelope)["event_data"]


def set_raw(sql, letter, raw):
    sql(
        "UPDATE wh_dead_letters SET envelope_raw = %s, envelope_bytes = %s WHERE dead_letter_id = %s",
        raw,
        len(raw),
        letter.pk,
    )
