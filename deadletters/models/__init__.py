"""The tables of the dead letters."""

from deadletters.models.letters import (
    DeadLetter,
    DeadLetterDeath,
    DeadLetterPayload,
    DeadLetterSubject,
    Disposition,
    RecoveryStatus,
    Verdict,
)
from deadletters.models.records import Note, OperatorAction

__all__ = [
    "DeadLetter",
    "DeadLetterDeath",
    "DeadLetterPayload",
    "DeadLetterSubject",
    "Disposition",
    "Note",
    "OperatorAction",
    "RecoveryStatus",
    "Verdict",
]
