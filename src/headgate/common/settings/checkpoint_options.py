"""Options of checkpoints and savepoints: when they are taken, what they guarantee, what a restore takes."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from headgate.common.settings.config_option import (
    Boolean,
    Choice,
    ConfigOption,
    Duration,
    Integer,
    MemorySize,
    OptionalKind,
    Text,
)
from headgate.common.time import MINUTES


class CheckpointingMode(StrEnum):
    """What a record's effect on state is after a failure."""

    EXACTLY_ONCE = "EXACTLY_ONCE"
    """State reflects every record exactly once."""
    AT_LEAST_ONCE = "AT_LEAST_ONCE"
    """Nothing waits for barriers; records may be reflected twice."""


class ClaimMode(StrEnum):
    """Whose the snapshot is that a job begins from."""

    NO_CLAIM = "NO_CLAIM"
    """The user's: it is never changed, and the job's first checkpoint is full."""
    CLAIM = "CLAIM"
    """The job's: it may be built upon, and is deleted when it is not needed any more."""


class ExternalizedRetention(StrEnum):
    """Which completed checkpoints outlive their job; savepoints always do."""

    DELETE_ON_CANCELLATION = "DELETE_ON_CANCELLATION"
    """Those of a failed job."""
    RETAIN_ON_CANCELLATION = "RETAIN_ON_CANCELLATION"
    """Those of a failed and of a cancelled job."""
    NO_EXTERNALIZED_CHECKPOINTS = "NO_EXTERNALIZED_CHECKPOINTS"
    """None."""


class OlderSnapshot(StrEnum):
    """What a job does that begins from a snapshot when sinks have committed more than it knows of."""

    REFUSE = "refuse"
    """It does not begin."""
    TAKE_BACK = "take-back"
    """Sinks remove what was committed after the snapshot."""
    NEW_LINEAGE = "new-lineage"
    """Output goes on beside what was committed, and can be told from it."""


CHECKPOINTING_INTERVAL: Final = ConfigOption[int | None](
    "execution.checkpointing.interval",
    OptionalKind(Duration(low_ms=1)),
    None,
    "Time between the starts of two periodic checkpoints; none turns them off.",
)
CHECKPOINTING_MODE: Final = ConfigOption(
    "execution.checkpointing.mode",
    Choice(CheckpointingMode),
    CheckpointingMode.EXACTLY_ONCE,
    "What state guarantees after a failure; with AT_LEAST_ONCE no channel waits for the barriers of the "
    "others, and records may count twice.",
)
CHECKPOINTING_TIMEOUT: Final = ConfigOption(
    "execution.checkpointing.timeout",
    Duration(low_ms=1),
    10 * MINUTES,
    "A checkpoint that is not complete after this time is aborted.",
)
CHECKPOINTING_MIN_PAUSE: Final = ConfigOption(
    "execution.checkpointing.min-pause",
    Duration(),
    0,
    "Least time between the end of one periodic checkpoint and the start of the next.",
)
CHECKPOINTING_MAX_CONCURRENT: Final = ConfigOption(
    "execution.checkpointing.max-concurrent-checkpoints",
    Integer(1),
    1,
    "How many checkpoints may be under way at the same time.",
)
CHECKPOINTING_DIR: Final = ConfigOption[str | None](
    "execution.checkpointing.dir",
    OptionalKind(Text()),
    None,
    "Directory or URI that driver and workers both reach, under which each job keeps its checkpoints.",
)
CHECKPOINTING_TOLERABLE_FAILURES: Final = ConfigOption(
    "execution.checkpointing.tolerable-failed-checkpoints",
    Integer(0),
    0,
    "How many checkpoints in a row may fail before the job does.",
)
CHECKPOINTING_NUM_RETAINED: Final = ConfigOption(
    "execution.checkpointing.num-retained",
    Integer(1),
    1,
    "How many completed checkpoints are kept.",
)
DATA_INLINE_THRESHOLD: Final = ConfigOption(
    "execution.checkpointing.data-inline-threshold",
    MemorySize(low_bytes=0),
    20 * 1024,
    "State of one subtask's operator up to this size lies in the metadata of a checkpoint or savepoint, and "
    "not in a file of its own; tables of a savepoint are always files.",
)
IGNORE_UNCLAIMED_STATE: Final = ConfigOption(
    "execution.state-recovery.ignore-unclaimed-state",
    Boolean(),
    False,
    "Whether stored state that the program has no operator for, or declares no more, is skipped at a "
    "restore; otherwise the restore is refused.",
)
OLDER_SNAPSHOT: Final = ConfigOption(
    "execution.sinks.older-snapshot",
    Choice(OlderSnapshot),
    OlderSnapshot.REFUSE,
    "What a job does that begins from a snapshot when a sink has committed more than the snapshot knows of: "
    "refuse to begin, take-back what was committed after it, or go on in a new-lineage beside it.",
)
CLAIM_MODE: Final = ConfigOption(
    "execution.state-recovery.claim-mode",
    Choice(ClaimMode),
    ClaimMode.NO_CLAIM,
    "Whose the snapshot is that a job is told to begin from: with NO_CLAIM it is never touched, and the "
    "first checkpoint is full; with CLAIM the job owns it, may build upon it, and deletes it when newer "
    "checkpoints have replaced it.",
)
ALLOW_SECOND: Final = ConfigOption(
    "execution.allow-second",
    Boolean(),
    False,
    "Whether a job begins beside a running one of its name on the same storage, or in the same output.",
)
FALLBACK_TO_OLDER: Final = ConfigOption(
    "execution.state-recovery.fallback-to-older",
    Boolean(),
    False,
    "Whether a restore from a log of completed checkpoints reads the newest in full first and, when it is "
    "damaged, takes the next older one; execution.sinks.older-snapshot says what becomes of output that was "
    "committed since.",
)
SAVEPOINT_DIR: Final = ConfigOption[str | None](
    "execution.checkpointing.savepoint-dir",
    OptionalKind(Text()),
    None,
    "Directory or URI that driver and workers both reach, for savepoints of which nobody says where they go.",
)
EXTERNALIZED_RETENTION: Final = ConfigOption[ExternalizedRetention | None](
    "execution.checkpointing.externalized-checkpoint-retention",
    OptionalKind(Choice(ExternalizedRetention), word="unset"),
    None,
    "Whose last completed checkpoints are kept when the job is over: DELETE_ON_CANCELLATION those of a "
    "failed job, RETAIN_ON_CANCELLATION those of a cancelled one too, NO_EXTERNALIZED_CHECKPOINTS nobody's; "
    "unset keeps them however the job ended.",
)
UNALIGNED: Final = ConfigOption(
    "execution.checkpointing.unaligned.enabled",
    Boolean(),
    False,
    "Whether barriers overtake records, which then become part of the checkpoint, so that it completes under "
    "backpressure; needs EXACTLY_ONCE and one checkpoint at a time.",
)
INCREMENTAL: Final = ConfigOption(
    "execution.checkpointing.incremental",
    Boolean(),
    False,
    "Whether a checkpoint of state in RocksDB stores only those of its files that no completed one has; "
    "needs state.backend.type=rocksdb.",
)
LOCAL_BACKUP: Final = ConfigOption[bool | None](
    "execution.checkpointing.local-backup.enabled",
    OptionalKind(Boolean(), word="unset"),
    None,
    "Whether workers keep a copy of what they store for a checkpoint on a disk of their machine; unset is as "
    "execution.state-recovery.from-local.",
)
LOCAL_BACKUP_DIR: Final = ConfigOption[str | None](
    "execution.checkpointing.local-backup.dirs",
    OptionalKind(Text()),
    None,
    "Folder on a local disk of each worker for these copies; none is the folder for temporary files.",
)
RECOVER_FROM_LOCAL: Final = ConfigOption(
    "execution.state-recovery.from-local",
    Boolean(),
    False,
    "Whether a restore reads local copies where there are sound ones, and the storage for the rest.",
)
ALIGNED_TIMEOUT: Final = ConfigOption(
    "execution.checkpointing.aligned-checkpoint-timeout",
    Duration(),
    0,
    "With unaligned checkpoints, how old one may become while it aligns before its barriers overtake; 0ms is "
    "unaligned from the start.",
)
IN_FLIGHT_SIZE_MAX: Final = ConfigOption(
    "execution.checkpointing.unaligned.max-in-flight-size",
    MemorySize(),
    1024 * 1024 * 1024,
    "How much of overtaken records one subtask takes along into one checkpoint; one that exceeds it fails.",
)
