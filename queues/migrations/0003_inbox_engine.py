"""Claims, outcomes and order of the inbox, in SQL."""

from django.db import migrations

from queues.sql import run


class Migration(migrations.Migration):

    dependencies = [('queues', '0002_delivery_log')]

    operations = [
        run(
            'work_table_v1',
            work='wh_inbox',
            reverse="""
                DROP TRIGGER wh_inbox_arrivals ON wh_inbox;
                DROP FUNCTION wh_inbox_arrivals();
                DROP TRIGGER wh_inbox_due_now ON wh_inbox;
                DROP FUNCTION wh_inbox_due_now();
                ALTER TABLE wh_inbox
                    RESET (fillfactor, autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold);
                ALTER TABLE wh_inbox ALTER COLUMN position DROP IDENTITY;
            """,
        ),
        run(
            'streams_v1',
            reverse="""
                DROP FUNCTION admit_arrivals(text, integer, timestamptz);
                ALTER TABLE wh_streams RESET (fillfactor);
            """,
        ),
        run(
            'claim_v1',
            work='wh_inbox',
            reverse="""
                DROP FUNCTION renew_wh_inbox(text, uuid, uuid[], uuid[], interval);
                DROP FUNCTION fence_wh_inbox(text, uuid, uuid[], uuid[]);
                DROP FUNCTION release_wh_inbox(text, uuid, uuid[], uuid[]);
                DROP FUNCTION release_streams_wh_inbox(text, uuid, uuid[]);
                DROP FUNCTION claim_wh_inbox(text, uuid, uuid, integer, integer, interval, timestamptz);
            """,
        ),
        run(
            'outcomes_v1',
            work='wh_inbox',
            reverse="""
                DROP FUNCTION start_wh_inbox(text, uuid, uuid);
                DROP FUNCTION record_wh_inbox(uuid[], jsonb);
            """,
        ),
    ]
