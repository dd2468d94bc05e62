"""The list of all options: there is no setting of Headgate that is not here.

`docs/config.md` is generated from this list; a test compares them. Names that streaming users know
are kept as they know them; names of our own begin with ``headgate.``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from headgate.common.settings import checkpoint_options, loader_options, state_options, storage_options
from headgate.common.settings.checkpoint_options import *  # noqa: F403 - all options can be had from here
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
from headgate.common.settings.restart_options import *  # noqa: F403
from headgate.common.settings.state_options import *  # noqa: F403
from headgate.common.settings.storage_options import *  # noqa: F403
from headgate.common.time import SECONDS

PARALLELISM_MAX: Final = 32_768
"""The largest max parallelism: key groups are counted in 15 bits."""


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


def _collected(*files: Mapping[str, object]) -> Mapping[str, ConfigOption[Any]]:
    found: dict[str, ConfigOption[Any]] = {}
    for names in files:
        for option in names.values():
            if isinstance(option, ConfigOption):
                assert found.setdefault(option.key, option) is option, f"{option.key} is defined twice"
    return MappingProxyType(found)


OPTIONS: Final = _collected(
    vars(checkpoint_options), vars(storage_options), vars(state_options), globals(), vars(loader_options)
)
"""Every option by its key, in the order of these files."""
