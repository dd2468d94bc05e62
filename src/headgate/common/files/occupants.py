"""Which living jobs use a folder: a file for each in it, locked by its driver for as long as that lives.

A driver that enters looks at the others first. Two that enter at once do so one after the other, because the
folder itself is locked meanwhile. A file that no process has locked, or whose process has exited, is of a
driver that died without cleaning up, and is removed. Nothing is refused where the file system has no locks.
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
from headgate.common.files.durable_file import hold, try_lock
from headgate.common.files.permissions import Permissions, make_folder, permissions_in_use
from headgate.common.process.processes import process_lives

_SUFFIX: Final = ".json"
_BYTES_MAX: Final = 1 << 16
_READABLE: Final = 0o644
"""Mode of the files where the process's mask decides: other users must read them, and need not write."""

_GATE_S: Final = 5.0
"""How long a driver waits for another one that is entering."""


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
    """This driver's use of a folder, made when it is entered, and removed by the last driver that leaves."""

    def __init__(self, folder: Path, me: Occupant) -> None:
        self._folder, self._me = folder, me
        self._path = folder / f"{me.job_id}-{token(4)}{_SUFFIX}"
        self._descriptor: int | None = None

    def enter(self, look: Callable[[Sequence[Occupant]], None]) -> None:
        """Use the folder from here on, unless `look`, which gets the other occupants, raises."""
        permissions = permissions_in_use()
        mode = _READABLE if permissions is Permissions.UMASK else permissions.file_mode
        while True:
            make_folder(self._folder)
            gate = system.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                _lock_for_entering(gate)
                if not self._is(gate):
                    continue  # the driver that left last has removed it
                look(occupants_of(self._folder))
                self._descriptor = hold(self._path, msgspec.json.encode(self._me), mode)
                return
            finally:
                system.close(gate)

    def leave(self) -> None:
        """End the use of the folder; does nothing where it was not entered."""
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
    """The jobs whose drivers live and use a folder; files of dead drivers are removed."""
    found = (_read(path) for path in sorted(folder.glob(f"*{_SUFFIX}")))
    return [occupant for occupant in found if occupant is not None]


def _read(path: Path) -> Occupant | None:
    try:
        # Without waiting, also where it is a pipe that no process writes to.
        descriptor = system.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None  # its driver left meanwhile
    try:
        occupant = _occupants.decode(os.read(descriptor, _BYTES_MAX))
        here = occupant.host == socket.gethostname()
        # The number may be another process's by now. The lock alone would not do: forked children inherit it.
        if not (here and not process_lives(occupant.pid)) and try_lock(descriptor) is False:
            return occupant
        if here:  # of other machines the lock may not be seen
            unlink(path, missing_ok=True)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    finally:
        system.close(descriptor)
    return None


def _lock_for_entering(gate: int) -> None:
    """Wait until no other driver is entering, but not for ever."""
    until = clock.monotonic() + _GATE_S
    while try_lock(gate, fcntl.LOCK_EX) is False and clock.monotonic() < until:
        clock.sleep(0.01)
