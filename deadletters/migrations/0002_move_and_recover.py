"""The move, the recovery and the audit's guard, in SQL."""

from pathlib import Path

from django.db import migrations

from queues.sql import run

SQL = Path(__file__).parent.parent / 'sql'


class Migration(migrations.Migration):

    dependencies = [('deadletters', '0001_schema'), ('queues', '0003_inbox_engine')]

    operations = [
        run(
            'letters_v1',
            folder=SQL,
            reverse="""
                DROP TRIGGER operator_actions_append_only ON operator_actions;
                DROP FUNCTION operator_actions_append_only();
                DROP FUNCTION dead_letter_subject_key(text, text);
                DROP FUNCTION dead_letter_line(text);
            """,
        ),
        run(
            'move_v1',
            folder=SQL,
            reverse="""
                DROP FUNCTION move_to_dead_letters(
                    uuid, text, uuid, integer, text, uuid, text, jsonb, text, uuid, boolean);
                DROP FUNCTION move_batch_to_dead_letters(text, jsonb, uuid, text, uuid, boolean, timestamptz);
            """,
        ),
        run(
            'recover_v1',
            folder=SQL,
            reverse="""
                DROP FUNCTION settle_recovered(uuid[], timestamptz);
                DROP FUNCTION dead_letter_inbox_row(wh_dead_letters, timestamptz);
                DROP FUNCTION recover_dead_letter(uuid, text, timestamptz);
            """,
        ),
    ]
