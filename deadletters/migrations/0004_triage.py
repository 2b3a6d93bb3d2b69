"""Dispositions, edits and purges, and what is decided without a person, in SQL."""

from django.db import migrations

from deadletters.sql import HERE
from queues.sql import run


class Migration(migrations.Migration):

    dependencies = [('deadletters', '0003_move_and_recover')]

    operations = [
        run(
            'triage_v1',
            folder=HERE,
            reverse='''
                DROP FUNCTION dispose_dead_letter(uuid, integer, timestamptz);
                DROP FUNCTION let_stream_of_letter_go(wh_dead_letters);
            ''',
        ),
        run(
            'edits_v1',
            folder=HERE,
            reverse='''
                DROP FUNCTION edit_dead_letter(
                    uuid, integer, jsonb, bytea, integer, integer, text, text, integer, timestamptz);
            ''',
        ),
        run('purge_v1', folder=HERE, reverse='DROP FUNCTION purge_dead_letters(uuid[], boolean, timestamptz)'),
        run(
            'replays_v1',
            folder=HERE,
            reverse='''
                DROP FUNCTION generations_to_replay(bigint[]);
                DROP FUNCTION register_generations(jsonb, timestamptz);
                DROP FUNCTION fixed_groups_to_replay(text, integer, timestamptz);
                DROP FUNCTION groups_to_replay(text, uuid, integer, timestamptz);
                DROP FUNCTION replayable_dead_letters(uuid, text, timestamptz);
            ''',
        ),
        run(
            'schedule_v1',
            folder=HERE,
            reverse='DROP FUNCTION write_recovery_decisions(jsonb, timestamptz)',
        ),
    ]
