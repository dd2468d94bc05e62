"""Which living jobs use a folder: a file for each in it, locked by its driver for as long as that lives.

Whoever enters looks at the others first. Two that enter at once do so one after the other, because the
folder itself is locked meanwhile. A file that is locked by nobody, or whose process is gone, is of a driver
that died without a word, and is removed. Nothing is refused where the file system has no locks.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from headgate.common.decoders import json_decoder
from headgate.common.files.durable import clock, system, token, unlink
from headgate.common.files.durable_file import hold
from headgate.common.files.permissions import Permissions, make_folder, permissions_in_use
from headgate.common.process.processes import process_lives

_SUFFIX: Final = ".json"
_BYTES_MAX: Final = 1 << 16
_READABLE: Final = 0o644
"""Of the files where the process's mask decides: others must read who is in, and need not write."""

_GATE_S: Final = 5.0
"""How long somebody else may be entering before nobody waits for that any more."""


class Occupant(msgspec.Struct, frozen=True):
    """A job that uses a folder."""

    job_id: str
    name: str
    pid: int
    host: str

    @property
    def where(self) -> str:
        """Process and machine, for people."""
        return f"process {self.pid} on {self.host}"


_occupants: Final = json_decoder(Occupant)


def this_driver_as(job_id: str, name: str) -> Occupant:
    """A job of this process."""
    return Occupant(job_id, name, os.getpid(), socket.gethostname())


class Occupancy:
    """This driver's use of a folder.

    Args:
        folder: of the files; it is made when it is entered, and goes with the last that leaves.
        me: who uses it.
    """

    def __init__(self, folder: Path, me: Occupant) -> None:
        self._folder, self._me = folder, me
        self._path = folder / f"{me.job_id}-{token(4)}{_SUFFIX}"
        self._descriptor: int | None = None

    def enter(self, look: Callable[[Sequence[Occupant]], None]) -> None:
        """Use the folder from here on.

        Args:
            look: is told who else uses it; what it raises, this raises, and the folder is not used.

        Raises:
            OSError: the folder cannot be written.
        """
        permissions = permissions_in_use()
        mode = _READABLE if permissions is Permissions.UMASK else permissions.file_mode
        while True:
            make_folder(self._folder)
            gate = system.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                _wait_for(gate)
                if not self._is(gate):
                    continue  # whoever left last has removed it
                look(occupants_of(self._folder))
                self._descriptor = hold(self._path, msgspec.json.encode(self._me), mode)
                return
            finally:
                system.close(gate)

    def leave(self) -> None:
        """It is used no more; without having entered this does nothing."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        with contextlib.suppress(OSError):
            if os.path.samestat(self._path.lstat(), os.fstat(descriptor)):
                unlink(self._path)
        system.close(descriptor)
        with contextlib.suppress(OSError):  # others use it
            system.rmdir(self._folder)

    def _is(self, gate: int) -> bool:
        try:
            return os.path.samestat(self._folder.stat(), os.fstat(gate))
        except FileNotFoundError:
            return False


def occupants_of(folder: Path) -> list[Occupant]:
    """The jobs whose drivers live and use a folder; what others have left is removed.

    Raises:
        OSError: the folder cannot be read.
    """
    found = []
    for path in sorted(folder.glob(f"*{_SUFFIX}")):
        occupant = _read(path)
        if occupant is not None:
            found.append(occupant)
    return found


def _read(path: Path) -> Occupant | None:
    try:
        # At once, also where it is a pipe that nobody writes to.
        descriptor = system.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None  # it left meanwhile
    try:
        occupant = _occupants.decode(os.read(descriptor, _BYTES_MAX))
        here = occupant.host == socket.gethostname()
        # The number may be another process's by now. The lock alone would not do: forked children inherit it.
        if not (here and not process_lives(occupant.pid)) and _locked(descriptor):
            return occupant
        if here:  # of other machines the lock may not be seen
            unlink(path, missing_ok=True)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    finally:
        system.close(descriptor)
    return None


def _locked(descriptor: int, kind: int = fcntl.LOCK_SH) -> bool:
    """Whether somebody else holds the lock; otherwise it is got, where the file system has locks."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _wait_for(gate: int) -> None:
    """Until nobody else is entering, or for a while."""
    until = clock.monotonic() + _GATE_S
    while _locked(gate, fcntl.LOCK_EX) and clock.monotonic() < until:
        clock.sleep(0.01)
