"""Rows of `wh_service_instances`: what a process says about itself. Only the database clock tells how old it is."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import connection, transaction

IDLE: Mapping[str, Any] = {"draining": None, "message": None}


@dataclass(frozen=True, kw_only=True)
class Process:
    """Who says it."""

    instance_id: UUID
    service: str
    host: str
    process_id: int


@dataclass(frozen=True, kw_only=True)
class Running:
    """A message that has been running for so many seconds."""

    message_id: UUID
    message_type: str
    attempt: int
    seconds: float


def say(process: Process, said: Mapping[str, Any], *, running: Running | None = None, ticked: bool = False) -> None:
    """Make the process's row or merge what it says into its metadata, in one statement; both are a heartbeat.

    running: becomes `message`, with the time at which it started. ticked: sets `ticked_at` to now.
    """
    parts = ["%s::jsonb"]
    values: list[Any] = [json.dumps(said)]
    if running is not None:
        parts.append(
            "jsonb_build_object('message', %s::jsonb || jsonb_build_object("
            "'started_at', clock_timestamp() - %s * interval '1 second'))"
        )
        values += [json.dumps(_message(running)), running.seconds]
    if ticked:
        parts.append("jsonb_build_object('ticked_at', clock_timestamp())")
    merged = " || ".join(parts)
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO wh_service_instances AS i (instance_id, service_name, host_name, process_id, metadata) "  # noqa: S608
            f"VALUES (%s, %s, %s, %s, %s::jsonb || {merged}) ON CONFLICT (instance_id) DO UPDATE "
            f"SET last_heartbeat_at = clock_timestamp(), metadata = coalesce(i.metadata, '{{}}') || {merged}",
            [
                process.instance_id,
                process.service,
                process.host,
                process.process_id,
                json.dumps(IDLE),
                *values,
                *values,
            ],
        )


def _message(running: Running) -> dict[str, Any]:
    return {"id": str(running.message_id), "type": running.message_type, "attempt": running.attempt}


def bury(instance_id: UUID) -> None:
    """Say for a process that is known to be gone that it does nothing; no heartbeat."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE wh_service_instances SET metadata = metadata || %s::jsonb WHERE instance_id = %s",
            [json.dumps(IDLE), instance_id],
        )


@dataclass(frozen=True, kw_only=True)
class Build:
    """What live processes of one service and build handle, together; `name` None: one reports none."""

    service: str
    name: str | None
    types: Sequence[str]
    perspectives: Sequence[str]


_BUILDS = """
WITH live AS MATERIALIZED (
    SELECT service_name AS service, metadata,
           CASE jsonb_typeof(metadata -> 'generation') WHEN 'string' THEN metadata ->> 'generation' END AS name
      FROM wh_service_instances
     WHERE last_heartbeat_at > clock_timestamp() - %s * interval '1 second'
), handled AS (
    SELECT l.service, l.name, t.type, NULL AS perspective FROM live l
     CROSS JOIN LATERAL jsonb_array_elements_text(
           CASE jsonb_typeof(l.metadata -> 'types') WHEN 'array' THEN l.metadata -> 'types' ELSE '[]' END) AS t(type)
     UNION ALL
    SELECT l.service, l.name, NULL, p.perspective FROM live l
     CROSS JOIN LATERAL jsonb_object_keys(
           CASE jsonb_typeof(l.metadata -> 'perspectives') WHEN 'object' THEN l.metadata -> 'perspectives'
                ELSE '{}' END) AS p(perspective)
     UNION ALL
    SELECT l.service, l.name, NULL, NULL FROM live l
)
SELECT service, name, coalesce(array_agg(DISTINCT type) FILTER (WHERE type IS NOT NULL), '{}') AS types,
       coalesce(array_agg(DISTINCT perspective) FILTER (WHERE perspective IS NOT NULL), '{}') AS perspectives
  FROM handled
 GROUP BY service, name
 ORDER BY service, name
"""


def builds(silent_seconds: float) -> Sequence[Build]:
    """Return the builds of processes whose last heartbeat is younger."""
    with connection.cursor() as cursor:
        cursor.execute(_BUILDS, [silent_seconds])
        return [
            Build(service=service, name=name, types=types, perspectives=perspectives)
            for service, name, types, perspectives in cursor.fetchall()
        ]


@contextmanager
def impatient() -> Iterator[None]:
    """Wait for no lock longer than a second within the block, a transaction."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL lock_timeout = '1s'")
        yield


def lock_places(source: str) -> None:
    """Wait for one's turn to count and take places of the source; the lock ends with the transaction."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext('queues.drain'), hashtext(%s))", [source])
