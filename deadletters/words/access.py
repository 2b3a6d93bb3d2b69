"""Who may do what: permissions, and the groups that carry them."""

VIEW = "deadletters.view_deadletter"
TRIAGE = "deadletters.triage"
RECOVER = "deadletters.recover"
EDIT_PAYLOAD = "deadletters.edit_payload"
REVEAL = "deadletters.reveal"
PURGE = "deadletters.purge"

GROUPS = {
    "Viewers": (VIEW,),
    "Operators": (VIEW, TRIAGE, RECOVER),
    "Leads": (VIEW, TRIAGE, RECOVER, EDIT_PAYLOAD, REVEAL, PURGE),
}
"""Made after each migration when missing; what an administrator changes in them stays."""
