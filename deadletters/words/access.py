"""Who may do what: permissions, and the groups that carry them."""

VIEW = "deadletters.view_deadletter"
TRIAGE = "deadletters.triage"
RECOVER = "deadletters.recover"
EDIT_PAYLOAD = "deadletters.edit_payload"
REVEAL = "deadletters.reveal"
PURGE = "deadletters.purge"

VIEW_QUEUES = (
    "queues.view_arrival",
    "queues.view_deadlettersubscription",
    "queues.view_deliverylogentry",
    "queues.view_destination",
    "queues.view_flowdelta",
    "queues.view_flowtotal",
    "queues.view_inboxmessage",
    "queues.view_outboxmessage",
    "queues.view_perspectiveevent",
    "queues.view_perspectivesubscription",
    "queues.view_seenmessage",
    "queues.view_serviceinstance",
    "queues.view_storedevent",
)
"""The queues' tables in the admin; the queues know nothing of the permissions above."""

_SET_UP = tuple(
    f"{app}.{verb}_{model}"
    for app, model in (("deadletters", "recoverypolicy"), ("deadletters", "legalhold"), ("queues", "sourcepause"))
    for verb in ("add", "change", "delete")
)

GROUPS = {
    "Viewers": (VIEW, *VIEW_QUEUES),
    "Operators": (VIEW, *VIEW_QUEUES, TRIAGE, RECOVER),
    "Leads": (VIEW, *VIEW_QUEUES, TRIAGE, RECOVER, EDIT_PAYLOAD, REVEAL, PURGE, *_SET_UP),
}
"""Made after each migration when missing; what an administrator changes in them stays."""
