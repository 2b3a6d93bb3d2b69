"""One row of each table, as ugly as a database may hold it."""

from typing import Any
from uuid import uuid4

from django.db import connection
from django.db.models import Model

from deadletters.models import (
    DeadLetter,
    DeadLetterDeath,
    DeadLetterPayload,
    FailureGroup,
    Generation,
    GroupAlias,
    GroupDelta,
    GroupFingerprint,
    LastVisit,
    LegalHold,
    Note,
    OperatorAction,
    RecoveryItem,
    RecoveryPass,
    RecoveryPolicy,
    RecoveryRun,
    SavedView,
    SubjectDelta,
)
from deadletters.store.audit import Actor, record
from queues.models import (
    Arrival,
    DeadLetterSubscription,
    DeliveryLogEntry,
    Destination,
    FlowDelta,
    FlowTotal,
    InboxMessage,
    OutboxMessage,
    PerspectiveCursor,
    PerspectiveEvent,
    PerspectiveSubscription,
    SeenMessage,
    ServiceInstance,
    SourcePause,
    StoredEvent,
    Stream,
)
from tests.factories import NOON, a_letter

SECRET = "hunter2hunter2"
FAULT = f"ValueError: <script>alert(1)</script> password={SECRET}"
LEVELS = 3_000
DEEP = "[" * LEVELS + "]" * LEVELS
FINGERPRINT = "0123456789abcdef"


def sql(statement: str, *arguments: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, arguments)


def one_of_each() -> dict[type[Model], Any]:
    """Make a row of each table and return their keys; JSON that others write nests LEVELS deep."""
    letter = a_letter(
        error=FAULT, subjects=[("order", "<b>42</b>")], error_fingerprint=FINGERPRINT, error_fingerprint_version=2
    )
    sql(
        "UPDATE wh_dead_letters SET envelope = %s::jsonb, metadata = %s::jsonb, failure_detail = %s::jsonb"
        " WHERE dead_letter_id = %s",
        DEEP, DEEP, DEEP, letter.pk,
    )  # fmt: skip
    death = letter.death_rows.get().pk
    sql("UPDATE dead_letter_deaths SET failure_detail = %s::jsonb", DEEP)
    DeadLetterPayload.objects.create(dead_letter=letter, version=1, envelope={}, message_id=letter.source_id)
    group = a_group(letter)
    run = RecoveryRun.objects.create(run_id=uuid4(), kind="person", scope={"token": SECRET}, plan={}, actor="olga")
    item = RecoveryItem.objects.create(
        item_id=uuid4(), run=run, dead_letter_id=letter.pk, place=1, life=1, row_version=1
    )
    action = record(actor=Actor(name="olga"), action="triage", dead_letter_id=letter.pk, after={"password": SECRET})
    return {
        DeadLetter: letter.pk,
        DeadLetterDeath: death,
        FailureGroup: group.pk,
        GroupAlias: GroupAlias.objects.create(alias=uuid4(), group=group, merged_by="olga").pk,
        GroupDelta: GroupDelta.objects.first().pk,
        SubjectDelta: SubjectDelta.objects.first().pk,
        Note: Note.objects.create(dead_letter=letter, text=FAULT, author="olga").pk,
        OperatorAction: action.pk,
        LegalHold: LegalHold.objects.create(dead_letter_id=letter.pk, reason="the auditors", placed_by="lea").pk,
        SavedView: SavedView.objects.create(owner_id="1", owner="olga", page="letters", name="mine", query="q=1").pk,
        LastVisit: LastVisit.objects.create(visitor_id="1", page="letters", seen_at=NOON).pk,
        RecoveryPolicy: RecoveryPolicy.objects.first().pk,
        RecoveryPass: RecoveryPass.objects.create(cause="terminal").pk,
        RecoveryRun: run.pk,
        RecoveryItem: item.pk,
        Generation: Generation.objects.create(service="shop", build="build-1").pk,
        **_of_the_queues(),
    }


def a_group(letter: DeadLetter) -> FailureGroup:
    """Make the group of a letter's fingerprint."""
    group = FailureGroup.objects.create(
        group_id=uuid4(), title=FAULT, template=FAULT, sample_line=FAULT, sample_letter_id=letter.pk
    )
    GroupFingerprint.objects.create(fingerprint=FINGERPRINT, version=2, group=group)
    return group


def _of_the_queues() -> dict[type[Model], Any]:
    stream = uuid4()
    PerspectiveCursor.objects.create(stream_id=stream, perspective_name="totals", error=FAULT)
    Stream.objects.create(queue="wh_inbox", stream_id=stream, due_at=NOON)
    subscription = PerspectiveSubscription.objects.create(perspective_name="totals", event_type="shop.Placed")
    event = StoredEvent(event_id=uuid4(), stream_id=stream, event_type="shop.Placed", version=1, event_data={})
    event.save()
    log = DeliveryLogEntry.objects.create(
        source="wh_inbox", message_id=uuid4(), attempt=1, outcome="failure", failure_message=FAULT
    )
    instance = ServiceInstance.objects.create(instance_id=uuid4(), service_name="shop", host_name="h", process_id=1)
    keys = {
        InboxMessage: _insert("wh_inbox", stream),
        OutboxMessage: _insert("wh_outbox", stream),
        PerspectiveEvent: PerspectiveEvent.objects.get().pk,
        StoredEvent: event.pk,
        DeliveryLogEntry: log.pk,
        SeenMessage: SeenMessage.objects.create(message_id=uuid4()).pk,
        ServiceInstance: instance.pk,
        Arrival: Arrival.objects.first().pk,
        FlowDelta: FlowDelta.objects.first().pk,
        FlowTotal: FlowTotal.objects.create(source="wh_inbox").pk,
        Destination: Destination.objects.create(name="broker", last_error=FAULT).pk,
        PerspectiveSubscription: subscription.pk,
        DeadLetterSubscription: DeadLetterSubscription.objects.create(message_type="shop.Placed").pk,
        SourcePause: SourcePause.objects.create(source="wh_inbox", kind="source", paused_by="lea").pk,
    }
    sql("UPDATE wh_event_store SET event_data = %s::jsonb, metadata = %s::jsonb, scope = %s::jsonb", DEEP, DEEP, DEEP)
    sql("UPDATE wh_perspective_events SET failure_detail = %s::jsonb, error = %s", DEEP, FAULT)
    sql("UPDATE delivery_log SET failure_detail = %s::jsonb", DEEP)
    sql("UPDATE wh_service_instances SET metadata = %s::jsonb", DEEP)
    return keys


def _insert(table: str, stream: Any) -> Any:
    key = uuid4()
    sql(
        f"INSERT INTO {table} (message_id, message_type, event_data, metadata, failure_detail, error, stream_id)"
        " VALUES (%s, 'shop.PlaceOrder', %s::jsonb, %s::jsonb, %s::jsonb, %s, %s)",
        key, DEEP, DEEP, DEEP, FAULT, stream,
    )  # fmt: skip
    return key
