"""Keeps one isolated namespace per job in a process: leased by its tasks, closed with the last lease.

Closing calls release hooks and the namespace's own `atexit` functions, clears what the standard library
keeps of it, and refuses further use; a grace period later its modules should be out of memory.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from headgate.usercode.loading_errors import DifferentUserCodeError
from headgate.usercode.namespaces.leaks import LeakReport, examine
from headgate.usercode.namespaces.loader import Namespace, NamespaceSettings
from headgate.usercode.namespaces.purging import StandardLibrary, purge

JOIN_TIMEOUT_S: Final = 5.0
_log = logging.getLogger("headgate.usercode")


@dataclass(frozen=True, slots=True)
class Artifacts:
    """Paths and settings from which a job's isolated namespace is made; equal keys mean equal code."""

    key: str  # hash of all contents and settings
    paths: tuple[str, ...]
    settings: NamespaceSettings = field(default_factory=NamespaceSettings)


class Lease:
    """One task's use of a job's isolated namespace, which stays open until the last lease is released."""

    def __init__(self, namespace: Namespace, release: Callable[[], None]) -> None:
        self.namespace, self._release = namespace, release
        self._released = False

    def release(self) -> None:
        """Give the lease back, and close the namespace if it was the last; a second call does nothing."""
        if not self._released:
            self._released = True
            self._release()


@dataclass(slots=True)
class _Held:
    namespace: Namespace
    artifacts: Artifacts
    library: StandardLibrary
    leases: int = 0


class UserCodeLoaders:
    """The open isolated namespaces, one per job; closing one waits `join_s` s for threads, calls `report`."""

    def __init__(
        self,
        open_namespace: Callable[[str, Artifacts], Namespace],
        report: Callable[[LeakReport], None],
        join_s: float = JOIN_TIMEOUT_S,
    ) -> None:
        self._open, self._report, self._join_s = open_namespace, report, join_s
        self._held: dict[str, _Held] = {}
        self._lock = threading.RLock()

    @property
    def jobs(self) -> tuple[str, ...]:
        with self._lock:
            return tuple(self._held)

    def lease(self, job: str, artifacts: Artifacts) -> Lease:
        """Return a lease on a job's namespace, opened by the first; DifferentUserCodeError for other code."""
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
            return Lease(held.namespace, lambda: self._released(job, held))

    def _released(self, job: str, held: _Held) -> None:
        with self._lock:
            held.leases -= 1
            if held.leases:
                return
            del self._held[job]
        release_namespace(held.namespace, held.library, self._join_s)
        self._report(examine(held.namespace))


def release_namespace(namespace: Namespace, library: StandardLibrary, join_s: float = 0.0) -> None:
    """Close a namespace: call its hooks (errors: logged), wait `join_s` s for threads, undo its patches."""
    for name, hook in namespace.release_hooks.items():
        try:
            namespace.call(hook)
        except Exception:
            _log.exception("release hook %r of job %r failed", name, namespace.name)
    namespace.release_hooks.clear()
    namespace.close()
    # Most threads end by themselves when what they wait for is closed.
    threads = [thread for thread in namespace.threads if thread.is_alive()]
    for thread in threads:
        if thread is not threading.current_thread():
            thread.join(join_s / len(threads))
    purge(namespace, library)
