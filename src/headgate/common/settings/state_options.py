"""Options of keyed state, of its checkpoints and savepoints, and of the storage that these lie in."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from headgate.common.files.permissions import Permissions
from headgate.common.settings.config_option import (
    Choice,
    ConfigOption,
    Duration,
    Integer,
    MemorySize,
    OptionalKind,
    choice,
    flag,
    optional_boolean,
    optional_text,
)
from headgate.common.time import MINUTES


class CheckpointingMode(StrEnum):
    """How often a record's effect is in state after a failure: exactly once, or at least once."""

    EXACTLY_ONCE = "EXACTLY_ONCE"
    """State reflects every record exactly once."""
    AT_LEAST_ONCE = "AT_LEAST_ONCE"
    """Nothing waits for barriers; records may be reflected twice."""


class ClaimMode(StrEnum):
    """Who owns the snapshot that a job begins from: the user, or from then on the job."""

    NO_CLAIM = "NO_CLAIM"  # the user's: it is never changed, and the job's first checkpoint is full
    CLAIM = "CLAIM"  # the job's: it may be built upon, and is deleted when it is not needed any more


class ExternalizedRetention(StrEnum):
    """Which completed checkpoints outlive a failed or a cancelled job; savepoints always outlive theirs."""

    DELETE_ON_CANCELLATION = "DELETE_ON_CANCELLATION"  # those of a failed job
    RETAIN_ON_CANCELLATION = "RETAIN_ON_CANCELLATION"  # those of a failed and of a cancelled job
    NO_EXTERNALIZED_CHECKPOINTS = "NO_EXTERNALIZED_CHECKPOINTS"  # none


class OlderSnapshot(StrEnum):
    """What a job does if sinks have committed more output than the snapshot that it begins from knows of."""

    REFUSE = "refuse"  # it does not begin
    TAKE_BACK = "take-back"  # sinks remove what was committed after the snapshot
    NEW_LINEAGE = "new-lineage"  # output goes on next to what was committed, and is distinguishable from it


class StateBackendType(StrEnum):
    """Where keyed state is kept while a job runs: as Python objects in memory, or in RocksDB on disk."""

    HASHMAP = "hashmap"  # Python objects: fastest, bounded by memory
    ROCKSDB = "rocksdb"  # RocksDB on the worker's local disk


class TimerService(StrEnum):
    """Where timers live when state is in RocksDB: all of them in memory, or in RocksDB, too."""

    HEAP = "heap"  # in memory, all of them
    ROCKSDB = "rocksdb"  # in RocksDB, and only the next ones in memory too


class StateMigration(StrEnum):
    """When RocksDB's values of older types are converted to those declared now: as read, or all first."""

    LAZY = "lazy"  # when they are read, and in the background
    EAGER = "eager"  # all of them, before processing begins


# --- checkpoints, savepoints and restores

CHECKPOINTING_INTERVAL: Final = ConfigOption[int | None](
    "execution.checkpointing.interval",
    OptionalKind(Duration(low_ms=1)),
    None,
    "Time between the starts of two periodic checkpoints; none turns them off.",
)
CHECKPOINTING_MODE: Final = choice(
    "execution.checkpointing.mode",
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
    "How many checkpoints may be pending at the same time.",
)
CHECKPOINTING_DIR: Final = optional_text(
    "execution.checkpointing.dir",
    "Directory or URI that driver and workers both reach, under which each job keeps its checkpoints.",
)
CHECKPOINTING_TOLERABLE_FAILURES: Final = ConfigOption(
    "execution.checkpointing.tolerable-failed-checkpoints",
    Integer(0),
    0,
    "How many checkpoints in a row may fail before the job does.",
)
CHECKPOINTING_NUM_RETAINED: Final = ConfigOption(
    "execution.checkpointing.num-retained", Integer(1), 1, "How many completed checkpoints are kept."
)
DATA_INLINE_THRESHOLD: Final = ConfigOption(
    "execution.checkpointing.data-inline-threshold",
    MemorySize(low_bytes=0),
    20 * 1024,
    "State of one subtask's operator up to this size lies in the metadata of a checkpoint or savepoint, and "
    "not in a file of its own; tables of a savepoint are always files.",
)
IGNORE_UNCLAIMED_STATE: Final = flag(
    "execution.state-recovery.ignore-unclaimed-state",
    False,
    "Whether stored state that the program has no operator for, or declares no more, is skipped at a "
    "restore; otherwise the restore is refused.",
)
OLDER_SNAPSHOT: Final = choice(
    "execution.sinks.older-snapshot",
    OlderSnapshot.REFUSE,
    "What a job does that begins from a snapshot when a sink has committed more than the snapshot knows of: "
    "refuse to begin, take-back what was committed after it, or go on in a new-lineage next to it.",
)
CLAIM_MODE: Final = choice(
    "execution.state-recovery.claim-mode",
    ClaimMode.NO_CLAIM,
    "Whose the snapshot is that a job begins from: with NO_CLAIM it is never changed, and the "
    "first checkpoint is full; with CLAIM the job owns it, may build upon it, and deletes it when newer "
    "checkpoints have replaced it.",
)
ALLOW_SECOND: Final = flag(
    "execution.allow-second",
    False,
    "Whether a job begins next to a running one of its name on the same storage, or in the same output.",
)
FALLBACK_TO_OLDER: Final = flag(
    "execution.state-recovery.fallback-to-older",
    False,
    "Whether a restore from a log of completed checkpoints reads the newest in full first and, when it is "
    "damaged, takes the next older one; execution.sinks.older-snapshot decides on output that was "
    "committed since.",
)
SAVEPOINT_DIR: Final = optional_text(
    "execution.checkpointing.savepoint-dir",
    "Directory or URI that driver and workers both reach, for savepoints that are requested without a place.",
)
EXTERNALIZED_RETENTION: Final = ConfigOption[ExternalizedRetention | None](
    "execution.checkpointing.externalized-checkpoint-retention",
    OptionalKind(Choice(ExternalizedRetention), word="unset"),
    None,
    "Whose last completed checkpoints are kept when the job is over: DELETE_ON_CANCELLATION those of a "
    "failed job, RETAIN_ON_CANCELLATION those of a cancelled one too, NO_EXTERNALIZED_CHECKPOINTS none; "
    "unset keeps them however the job ended.",
)
UNALIGNED: Final = flag(
    "execution.checkpointing.unaligned.enabled",
    False,
    "Whether barriers overtake records, which then become part of the checkpoint, so that it completes under "
    "backpressure; needs EXACTLY_ONCE and one checkpoint at a time.",
)
INCREMENTAL: Final = flag(
    "execution.checkpointing.incremental",
    False,
    "Whether a checkpoint of state in RocksDB stores only those of its files that no completed one has; "
    "needs state.backend.type=rocksdb.",
)
LOCAL_BACKUP: Final = optional_boolean(
    "execution.checkpointing.local-backup.enabled",
    "Whether workers keep a copy of what they store for a checkpoint on a disk of their machine; unset is as "
    "execution.state-recovery.from-local.",
)
LOCAL_BACKUP_DIR: Final = optional_text(
    "execution.checkpointing.local-backup.dirs",
    "Folder on a local disk of each worker for these copies; none is the folder for temporary files.",
)
RECOVER_FROM_LOCAL: Final = flag(
    "execution.state-recovery.from-local",
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

# --- storage

S3_ENDPOINT: Final = optional_text(
    "s3.endpoint",
    "URL of the S3 service that s3:// storage lies in; none is AWS_ENDPOINT_URL, or AWS itself.",
)
S3_REGION: Final = optional_text(
    "s3.endpoint.region", "Region of the bucket; none is AWS_REGION, or us-east-1 where that is unset."
)
S3_ACCESS_KEY: Final = optional_text(
    "s3.access-key",
    "Id of the key for s3:// storage; none takes the AWS_ variables of each process, or its machine's role.",
)
S3_SECRET_KEY: Final = optional_text("s3.secret-key", "The key that belongs to s3.access-key.")
S3_PATH_STYLE: Final = optional_boolean(
    "s3.path.style.access",
    "Whether the bucket is named in the path, not in the host's name; unset is so where s3.endpoint is set.",
)
HDFS_HTTP_ADDRESS: Final = optional_text(
    "dfs.namenode.http-address",
    "Address, as host:port, of the HTTP service of HDFS's name node, or several, separated by commas; "
    "none is port 9870 of the host that the hdfs:// URI names.",
)
MEMORY_STATE_MAX: Final = ConfigOption(
    "headgate.storage.memory.max-state-size",
    MemorySize(low_bytes=1024),
    5 * 1024 * 1024,
    "Largest state of one subtask's operator in a checkpoint that goes to memory:// storage.",
)

STORAGE_PERMISSIONS: Final = choice(
    "headgate.storage.permissions",
    Permissions.OWNER,
    "Who may read and write the folders and files that are made for checkpoints, savepoints, staged rows "
    "and the ownership of output: owner is the user of the process alone (700 and 600); group is also the "
    "folder's group (770 and 660), for teams and for executors under another user; umask is what the "
    "process's mask leaves; a folder that existed keeps its mode and group, and secrets and sockets are "
    "always the owner's alone.",
)

# --- keyed state while a job runs

STATE_BACKEND: Final = choice(
    "state.backend.type",
    StateBackendType.HASHMAP,
    "Where keyed state lives: as Python objects, or in RocksDB on each worker's local disk.",
)
ROCKSDB_MEMORY: Final = ConfigOption(
    "state.backend.rocksdb.memory.fixed-per-slot",
    MemorySize(low_bytes=8 * 1024 * 1024),
    256 * 1024 * 1024,
    "Memory that all RocksDB states of one worker share for blocks and write buffers.",
)
WINDOWS_MEMORY: Final = ConfigOption(
    "state.backend.rocksdb.memory.windows",
    MemorySize(low_bytes=1024),
    64 * 1024 * 1024,
    "What each subtask of an operator with windows of columns holds of them in memory before it writes them "
    "to RocksDB, where state is in RocksDB and not in memory.",
)
ROCKSDB_LOCAL_DIR: Final = optional_text(
    "state.backend.rocksdb.localdir",
    "Folder on a local disk of each worker for RocksDB's files; none is the folder for temporary files.",
)
ROCKSDB_TIMERS: Final = choice(
    "state.backend.rocksdb.timer-service.factory",
    TimerService.ROCKSDB,
    "Where timers live when state is in RocksDB, without a changelog: in memory, or in RocksDB as well.",
)
ROCKSDB_MIGRATION: Final = choice(
    "state.backend.rocksdb.migration",
    StateMigration.LAZY,
    "When values in RocksDB's files that are of an older type are rewritten: in the background, or all "
    "of them before processing begins.",
)
ROCKSDB_STATISTICS: Final = flag(
    "state.backend.rocksdb.statistics",
    False,
    "Whether RocksDB counts what it reads from its cache and from files, for metrics; reads of single keys "
    "take about 7 % longer.",
)
CHANGELOG: Final = flag(
    "state.changelog.enabled",
    False,
    "Whether a checkpoint of keyed state holds what changed since the last complete one, after a base that "
    "is written now and then: short checkpoints for a longer restore.",
)
CHANGELOG_MATERIALIZE_INTERVAL: Final = ConfigOption(
    "state.changelog.periodic-materialize.interval",
    Duration(low_ms=1),
    10 * 60 * 1000,
    "With a changelog, after how long a checkpoint holds everything and the log begins anew.",
)
