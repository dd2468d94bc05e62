"""The list of all options: there is no setting of Headgate that is not here.

`docs/config.md` is generated from this list; a test compares them. Names that streaming users know
are kept as they know them; names of our own begin with ``headgate.``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import Any, Final

from headgate.common.settings import loader_options, state_options
from headgate.common.settings.config_option import (
    Choice,
    ConfigOption,
    Duration,
    Integer,
    MemorySize,
    Number,
    OptionalKind,
    Text,
    choice,
    flag,
    optional_boolean,
    optional_text,
)
from headgate.common.settings.error_options import *  # noqa: F403 - all options can be had from here
from headgate.common.settings.metrics_options import *  # noqa: F403 - all options can be had from here
from headgate.common.settings.outward_options import *  # noqa: F403 - all options can be had from here
from headgate.common.settings.signal_options import *  # noqa: F403 - all options can be had from here
from headgate.common.settings.state_options import *  # noqa: F403 - all options can be had from here
from headgate.common.time import HOURS, MINUTES, SECONDS

PARALLELISM_MAX: Final = 32_768  # the largest max parallelism: key groups are counted in 15 bits


class HighAvailabilityType(StrEnum):
    """What elects the driver that leads a job, and where its completed checkpoints are listed."""

    NONE = "none"  # nothing: every start is a job of its own
    FILESYSTEM = "filesystem"  # the checkpoint storage
    ZOOKEEPER = "zookeeper"


class ProgressDisplay(StrEnum):
    """How a running job is shown to its starter: a live line, plain lines, JSON lines, or warnings only."""

    AUTO = "auto"
    LIVE = "live"
    PLAIN = "plain"
    JSON = "json"
    OFF = "off"


class RestartStrategyType(StrEnum):
    """The rule by which a failed job is started again: never, after a delay, or by the rate of failures."""

    NONE = "none"
    FIXED_DELAY = "fixed-delay"
    FAILURE_RATE = "failure-rate"
    EXPONENTIAL_DELAY = "exponential-delay"


class ChangelogEmission(StrEnum):
    """When corrections are sent: at marks, when all inputs have come to one moment, or after each batch."""

    MARKS = "marks"
    EAGER = "eager"


class SameFailureAction(Enum):
    """`restart-strategy.same-failure-limit.action`: report a failure that repeats, or end the job."""

    REPORT = "report"
    FAIL = "fail"


# --- restarts after a failure

RESTART_STRATEGY: Final = ConfigOption[RestartStrategyType | None](
    "restart-strategy.type",
    OptionalKind(Choice(RestartStrategyType), word="unset"),
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
    "restart-strategy.fixed-delay.delay", Duration(), 1 * SECONDS, "Time between a failure and the restart."
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
    "restart-strategy.failure-rate.delay", Duration(), 1 * SECONDS, "Time between a failure and the restart."
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

SAME_FAILURE_ACTION: Final = choice(
    "restart-strategy.same-failure-limit.action",
    SameFailureAction.REPORT,
    "What follows when the same failure (operator, exception, line of the program) came three times since "
    "the same checkpoint: report shows it and goes on as the restart strategy has it; fail ends the job.",
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
GENERIC_TYPES: Final = flag(
    "pipeline.generic-types",
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

MARK_INTERVAL: Final = ConfigOption(
    "execution.mark-interval",
    Duration(low_ms=1),
    100,
    "How often tables that correct earlier results send corrections; each time the answer is exact.",
)

CHANGELOG_EMISSION: Final = ConfigOption(
    "execution.changelog-emission",
    Choice(ChangelogEmission),
    ChangelogEmission.MARKS,
    "When tables that correct earlier results send corrections: marks: when all inputs have come to one "
    "moment, so that each answer is exact; eager: after each batch, so that some answers are of no moment.",
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
    "heartbeat.interval", Duration(low_ms=1), 1 * SECONDS, "Time between two heartbeats of a worker."
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

HIGH_AVAILABILITY: Final = choice(
    "high-availability.type",
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
HA_STANDBY: Final = flag(
    "high-availability.standby",
    True,
    "Whether a driver waits while another one leads its job; false stops it with a message.",
)
HA_LEASE: Final = ConfigOption(
    "high-availability.lease",
    Duration(low_ms=400),
    15 * SECONDS,
    "With filesystem: a leader that renewed no file for this long is replaced; the same in all.",
)
HA_ZOOKEEPER_QUORUM: Final = optional_text(
    "high-availability.zookeeper.quorum", "ZooKeeper's servers as host:port, separated by commas."
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
SHIP_CODE: Final = flag(
    "headgate.spark.ship-code",
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
SPARK_STAGING_DIR: Final = optional_text(
    "headgate.spark.staging-dir",
    "Folder for rows on their way between Spark and the dataflow, which the driver and all workers reach "
    "under the same path; by default next to the checkpoints.",
)
REDEPLOY_TIMEOUT: Final = ConfigOption(
    "headgate.spark.redeploy-timeout",
    Duration(low_ms=1),
    5 * SECONDS,
    "How long workers may take to become idle after a failure before a new gang replaces them.",
)

PROBE: Final = optional_text(
    "headgate.probe",
    "Factory, as module:attribute, of a probe that driver and workers tell when they reach named places; "
    "for tests of recovery.",
)

# --- control of a running job

REST_ENABLED: Final = optional_boolean(
    "rest.enabled",
    "Whether the driver answers the commands for running jobs, such as `headgate savepoint create`; auto: on "
    "Spark yes, in the mini cluster no.",
    "auto",
)
REST_BIND_ADDRESS: Final = ConfigOption(
    "rest.bind-address",
    Text(),
    "127.0.0.1",
    "Address on which the driver answers these commands; one that other machines reach needs "
    "security.ssl.rest.certfile.",
)
REST_PORT: Final = ConfigOption(
    "rest.port", Integer(0, 65_535), 0, "Port on which the driver answers these commands; 0 takes a free one."
)
REST_CERTFILE: Final = optional_text(
    "security.ssl.rest.certfile",
    "PEM file with the certificate of the driver's endpoint, which then speaks TLS only.",
)
REST_KEYFILE: Final = optional_text(
    "security.ssl.rest.keyfile", "PEM file with the private key of that certificate, without a passphrase."
)

# --- display

PROGRESS: Final = choice(
    "headgate.progress",
    ProgressDisplay.AUTO,
    "How a running job is shown: live is one line kept current on a terminal, plain a line every few "
    "seconds, json one object per line on the standard output, off warnings only; auto is live on a "
    "terminal, an output kept current in a notebook, and plain otherwise.",
)


OPTIONS: Final[Mapping[str, ConfigOption[Any]]] = MappingProxyType(
    {
        option.key: option
        for option in (*vars(state_options).values(), *globals().values(), *vars(loader_options).values())
        if isinstance(option, ConfigOption)
    }
)
"""Every option by its key, in the order of these files."""
