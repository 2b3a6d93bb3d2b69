"""Recovery runs, in SQL."""

from django.db import migrations

from deadletters.sql import HERE
from queues.sql import run


class Migration(migrations.Migration):

    dependencies = [('deadletters', '0004_triage')]

    operations = [
        run(
            'runs_v1',
            folder=HERE,
            reverse='''
                DROP FUNCTION hold_lost_letters(integer, interval, timestamptz);
                DROP FUNCTION end_overdue_items(integer, timestamptz);
                DROP FUNCTION settle_delayed(jsonb, timestamptz);
                DROP FUNCTION send_recovery_items(uuid[], text, text, text, interval, boolean, timestamptz);
                DROP FUNCTION recovery_skip_words(text, wh_dead_letters);
                DROP FUNCTION end_recovery_items(jsonb, timestamptz, boolean);
                DROP FUNCTION promote_items(uuid[]);
                DROP FUNCTION dead_letter_position(wh_dead_letters);
            ''',
        ),
    ]
