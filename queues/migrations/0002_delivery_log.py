"""The delivery log: partitioned, which the ORM cannot say, so its model lives in the state only."""

import django.db.models.functions.datetime
from django.db import migrations, models

from queues.sql import run


class Migration(migrations.Migration):

    dependencies = [('queues', '0001_tables')]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[
                run(
                    'delivery_log_v1',
                    reverse="""
                        DROP FUNCTION append_delivery_log(jsonb);
                        DROP FUNCTION mark_delivery_log_partition(text);
                        DROP FUNCTION expired_delivery_log_partitions(integer, timestamptz);
                        DROP FUNCTION make_delivery_log_partitions(integer, timestamptz);
                        DROP TABLE delivery_log;
                    """,
                ),
            ],
            state_operations=[
                migrations.CreateModel(
                    name='DeliveryLogEntry',
                    fields=[
                        ('id', models.BigAutoField(primary_key=True, serialize=False)),
                        ('logged_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                        ('source', models.TextField()),
                        ('message_id', models.UUIDField()),
                        ('life', models.IntegerField(db_default=1)),
                        ('attempt', models.IntegerField()),
                        ('outcome', models.TextField()),
                        ('failure_message', models.TextField(null=True)),
                        ('failure_detail', models.JSONField(null=True)),
                        ('started_at', models.DateTimeField(null=True)),
                        ('duration_ms', models.IntegerField(null=True)),
                        ('worker', models.UUIDField(null=True)),
                        ('generation', models.TextField(db_default='')),
                    ],
                    options={
                        'verbose_name': 'delivery log entry',
                        'verbose_name_plural': 'delivery log',
                        'db_table': 'delivery_log',
                        'indexes': [models.Index(fields=['message_id', 'logged_at'], name='delivery_log_message')],
                    },
                ),
            ],
        ),
    ]
