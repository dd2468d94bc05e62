"""High availability of a job: a driver finds its job by name, waits until it leads, and continues the job.

A job's id is made of name, cluster and how often it was brought to its end before. So a driver that is
started again has the id, and thereby the checkpoints, of the one that died; and a job that is run once
more after its end has an id, and a folder, of its own.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Final, TypeVar

from headgate.checkpoint.layout import log_folder
from headgate.checkpoint.service import CheckpointService
from headgate.checkpoint.storage.storage_contract import OfThisProcess
from headgate.checkpoint.storage.uris import open_disk
from headgate.checkpoint.store.log import CompletedCheckpointLog
from headgate.checkpoint.store.store_contract import CompletedCheckpointStore
from headgate.common.errors import ConfigError, DamagedFileError, FencedError, OperatingError, StorageError
from headgate.common.files.durable import clock, sha256
from headgate.common.ids import JobId
from headgate.common.ports import Clock, Disk
from headgate.common.settings import options as o
from headgate.common.settings.config import Config
from headgate.ha.files.file_election import FileElection
from headgate.ha.leading import Leadership, LedStore
from headgate.ha.zookeeper.checkpoint_store import ZooKeeperCheckpointStore
from headgate.ha.zookeeper.kazoo_nodes import KazooNodes
from headgate.ha.zookeeper.znodes import ZNodes
from headgate.ha.zookeeper.zookeeper_election import ZooKeeperElection
from headgate.restore.latest import latest_point
from headgate.restore.point import RestorePoint

LEADERS: Final = ".headgate-leaders"
"""Folder of elections below the checkpoint storage; no job's id begins with a dot."""

END_PAUSES_S: Final = (0.1, 0.2, 0.5, 1.0, 2.0)
"""Pauses between attempts to record the end of a job; lost leadership ends them sooner."""

BEGIN_PAUSE_S: Final = 1.0  # how long to wait before a leader tries once more to begin its job

T = TypeVar("T")

_LOG: Final = logging.getLogger(__name__)
_PATH: Final = re.compile(r"(/(?!\.\.?(?:/|$))[A-Za-z0-9._-]+)+")


@dataclass(frozen=True, slots=True)
class LedJob:
    """A job that this driver leads: its id, and its store of completed checkpoints."""

    job: JobId
    store: CompletedCheckpointStore


class HighAvailability:
    """This driver's part in the high availability of one job: leadership, and the store of checkpoints.

    Made by :func:`open_leadership`; `stores` opens a job's store. With `forgets` the store's entries are
    removed when the job has ended; those on the checkpoints' disk stay, as they say which are complete.
    """

    def __init__(
        self,
        name: str,
        cluster: str,
        standby: bool,
        leadership: Leadership,
        stores: Callable[[JobId], CompletedCheckpointStore],
        close: Callable[[], None],
        forgets: bool = False,
    ) -> None:
        self._name, self._cluster, self._standby = name, cluster, standby
        self._leadership, self._stores, self._close = leadership, stores, close
        self._forgets = forgets
        # `require` is to be called before every commit of a sink, too.
        self.require = leadership.require
        self.on_lost, self.on_doubt = leadership.on_lost, leadership.on_doubt
        self._store: LedStore | None = None

    def wait(
        self, waiting: Callable[[str], None], given_up: Callable[[], bool] | None = None
    ) -> LedJob | None:
        """Block until this driver leads the job, and return it; None if its leader ended it in the meantime.

        `waiting` is called with a sentence whenever the leader changes; True of `given_up` ends the wait.
        Raises FencedError then, and where another driver still leads after two leases and this one does not
        stand by; StorageError where the first look fails.
        """
        won = self._leadership.wait(waiting, standby=self._standby, given_up=given_up)
        if won is None:
            return None
        job = job_id(self._name, self._cluster, won.run)
        self._store = LedStore(self._stores(job), self._leadership)
        return LedJob(job, self._store)

    def patiently(
        self, work: Callable[[], T], report: Callable[[str], None], given_up: Callable[[], bool] | None = None
    ) -> T:
        """Call `work`, which prepares the leader's job, again while the storage fails; return its result.

        `work` may be repeated; `report` gets a sentence whenever the failure changes. Raises FencedError
        where another driver may lead, the error of `work` where repeating is of no use or `given_up()`.
        """
        reported = ""
        while True:
            try:
                return work()
            except (StorageError, OSError) as error:
                if not _of_the_disk(error) or (given_up is not None and given_up()):
                    raise
                text = f"job {self._name!r} cannot begin yet, and tries again: {error}"
            if text != reported:
                reported = text
                report(text)
            with suppress(StorageError):  # it may lead or not at this moment
                self.require()
            clock.sleep(BEGIN_PAUSE_S)

    def end(self) -> None:
        """Record that the job has ended, by itself or by the user's request: the next run begins anew.

        To be called before its last completed checkpoint is deleted. A failure is no end: a driver that is
        started again goes on from that checkpoint.
        """
        self._leadership.end()

    def close(self, *, ended: bool) -> None:
        """Record the end if `ended`, and give up the job's leadership; call it always, after the last commit.

        Where the end (see :meth:`end`) cannot be recorded, the next driver restores the last checkpoint of
        this run, and finds nothing left to do.
        """
        if ended and self._recorded() and self._forgets and self._store is not None:
            with suppress(OperatingError):  # then handles stay that no driver asks for
                self._store.forget()
        self._leadership.close()
        self._close()

    def _recorded(self) -> bool:
        for pause_s in (*END_PAUSES_S, None):
            try:
                self.end()
            except FencedError:
                return False
            except (StorageError, OSError) as error:
                if pause_s is None:
                    _LOG.warning("the end of job %r is not on record: %s", self._name, error)
                    return False
                clock.sleep(pause_s)
            else:
                return True
        return False


def _of_the_disk(error: BaseException | None) -> bool:
    # The system refused something, as for want of room: trying again may help.
    if isinstance(error, DamagedFileError):
        return False
    while error is not None and not isinstance(error, OSError):
        error = error.__cause__
    return error is not None


def open_leadership(
    config: Config, job_name: str, disk: Disk | None, clock: Clock
) -> HighAvailability | None:
    """Return this driver's part in the high availability of a job, as the configuration says.

    None where `high-availability.type` is none or `disk`, of the checkpoints, is None: the job's id is then
    one that no other job has. ConfigError: settings do not fit. StorageError: no ZooKeeper answers.
    """
    kind, cluster = config.get(o.HIGH_AVAILABILITY), config.get(o.HA_CLUSTER_ID)
    if kind is o.HighAvailabilityType.NONE or disk is None:
        return None
    if isinstance(disk, OfThisProcess):
        raise ConfigError(
            f"{o.HIGH_AVAILABILITY.key}={kind.value} needs checkpoints that outlive a driver, but "
            f"{o.CHECKPOINTING_DIR.key} is {disk.describe()}, which is lost with it; name a folder or an "
            "object store that all drivers reach, or drop the first"
        )
    standby, key = config.get(o.HA_STANDBY), election_key(job_name, cluster)
    if kind is o.HighAvailabilityType.FILESYSTEM:
        election = FileElection(disk, f"{LEADERS}/{key}", clock, config.get(o.HA_LEASE))
        leadership = Leadership(job_name, election, clock)

        return HighAvailability(
            job_name,
            cluster,
            standby,
            leadership,
            lambda job: CompletedCheckpointLog(disk, log_folder(job)),
            lambda: None,
        )
    return _on_zookeeper(config, job_name, key, clock)


def _on_zookeeper(config: Config, job_name: str, key: str, clock: Clock) -> HighAvailability:
    root, cluster = zookeeper_root(config), config.get(o.HA_CLUSTER_ID)
    with ExitStack() as opened:
        nodes: ZNodes = KazooNodes(
            config.get(o.HA_ZOOKEEPER_QUORUM) or "",
            config.get(o.HA_ZOOKEEPER_SESSION_TIMEOUT),
            config.get(o.HA_ZOOKEEPER_CONNECTION_TIMEOUT),
        )
        opened.callback(nodes.close)
        election = ZooKeeperElection(nodes, f"{root}/leaders/{key}", clock)
        leadership = Leadership(job_name, election, clock)
        nodes.on_disconnect(leadership.suspended)
        close = opened.pop_all().close

    return HighAvailability(
        job_name,
        cluster,
        config.get(o.HA_STANDBY),
        leadership,
        lambda job: ZooKeeperCheckpointStore(nodes, f"{root}/jobs/{job}"),
        close,
        forgets=True,
    )


def where_to_begin(
    service: CheckpointService,
    explicit: Callable[[], RestorePoint | None],
    disks: Callable[[str], Disk] = open_disk,
    fell_back: Callable[[str], None] | None = None,
) -> RestorePoint | None:
    """Return the restore point of a driver that leads: its job's last completed checkpoint, else `explicit`.

    The checkpoint or savepoint that the user named (`explicit` opens it) counts for a job that has completed
    none yet: a driver that is started again by machine is given the same command line each time, when what it
    names may be removed. `disks` opens the disk of a savepoint that the job was stopped with; with
    `fell_back` an older one is taken when the last is damaged (:func:`latest_point`).
    """
    return latest_point(service, disks, fell_back) or explicit()


def zookeeper_root(config: Config) -> str:
    """Return the ZooKeeper path below which a cluster's nodes are; ConfigError for odd characters.

    Example:
        >>> zookeeper_root(Config())
        '/headgate/default'
    """
    root = f"/{config.get(o.HA_ZOOKEEPER_ROOT).strip('/')}/{config.get(o.HA_CLUSTER_ID).strip('/')}"
    if not _PATH.fullmatch(root):
        raise ConfigError(
            f"{o.HA_ZOOKEEPER_ROOT.key} and {o.HA_CLUSTER_ID.key} make the ZooKeeper path {root!r}; expected "
            "letters, digits, '.', '_' and '-' between slashes"
        )
    return root


def job_id(name: str, cluster: str, run: int) -> JobId:
    """Return a job's id, made of name, cluster and `run`: how often it was brought to its end before.

    Example:
        >>> job_id("clicks per user", "default", 0)
        'clicks-per-user-0-b1dbcf27'
    """
    return JobId(f"{readable(name)}-{run}-{_digest(name, cluster, str(run))[:8]}")


def election_key(name: str, cluster: str) -> str:
    """Return the name of a job's election, the same for all drivers of the job in this cluster."""
    return f"{readable(name)}-{_digest(name, cluster)[:12]}"


def readable(name: str) -> str:
    """Return a job's name for ids and folders: at most 100 ASCII letters, digits, ".", "_" and "-"."""
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in name)
    return kept.strip(".-")[:100] or "job"


def _digest(*parts: str) -> str:
    return sha256("\0".join(parts).encode()).hexdigest()
