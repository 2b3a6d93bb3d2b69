"""The move and the recovery, in SQL."""

from django.db import migrations

from deadletters.sql import HERE, SNAPSHOTS
from queues.sql import run


def of_each_table(name, reverse):
    return [run(name, reverse, folder=HERE, names=names) for names in SNAPSHOTS.values()]


class Migration(migrations.Migration):

    dependencies = [('deadletters', '0002_fingerprints_and_counts'), ('queues', '0003_engine')]

    operations = [
        run(
            'policies_v1',
            folder=HERE,
            reverse='''
                DROP FUNCTION cooldown_after(integer, integer, double precision);
                DROP FUNCTION recovery_policy_of(text, integer);
            ''',
        ),
        *of_each_table(
            'move_v1',
            'DROP FUNCTION move_{{work}}(jsonb, uuid, text, uuid, boolean, timestamptz);'
            'DROP FUNCTION letters_of_{{work}}(uuid[]);'
            'DROP FUNCTION take_{{work}}('
            'jsonb, uuid, text, uuid, boolean, timestamptz, uuid[], uuid[], jsonb, uuid[], uuid[])',
        ),
        run(
            'move_calls_v1',
            folder=HERE,
            reverse="""
                DROP FUNCTION move_to_dead_letters(
                    uuid, text, uuid, integer, text, uuid, text, jsonb, text, uuid, boolean);
                DROP FUNCTION move_batch_to_dead_letters(text, jsonb, uuid, text, uuid, boolean, timestamptz);
                DROP FUNCTION judge_deaths(jsonb, timestamptz);
                DROP FUNCTION write_dead_letter_subjects(jsonb);
                DROP FUNCTION dead_letter_failed_again(dead_letter_deaths, text, text, varchar, smallint);
                DROP FUNCTION dead_letter_joined_error(text, text);
            """,
        ),
        run(
            'reactions_v1',
            folder=HERE,
            reverse='DROP FUNCTION announce_deaths(uuid[]); DROP FUNCTION dead_letter_told_failure(text, jsonb);',
        ),
        run(
            'broker_v1', folder=HERE, reverse='DROP FUNCTION keep_broker_letters(jsonb, bytea[], uuid, text, timestamptz)'
        ),
        *of_each_table('emit_v1', 'DROP FUNCTION emit_{{work}}(uuid[], uuid[], uuid[], uuid[], text, timestamptz)'),
        run(
            'recover_v1',
            folder=HERE,
            reverse="""
                DROP FUNCTION due_dead_letters(integer, timestamptz);
                DROP FUNCTION settle_recovered(uuid[], uuid[], timestamptz);
                DROP FUNCTION recover_dead_letter(uuid, text, boolean, timestamptz);
                DROP FUNCTION recover_dead_letters(jsonb, text, text, text, timestamptz);
                DROP FUNCTION emit_rows(text, uuid[], uuid[], uuid[], uuid[], text, timestamptz);
            """,
        ),
    ]
