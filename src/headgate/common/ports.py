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
    """Two clocks: one for people and processing time, one for timeouts."""

    def now_ms(self) -> int:
        """Return wall-clock milliseconds since 1970; may jump."""

    def monotonic_ms(self) -> int:
        """Return milliseconds that never go back; the only clock for timeouts."""

    def precise_ms(self) -> float:
        """Return the monotonic clock with its fraction, for measuring."""


class Randomness(Protocol):
    """The only source of chance."""

    def token(self, size: int) -> bytes:
        """`size` unpredictable bytes (predictable from the seed in the simulator)."""

    def uniform(self, low: float, high: float) -> float:
        """Return a number between `low` and `high`."""


class Disk(Protocol):
    """Durable files under one root; names are relative paths with ``/``.

    Demands on an implementation: a name that :meth:`create` returned for is durable with all its
    bytes; :meth:`create_if_absent` succeeds for exactly one of any number of concurrent callers;
    a read after a completed write sees it.
    """

    def create(self, name: str, parts: Iterable[bytes | memoryview]) -> None:
        """Write a file durably, replacing an older one only when the new one is complete.

        The parts are asked for once and in order, so they need not be in memory together.
        """

    def create_if_absent(self, name: str, data: bytes) -> bool:
        """Write a small file durably unless the name exists; False when it does."""

    def read(self, name: str) -> bytes:
        """Return all bytes of a file; FileNotFoundError when there is none."""

    def list(self, prefix: str) -> Sequence[str]:
        """Return the sorted names of the files below the folder `prefix`."""

    def delete(self, name: str) -> None:
        """Remove a file; an absent one is no error."""

    def describe(self, name: str = "") -> str:
        """Return the full URI, for messages."""


class Background(Protocol):
    """Runs blocking work in the background of a loop and reports back to it."""

    def submit(self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        """Run `work` elsewhere, in submission order; then `done(result, error)` is called from there."""


class Link(Protocol):
    """One authenticated, ordered, reliable connection that carries control messages."""

    def send(self, message: Any) -> None:
        """Queue a message; never blocks. After :meth:`close` or a broken peer it does nothing."""

    def close(self) -> None:
        """Give up the connection."""


class UserCode(Protocol):
    """The code of a job's user in this process: isolated in a namespace, or among all other modules."""

    @property
    def refuse_leaving(self) -> Callable[[Iterable[Any]], None] | None:
        """Raises where one of some records must not reach the framework; None where nothing can be wrong."""

    def call(self, function: Callable[..., T], *args: Any) -> T:
        """Call `function` where that code finds its own modules; once for a batch."""

    def pickler(self) -> Any:
        """Return a module with the `Pickler` and `loads` of cloudpickle, for objects of that code."""

    def load(self, payload: bytes) -> Any:
        """Return an object of that code that another process of the job has pickled."""


class IsolatedCode(UserCode, Protocol):
    """A program's own code in the process that runs the program, from where it is shipped to workers."""

    main: ModuleType  # the module that the program runs as

    @property
    def paths(self) -> tuple[Path, ...]:
        """Folders, archives and wheels of this machine, in order of search."""

    def close(self) -> None:
        """The program has ended."""


class Gang(Protocol):
    """Starts and ends the worker processes of a job, all or none."""

    def submit(self, gang: int, slots: int) -> None:
        """Start `slots` workers that will register with the job master under gang number `gang`."""

    def cancel(self, gang: int) -> None:
        """End a gang by force; its end is reported like any other."""


class Probe(Protocol):
    """Named places in the code where a test may inject a fault; in production nothing listens."""

    def reached(self, place: str) -> None:
        """The code is at `place`."""


class NoProbe:
    """The probe of production: does nothing."""

    def reached(self, place: str) -> None:
        """Do nothing."""
