"""The tables of the dead letters."""

from deadletters.models.groups import (
    FailureGroup,
    GroupAlias,
    GroupCount,
    GroupDelta,
    GroupFingerprint,
    GroupHour,
    GroupState,
)
from deadletters.models.letters import (
    DeadLetter,
    DeadLetterDeath,
    DeadLetterPayload,
    Disposition,
    RecoveryStatus,
    Verdict,
)
from deadletters.models.records import KeptForm, LastVisit, LegalHold, Note, OperatorAction, SavedView
from deadletters.models.recovery import (
    AfterBudget,
    Generation,
    ItemState,
    RecoveryItem,
    RecoveryPass,
    RecoveryPolicy,
    RecoveryRun,
    RunKind,
    RunState,
)
from deadletters.models.subjects import DeadLetterSubject, SubjectCount, SubjectDelta

__all__ = [
    "AfterBudget",
    "DeadLetter",
    "DeadLetterDeath",
    "DeadLetterPayload",
    "DeadLetterSubject",
    "Disposition",
    "FailureGroup",
    "Generation",
    "GroupAlias",
    "GroupCount",
    "GroupDelta",
    "GroupFingerprint",
    "GroupHour",
    "GroupState",
    "ItemState",
    "KeptForm",
    "LastVisit",
    "LegalHold",
    "Note",
    "OperatorAction",
    "RecoveryItem",
    "RecoveryPass",
    "RecoveryPolicy",
    "RecoveryRun",
    "RecoveryStatus",
    "RunKind",
    "RunState",
    "SavedView",
    "SubjectCount",
    "SubjectDelta",
    "Verdict",
]
