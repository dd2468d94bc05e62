"""The ports to the outside: clock, randomness, disk, network, gang, background work, probes.

Production and simulator implement the same ports, so that the code between them is the same code.
Nothing inside Headgate asks which of the two it runs in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Clock(Protocol):
    """The port to time: a wall clock for people and processing time, a monotonic clock for timeouts."""

    def now_ms(self) -> int:
        """Return the wall clock in milliseconds since 1970 (UTC); may jump, also back."""

    def monotonic_ms(self) -> int:
        """Return milliseconds since some fixed moment, which never go back; the only clock for timeouts."""

    def precise_ms(self) -> float:
        """Return the monotonic clock in milliseconds with a fraction, for measuring."""


class Randomness(Protocol):
    """The port to randomness, for code that also runs in the simulator, where the seed decides it."""

    def token(self, size: int) -> bytes:
        """Return `size` unpredictable bytes (predictable from the seed in the simulator)."""

    def uniform(self, low: float, high: float) -> float:
        """Return a random number from `low` to `high`, all equally likely."""


class Disk(Protocol):
    """Durable files under one root; names are relative paths with ``/``.

    Demands on an implementation: a name that :meth:`create` returned for is durable with all its bytes;
    :meth:`create_if_absent` succeeds for exactly one of any number of concurrent callers; a read after a
    completed write sees it. The methods raise StorageError for a bad name, and where the storage fails.
    """

    def create(self, name: str, parts: Iterable[bytes | memoryview]) -> None:
        """Write a file durably; an older one stays as it was unless and until the new one is complete.

        The parts are asked for once and in order, so they need not be in memory together.
        """

    def create_if_absent(self, name: str, data: bytes) -> bool:
        """Write a small file durably and return True; return False, writing nothing, if the name exists."""

    def read(self, name: str) -> bytes:
        """Return all bytes of a file; FileNotFoundError when there is none."""

    def list(self, prefix: str) -> Sequence[str]:
        """Return the sorted names, relative to the root, of files below the folder `prefix` at any depth."""

    def delete(self, name: str) -> None:
        """Remove a file; an absent one is no error. Folders that become empty may stay."""

    def describe(self, name: str = "") -> str:
        """Return the full URI of a file, or of the root (empty name), which opens the same disk again."""


class Background(Protocol):
    """The port to background work: runs blocking calls off the loop, one by one, and reports results."""

    def submit(self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        """Run `work()` in the background, in order; then `done(result, None)` or `done(None, error)`."""


class Link(Protocol):
    """One authenticated, ordered, reliable connection that carries control messages."""

    def send(self, message: Any) -> None:
        """Queue a message; never blocks. After :meth:`close` or a broken peer it does nothing."""

    def close(self) -> None:
        """Close the connection, after which :meth:`send` does nothing."""


class UserCode(Protocol):
    """Access to the code of a job's user in this process, isolated in a namespace or not."""

    @property
    def refuse_leaving(self) -> Callable[[Iterable[Any]], None] | None:
        """A function that raises if one of the given records must not leave isolated code; None: all may."""

    def call(self, function: Callable[..., T], *args: Any) -> T:
        """Return `function(*args)`, in which user code finds its own modules; to be used once per batch."""

    def pickler(self) -> Any:
        """Return a module with cloudpickle's `Pickler` and `loads`, for objects of the user's classes."""

    def load(self, payload: bytes) -> Any:
        """Return the object in `payload`, which is trusted to be pickled by another process of the job."""


class IsolatedCode(UserCode, Protocol):
    """An isolated program's code in the process that runs the program and ships the code to workers."""

    main: ModuleType  # the module that the program runs as

    @property
    def paths(self) -> tuple[Path, ...]:
        """The folders, archives and wheels that the program brings, on this machine, in order of search."""

    def close(self) -> None:
        """Release the code; to be called once the program has ended."""


class Gang(Protocol):
    """The port to a cluster: starts and ends the worker processes of a job, all or none."""

    def submit(self, gang: int, slots: int) -> None:
        """Start `slots` workers that will register with the job master under gang number `gang`."""

    def cancel(self, gang: int) -> None:
        """Kill the workers of gang number `gang`; their end is reported like any other."""


class Probe(Protocol):
    """The port for tests that inject faults at named places in the code; production does nothing there."""

    def reached(self, place: str) -> None:
        """Report that the code is at the place of this name; a test may raise an error or wait here."""


class NoProbe:
    """The probe of production, which injects no faults."""

    def reached(self, place: str) -> None:
        """Do nothing."""
