"""One loader for each job in a process: leased while tasks of the job run, closed when the last lease goes.

::

    lease(job, artifacts)   the job's realm; the same one each time, and refused with other artifacts
    Lease.release()         one less; the last one closes the realm
    ended(live jobs)        what a worker is told at each task: realms of jobs that are over are closed

Closing: release hooks, once each; the realm's own `atexit`; what the standard library keeps of it; then the
realm refuses, and after a grace it is looked whether anything of it lives on.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

from headgate.usercode.errors import DifferentUserCodeError
from headgate.usercode.realm.leaks import LeakReport, examine
from headgate.usercode.realm.loader import Realm, RealmSettings
from headgate.usercode.realm.purging import StandardLibrary, purge

JOIN_TIMEOUT_S: Final = 5.0
_log = logging.getLogger("headgate.usercode")


@dataclass(frozen=True, slots=True)
class Artifacts:
    """What a job's loader is made of; equal artifacts give an equal loader.

    Attributes:
        key: hash of all contents and settings.
        paths: folders and zips on this machine, in order of search.
        settings: how names are resolved.
    """

    key: str
    paths: tuple[str, ...]
    settings: RealmSettings = field(default_factory=RealmSettings)


class Lease:
    """One user of a job's realm.

    Attributes:
        realm: the job's.
    """

    def __init__(self, realm: Realm, release: Callable[[], None]) -> None:
        self.realm, self._release = realm, release
        self._released = False

    def release(self) -> None:
        """This user is done; the second time does nothing."""
        if not self._released:
            self._released = True
            self._release()


@dataclass(slots=True)
class _Held:
    realm: Realm
    artifacts: Artifacts
    library: StandardLibrary
    leases: int = 0


class UserCodeLoaders:
    """The realms of this process.

    Args:
        open_realm: makes a realm; another one in tests.
        report: is told what was found behind each end.
        join_s: how long an end waits for threads of the job's code.
    """

    def __init__(
        self,
        open_realm: Callable[[str, Artifacts], Realm] | None = None,
        report: Callable[[LeakReport], None] | None = None,
        join_s: float = JOIN_TIMEOUT_S,
    ) -> None:
        self._open = _open if open_realm is None else open_realm
        self._report = _log_report if report is None else report
        self._join_s = join_s
        self._held: dict[str, _Held] = {}
        self._lock = threading.RLock()

    @property
    def jobs(self) -> tuple[str, ...]:
        """Those whose realm is open."""
        with self._lock:
            return tuple(self._held)

    def holders(self, job: str) -> int:
        """How many leases of a job are out."""
        with self._lock:
            held = self._held.get(job)
            return 0 if held is None else held.leases

    def lease(self, job: str, artifacts: Artifacts) -> Lease:
        """A job's realm, opened when it is the first.

        Raises:
            DifferentUserCodeError: the job has a realm of other artifacts.
            NoIsolationError: this interpreter does not allow realms.
        """
        with self._lock:
            held = self._held.get(job)
            if held is None:
                library = StandardLibrary()
                held = self._held[job] = _Held(self._open(job, artifacts), artifacts, library)
            elif held.artifacts.key != artifacts.key:
                raise DifferentUserCodeError(
                    f"job {job!r} references other user code ({artifacts.key}) than its loader in this "
                    f"process ({held.artifacts.key}); give a changed program another job, or let all "
                    "tasks of this one end first"
                )
            held.leases += 1
            return Lease(held.realm, lambda: self._released(job, held))

    def ended(self, live: Collection[str]) -> None:
        """Close realms of jobs that are over: a worker hears of that only with its next task."""
        with self._lock:
            over = [job for job in self._held if job not in live]
        for job in over:
            self._close(job)

    def close(self) -> None:
        """Close all."""
        self.ended(())

    def _released(self, job: str, held: _Held) -> None:
        with self._lock:
            held.leases -= 1
            last = held.leases == 0 and self._held.get(job) is held
        if last:
            self._close(job)

    def _close(self, job: str) -> None:
        with self._lock:
            held = self._held.pop(job, None)
        if held is None:
            return
        let_go(held.realm, held.library, self._join_s)
        self._report(examine(held.realm))


def let_go(realm: Realm, library: StandardLibrary, join_s: float = 0.0) -> None:
    """Close a realm as the module says.

    Args:
        realm: that nobody uses any more.
        library: the standard library as it was when the realm was opened.
        join_s: how long its threads are waited for.
    """
    for name, hook in realm.release_hooks.items():
        try:
            realm.call(hook)
        except Exception:
            _log.exception("release hook %r of job %r failed", name, realm.name)
    realm.release_hooks.clear()
    realm.close()
    _join(realm, join_s)
    purge(realm, library)


def _open(job: str, artifacts: Artifacts) -> Realm:
    return Realm(job, artifacts.paths, artifacts.settings)


def _join(realm: Realm, join_s: float) -> None:
    """Give the realm's threads a moment: most end by themselves when what they wait for is gone."""
    threads: Sequence[threading.Thread] = [thread for thread in realm.threads if thread.is_alive()]
    for thread in threads:
        if thread is not threading.current_thread():
            thread.join(join_s / len(threads))


def _log_report(report: LeakReport) -> None:
    if report.leaked:
        _log.warning("%s", report)
