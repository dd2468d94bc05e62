"""The list of all options: there is no setting of Headgate that is not here.

`docs/config.md` is generated from this list; a test compares them. Names that streaming users know
are kept as they know them; names of our own begin with ``headgate.``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from headgate.common.settings import failure_options, loader_options, storage_options
from headgate.common.settings.config_option import (
    Boolean,
    Choice,
    ConfigOption,
    Duration,
    Integer,
    MemorySize,
    Number,
    OptionalKind,
    Text,
)
from headgate.common.time import HOURS, MINUTES, SECONDS

PARALLELISM_MAX: Final = 32_768
"""The largest max parallelism: key groups are counted in 15 bits."""


class CheckpointingMode(StrEnum):
    """What a record's effect on state is after a failure."""

    EXACTLY_ONCE = "EXACTLY_ONCE"
    """State reflects every record exactly once."""
    AT_LEAST_ONCE = "AT_LEAST_ONCE"
    """Nothing waits for barriers; records may be reflected twice."""


class RestartStrategyType(StrEnum):
    """Who decides whether and when a failed job starts again."""

    NONE = "none"
    FIXED_DELAY = "fixed-delay"
    FAILURE_RATE = "failure-rate"
    EXPONENTIAL_DELAY = "exponential-delay"


class StateBackendType(StrEnum):
    """Where keyed state lives between checkpoints."""

    HASHMAP = "hashmap"
    """Python objects: fastest, bounded by memory."""
    ROCKSDB = "rocksdb"
    """RocksDB on the worker's local disk."""


class TimerService(StrEnum):
    """Where timers live beside state in RocksDB."""

    HEAP = "heap"
    """In memory, all of them."""
    ROCKSDB = "rocksdb"
    """In RocksDB, and only the next ones in memory too."""


class StateMigration(StrEnum):
    """When stored values become values of the types that the program declares now."""

    LAZY = "lazy"
    """When they are read, and beside the processing."""
    EAGER = "eager"
    """All of them, before processing begins."""


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


class HighAvailabilityType(StrEnum):
    """What decides which driver leads a job, and where its completed checkpoints are listed."""

    NONE = "none"
    """Nothing: every start is a job of its own."""
    FILESYSTEM = "filesystem"
    """The checkpoint storage."""
    ZOOKEEPER = "zookeeper"
    """ZooKeeper."""


class ProgressDisplay(StrEnum):
    """How a running job is shown to whoever started it."""

    AUTO = "auto"
    LIVE = "live"
    PLAIN = "plain"
    JSON = "json"
    OFF = "off"


# --- checkpoints

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

# --- storage

S3_ENDPOINT: Final = ConfigOption[str | None](
    "s3.endpoint",
    OptionalKind(Text()),
    None,
    "URL of the S3 service that s3:// storage lies in; none is AWS_ENDPOINT_URL, or AWS itself.",
)
S3_REGION: Final = ConfigOption[str | None](
    "s3.endpoint.region",
    OptionalKind(Text()),
    None,
    "Region of the bucket; none is AWS_REGION, or us-east-1 where that is unset.",
)
S3_ACCESS_KEY: Final = ConfigOption[str | None](
    "s3.access-key",
    OptionalKind(Text()),
    None,
    "Id of the key for s3:// storage; none takes the AWS_ variables of each process, or its machine's role.",
)
S3_SECRET_KEY: Final = ConfigOption[str | None](
    "s3.secret-key",
    OptionalKind(Text()),
    None,
    "The key that belongs to s3.access-key.",
)
S3_PATH_STYLE: Final = ConfigOption[bool | None](
    "s3.path.style.access",
    OptionalKind(Boolean(), word="unset"),
    None,
    "Whether the bucket is named in the path, not in the host's name; unset is so where s3.endpoint is set.",
)
HDFS_HTTP_ADDRESS: Final = ConfigOption[str | None](
    "dfs.namenode.http-address",
    OptionalKind(Text()),
    None,
    "Address, as host:port, of the HTTP service of HDFS's name node, or several, separated by commas; "
    "none is port 9870 of the host that the hdfs:// URI names.",
)
MEMORY_STATE_MAX: Final = ConfigOption(
    "headgate.storage.memory.max-state-size",
    MemorySize(low_bytes=1024),
    5 * 1024 * 1024,
    "Largest state of one subtask's operator in a checkpoint that goes to memory:// storage.",
)

# --- state

STATE_BACKEND: Final = ConfigOption(
    "state.backend.type",
    Choice(StateBackendType),
    StateBackendType.HASHMAP,
    "Where keyed state lives: as Python objects, or in RocksDB on each worker's local disk.",
)
ROCKSDB_MEMORY: Final = ConfigOption(
    "state.backend.rocksdb.memory.fixed-per-slot",
    MemorySize(low_bytes=8 * 1024 * 1024),
    256 * 1024 * 1024,
    "Memory that all RocksDB states of one worker share for blocks and write buffers.",
)
ROCKSDB_LOCAL_DIR: Final = ConfigOption[str | None](
    "state.backend.rocksdb.localdir",
    OptionalKind(Text()),
    None,
    "Folder on a local disk of each worker for RocksDB's files; none is the folder for temporary files.",
)
ROCKSDB_TIMERS: Final = ConfigOption(
    "state.backend.rocksdb.timer-service.factory",
    Choice(TimerService),
    TimerService.ROCKSDB,
    "Where timers live when state is in RocksDB, without a changelog: in memory, or in RocksDB as well.",
)
ROCKSDB_MIGRATION: Final = ConfigOption(
    "state.backend.rocksdb.migration",
    Choice(StateMigration),
    StateMigration.LAZY,
    "When values in RocksDB's files that are of an older type are rewritten: beside the processing, or all "
    "of them before it begins.",
)

CHANGELOG: Final = ConfigOption(
    "state.changelog.enabled",
    Boolean(),
    False,
    "Whether a checkpoint of keyed state holds what changed since the last complete one, behind a base that "
    "is written now and then: short checkpoints for a longer restore.",
)
CHANGELOG_MATERIALIZE_INTERVAL: Final = ConfigOption(
    "state.changelog.periodic-materialize.interval",
    Duration(low_ms=1),
    10 * 60 * 1000,
    "With a changelog, after how long a checkpoint holds everything and the log begins anew.",
)

# --- dataflow

PARALLELISM_DEFAULT: Final = ConfigOption(
    "parallelism.default",
    Integer(1, PARALLELISM_MAX),
    1,
    "Parallel copies of each operator where the program does not say.",
)
MAX_PARALLELISM: Final = ConfigOption(
    "pipeline.max-parallelism",
    Integer(-1, PARALLELISM_MAX),
    -1,
    "Number of key groups, fixed for the life of the state; -1 derives it from the parallelism.",
)
GENERIC_TYPES: Final = ConfigOption(
    "pipeline.generic-types",
    Boolean(),
    True,
    "Whether state that an annotation marks hg.pickled may be stored as pickle; false refuses such programs.",
)
BUFFER_TIMEOUT: Final = ConfigOption(
    "execution.buffer-timeout",
    Duration(),
    10,
    "Longest time a record waits for its batch to fill; 0ms sends after every step.",
)
STEP_TARGET: Final = ConfigOption(
    "execution.step-target",
    Duration(low_ms=1),
    10,
    "Time a worker's loop spends on one operator before it looks at barriers, timers and messages again.",
)

# --- network

CREDIT_INITIAL: Final = ConfigOption(
    "taskmanager.network.credit-initial",
    Integer(1, 65_536),
    4,
    "Frames a sender may have on the way on one channel before the receiver has taken the first.",
)
FRAME_SIZE_MAX: Final = ConfigOption(
    "taskmanager.network.frame-size-max",
    MemorySize(low_bytes=64 * 1024),
    64 * 1024 * 1024,
    "Largest frame; a longer one on the wire is refused before memory is taken for it.",
)
BIND_HOST: Final = ConfigOption(
    "headgate.network.bind-host",
    Text(),
    "127.0.0.1",
    "Address that driver and workers listen on; on a cluster one that the other machines reach.",
)

# --- liveness

HEARTBEAT_INTERVAL: Final = ConfigOption(
    "heartbeat.interval",
    Duration(low_ms=1),
    1 * SECONDS,
    "Time between two heartbeats of a worker.",
)
HEARTBEAT_TIMEOUT: Final = ConfigOption(
    "heartbeat.timeout",
    Duration(low_ms=1),
    10 * SECONDS,
    "A worker whose heartbeats stay away this long is fenced and replaced.",
)
LEASE: Final = ConfigOption(
    "headgate.lease",
    Duration(low_ms=1),
    8 * SECONDS,
    "A worker that has not heard from the driver this long stops by itself; below heartbeat.timeout, "
    "so that it has stopped when it is replaced.",
)

# --- high availability

HIGH_AVAILABILITY: Final = ConfigOption(
    "high-availability.type",
    Choice(HighAvailabilityType),
    HighAvailabilityType.NONE,
    "What lets a driver that is started again find its job by name and go on, while of several drivers one "
    "leads: nothing, the checkpoint storage, or ZooKeeper.",
)
HA_CLUSTER_ID: Final = ConfigOption(
    "high-availability.cluster-id",
    Text(),
    "default",
    "Tells jobs of one name apart that share a storage or a ZooKeeper and have nothing else in common.",
)
HA_STANDBY: Final = ConfigOption(
    "high-availability.standby",
    Boolean(),
    True,
    "Whether a driver waits while another one leads its job; false stops it with a message.",
)
HA_LEASE: Final = ConfigOption(
    "high-availability.lease",
    Duration(low_ms=400),
    15 * SECONDS,
    "With filesystem: a leader that showed no sign of life for this long is replaced; the same in all.",
)
HA_ZOOKEEPER_QUORUM: Final = ConfigOption[str | None](
    "high-availability.zookeeper.quorum",
    OptionalKind(Text()),
    None,
    "ZooKeeper's servers as host:port, separated by commas.",
)
HA_ZOOKEEPER_ROOT: Final = ConfigOption(
    "high-availability.zookeeper.path.root",
    Text(),
    "/headgate",
    "Node of ZooKeeper below which all nodes lie.",
)
HA_ZOOKEEPER_SESSION_TIMEOUT: Final = ConfigOption(
    "high-availability.zookeeper.client.session-timeout",
    Duration(low_ms=400),
    60 * SECONDS,
    "With zookeeper: a leader that was not heard of for this long is replaced; the server may shorten it.",
)
HA_ZOOKEEPER_CONNECTION_TIMEOUT: Final = ConfigOption(
    "high-availability.zookeeper.client.connection-timeout",
    Duration(low_ms=1),
    15 * SECONDS,
    "How long to wait for a connection to ZooKeeper, and for each of its answers.",
)

# --- restarts

RESTART_STRATEGY: Final = ConfigOption[RestartStrategyType | None](
    "restart-strategy.type",
    OptionalKind(Choice(RestartStrategyType), word="unset"),  # "none" is one of the strategies
    None,
    "Who decides on restarts; unset means exponential-delay when checkpoints are on, and none otherwise.",
)
FIXED_DELAY_ATTEMPTS: Final = ConfigOption(
    "restart-strategy.fixed-delay.attempts",
    Integer(1),
    1,
    "How often the job is started again before it fails for good.",
)
FIXED_DELAY_DELAY: Final = ConfigOption(
    "restart-strategy.fixed-delay.delay",
    Duration(),
    1 * SECONDS,
    "Time between a failure and the restart.",
)
FAILURE_RATE_MAX: Final = ConfigOption(
    "restart-strategy.failure-rate.max-failures-per-interval",
    Integer(1),
    1,
    "How many failures within the interval are still answered by a restart.",
)
FAILURE_RATE_INTERVAL: Final = ConfigOption(
    "restart-strategy.failure-rate.failure-rate-interval",
    Duration(low_ms=1),
    1 * MINUTES,
    "Time over which failures are counted.",
)
FAILURE_RATE_DELAY: Final = ConfigOption(
    "restart-strategy.failure-rate.delay",
    Duration(),
    1 * SECONDS,
    "Time between a failure and the restart.",
)
EXPONENTIAL_INITIAL_BACKOFF: Final = ConfigOption(
    "restart-strategy.exponential-delay.initial-backoff",
    Duration(low_ms=1),
    1 * SECONDS,
    "Time between the first failure and its restart.",
)
EXPONENTIAL_MAX_BACKOFF: Final = ConfigOption(
    "restart-strategy.exponential-delay.max-backoff",
    Duration(low_ms=1),
    1 * MINUTES,
    "Longest time between a failure and its restart.",
)
EXPONENTIAL_MULTIPLIER: Final = ConfigOption(
    "restart-strategy.exponential-delay.backoff-multiplier",
    Number(1.0),
    1.5,
    "Factor by which the time grows with every failure.",
)
EXPONENTIAL_JITTER: Final = ConfigOption(
    "restart-strategy.exponential-delay.jitter-factor",
    Number(0.0, 1.0),
    0.1,
    "Share of the time that is added or taken away at random.",
)
EXPONENTIAL_RESET_THRESHOLD: Final = ConfigOption(
    "restart-strategy.exponential-delay.reset-backoff-threshold",
    Duration(low_ms=1),
    1 * HOURS,
    "After running this long without a failure the time starts again at the initial backoff.",
)
EXPONENTIAL_ATTEMPTS: Final = ConfigOption[int | None](
    "restart-strategy.exponential-delay.attempts-before-reset-backoff",
    OptionalKind(Integer(1)),
    None,
    "How many restarts are made before the time is reset; none is no limit.",
)

# --- Spark

SPARK_MASTER: Final = ConfigOption(
    "headgate.spark.master",
    Text(),
    "local",
    "Spark master when neither spark-submit nor the program brings a session; local opens as many slots as "
    "the job needs.",
)
RESERVED_SLOTS: Final = ConfigOption(
    "headgate.spark.reserved-slots",
    Integer(0),
    1,
    "Slots kept free beside the gang for Spark tasks that feed the job, drain it or read its state.",
)
SLOTS_TIMEOUT: Final = ConfigOption(
    "headgate.spark.slots-timeout",
    Duration(low_ms=1),
    60 * SECONDS,
    "How long executors of a cluster may take to come, at the start of the application and after some were "
    "lost, before that counts as a failure.",
)
SHIP_CODE: Final = ConfigOption(
    "headgate.spark.ship-code",
    Boolean(),
    True,
    "Whether executors of a cluster get Headgate and the program's own modules from the driver; false: they "
    "have the same versions of both.",
)
RESCALE_TIMEOUT: Final = ConfigOption(
    "headgate.rescale-timeout",
    Duration(low_ms=1),
    60 * SECONDS,
    "How long a job may take to run at another parallelism before it goes back to the one that it had.",
)
SPARK_STAGING_DIR: Final = ConfigOption[str | None](
    "headgate.spark.staging-dir",
    OptionalKind(Text()),
    None,
    "Folder for rows on their way between Spark and the dataflow, which the driver and all workers reach "
    "under the same path; by default beside the checkpoints.",
)
REDEPLOY_TIMEOUT: Final = ConfigOption(
    "headgate.spark.redeploy-timeout",
    Duration(low_ms=1),
    5 * SECONDS,
    "How long workers may take to become idle after a failure before a new gang replaces them.",
)

PROBE: Final = ConfigOption[str | None](
    "headgate.probe",
    OptionalKind(Text()),
    None,
    "Factory, as module:attribute, of a probe that driver and workers tell when they reach named places; "
    "for tests of recovery.",
)

# --- control of a running job

REST_ENABLED: Final = ConfigOption[bool | None](
    "rest.enabled",
    OptionalKind(Boolean(), word="auto"),
    None,
    "Whether the driver answers the commands for running jobs, such as `headgate savepoint create`; auto: on "
    "Spark yes, in the mini cluster no.",
)
REST_BIND_ADDRESS: Final = ConfigOption(
    "rest.bind-address",
    Text(),
    "127.0.0.1",
    "Address on which the driver answers these commands; one that other machines reach needs "
    "security.ssl.rest.certfile.",
)
REST_PORT: Final = ConfigOption(
    "rest.port",
    Integer(0, 65_535),
    0,
    "Port on which the driver answers these commands; 0 takes a free one.",
)
REST_CERTFILE: Final = ConfigOption[str | None](
    "security.ssl.rest.certfile",
    OptionalKind(Text()),
    None,
    "PEM file with the certificate of the driver's endpoint, which then speaks TLS only.",
)
REST_KEYFILE: Final = ConfigOption[str | None](
    "security.ssl.rest.keyfile",
    OptionalKind(Text()),
    None,
    "PEM file with the private key of that certificate, without a passphrase.",
)

# --- display

PROGRESS: Final = ConfigOption(
    "headgate.progress",
    Choice(ProgressDisplay),
    ProgressDisplay.AUTO,
    "How a running job is shown: live is one line kept current on a terminal, plain a line every few "
    "seconds, json one object per line on the standard output, off warnings only; auto is live on a "
    "terminal, an output kept current in a notebook, and plain otherwise.",
)


def _collect(names: Mapping[str, object]) -> Mapping[str, ConfigOption[Any]]:
    found: dict[str, ConfigOption[Any]] = {}
    for option in names.values():
        if isinstance(option, ConfigOption):
            assert option.key not in found, f"option {option.key} is defined twice"
            found[option.key] = option
    return MappingProxyType(found)


OPTIONS: Final[Mapping[str, ConfigOption[Any]]] = _collect(
    {**globals(), **vars(failure_options), **vars(loader_options), **vars(storage_options)}
)
"""Every option by its key, in the order of this file and those beside it."""
