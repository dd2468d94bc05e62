"""The black box: a small file that outlives a worker process and says why it ended, if it cannot report it.

It is memory-mapped, so that a note costs next to nothing and survives any end of the process: the running
subtask, the last lines on standard error, and the reason (`os._exit` with its caller, a fatal signal with the
stack). The driver reads it if on the same machine; a worker that exits normally removes it.
"""

from __future__ import annotations

import faulthandler
import mmap
import os
import re
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn, TextIO

from headgate.common.files.durable import clock, open_read, unlink
from headgate.common.process.children import OwnProcess, hide
from headgate.common.process.processes import process_lives
from headgate.common.refusals.users_frames import is_users_file

PREFIX: Final = "headgate-box-"
LINES_MAX: Final = 10
FRAMES_MAX: Final = 12
_AT_WORK, _ERRORS, _WORDS = 512, 4096, 4096
_SIZE: Final = _AT_WORK + _ERRORS + _WORDS
_READ_MAX: Final = _SIZE + 64 * 1024
_ABANDONED_S: Final = 60
"""Age from which a dead worker's box is removed; a running driver has read it long before."""
_NAME: Final = re.compile(PREFIX + r"(?P<pid>\d+)-\w+")
_FRAME: Final = re.compile(r'  File "(?P<file>[^"]*)", line \d+ in .*')


@dataclass(frozen=True, slots=True)
class Remains:
    """A worker's black box as read: the subtask `at_work`, last lines on standard error, why it ended."""

    at_work: str = ""  # the subtask that ran last
    errors: str = ""  # the last lines on standard error
    words: str = ""  # why the process ended, as far as it could write that


class BlackBox:
    """The black box of this process: a new file at `path`, memory-mapped and open for writing until
    :meth:`close`. One is made per worker process, by :func:`black_box`. A forked child records and deletes
    nothing.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = hide(path.open("w+b", buffering=0))  # a child's fatal signal is not noted here
        self._file.truncate(_SIZE)
        self._map = mmap.mmap(self._file.fileno(), _SIZE)
        self._file.seek(_SIZE)  # after that the handler of fatal signals writes
        self._process, self._noted, self._errors = OwnProcess(), b"", b""

    def at_work(self, whose: bytes) -> None:
        """Record which subtask runs now, for the report of a crash; `whose` is its text in UTF-8."""
        if whose is not self._noted:
            self._noted = whose
            self._put(0, _AT_WORK, whose[: _AT_WORK - 1])

    def printed(self, text: str) -> None:
        self._errors = (self._errors + text.encode(errors="replace"))[-_ERRORS:]
        self._put(_AT_WORK, _ERRORS, self._errors)

    def say(self, words: str) -> None:
        self._put(_AT_WORK + _ERRORS, _WORDS, words.encode(errors="replace")[: _WORDS - 1])

    @property
    def has_words(self) -> bool:
        return self._map[_AT_WORK + _ERRORS] != 0

    def remove(self) -> None:
        """Delete the file, read or not; from any thread, also before `close()`; no-op in a forked child."""
        if self._process.is_here:
            with suppress(OSError):
                unlink(self.path)

    def close(self) -> None:
        if self._process.is_here:
            self.remove()
            with suppress(OSError):
                self._file.close()
            self._map.close()

    def watch_fatal_signals(self) -> bool:
        if faulthandler.is_enabled():
            return False
        faulthandler.enable(self._file, all_threads=False)
        return True

    def _put(self, start: int, size: int, data: bytes) -> None:
        if self._process.is_here:
            self._map[start : start + size] = data.ljust(size, b"\0")


@contextmanager
def black_box() -> Iterator[BlackBox | None]:
    """Open a black box for this process in the `with` block; it is None if no file can be created.
    It records standard error, `os._exit` (both replaced meanwhile) and fatal signals. Boxes of dead processes
    that are older than a minute are deleted first.
    """
    folder = Path(tempfile.gettempdir())
    remove_abandoned(folder)
    try:
        descriptor, name = tempfile.mkstemp(prefix=f"{PREFIX}{os.getpid()}-", dir=folder)
        os.close(descriptor)
        box = BlackBox(Path(name))
    except OSError:
        yield None
        return
    watching = box.watch_fatal_signals()
    leave, errors = os._exit, sys.stderr
    os._exit = noting = _exit_noted(leave, box)  # type: ignore[assignment]
    sys.stderr = copied = _Copied(errors, box)
    try:
        yield box
    finally:
        if sys.stderr is copied:
            sys.stderr = errors
        if os._exit is noting:
            os._exit = leave
        if watching:
            faulthandler.disable()
        box.close()


def _exit_noted(leave: Callable[[int], NoReturn], box: BlackBox) -> Callable[[int], NoReturn]:
    own = OwnProcess()

    def _exit(status: int) -> NoReturn:
        if own.is_here and not box.has_words:
            with suppress(Exception):
                stack = traceback.extract_stack()[-2::-1]
                lines = [(f.filename, f'  File "{f.filename}", line {f.lineno} in {f.name}') for f in stack]
                frames = "\n".join(_innermost_users(lines)[:FRAMES_MAX])
                box.say(f"os._exit({status}) was called, in\n{frames}")
        leave(status)

    return _exit


class _Copied:
    """A stream (standard error) whose text is also recorded in the black box."""

    def __init__(self, stream: TextIO, box: BlackBox) -> None:
        self._stream, self._box = stream, box

    def write(self, text: str) -> int:
        with suppress(Exception):
            self._box.printed(text)
        return self._stream.write(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def has_words(path: str) -> bool:
    """Return whether the black box at `path` says why its process exits; False also if it cannot be read."""
    with suppress(OSError), Path(path).open("rb") as file:
        file.seek(_AT_WORK + _ERRORS)
        return file.read(1) not in (b"", b"\0")
    return False


def remains_of(path: str) -> Remains | None:
    """Read and delete the black box at `path`, of a process that is dead or alive. None: it cannot be read,
    or `path` (which a worker sent) is no name of a box in this host's folder for temporary files.
    """
    place = Path(path)
    if _NAME.fullmatch(place.name) is None or place.parent != Path(tempfile.gettempdir()):
        return None
    try:
        with open_read(place) as file:
            data = file.read(_READ_MAX)
        unlink(place)
    except OSError:
        return None
    errors, words = _AT_WORK, _AT_WORK + _ERRORS
    reasons = [_text(data[words:_SIZE]), _fatal(_text(data[_SIZE:]))]
    lines = _text(data[errors:words]).splitlines()[-LINES_MAX:]
    return Remains(_text(data[:errors]), "\n".join(lines), "; ".join(filter(None, reasons)))


def _text(data: bytes) -> str:
    return data.rstrip(b"\0").decode(errors="replace").strip()


def _fatal(text: str) -> str:
    r"""Return the text of Python's handler of fatal signals, with the user's innermost frames only.

    Example:
        >>> print(_fatal('Fatal Python error: Aborted\n\nCurrent thread 0x1 (most recent call first):\n'
        ...              '  File "/home/ada/job.py", line 7 in crash\n\nExtension modules: numpy\n'))
        Fatal Python error: Aborted, in
          File "/home/ada/job.py", line 7 in crash
    """
    if not text:
        return ""
    found = [match for line in text.splitlines() if (match := _FRAME.fullmatch(line))]
    users = _innermost_users([(match["file"], match[0]) for match in found]) or [m[0] for m in found[:1]]
    first = text.splitlines()[0]
    return "\n".join([f"{first}, in", *users[:FRAMES_MAX]]) if users else first


def _innermost_users(frames: Sequence[tuple[str, str]]) -> list[str]:
    # The texts of the innermost adjacent frames in user files; frames come innermost first.
    users: list[str] = []
    for file, frame in frames:
        ours = file.startswith("<") or not is_users_file(file)
        if ours and users:
            break
        if not ours:
            users.append(frame)
    return users


def remove_abandoned(folder: Path, older_than_s: float = _ABANDONED_S) -> None:
    """Delete black boxes in `folder` whose process is dead and that are older than `older_than_s`."""
    for path in folder.glob(f"{PREFIX}*"):
        match = _NAME.fullmatch(path.name)
        with suppress(OSError):
            dead = match is not None and not process_lives(int(match["pid"]))
            if dead and clock.time() - path.stat().st_mtime > older_than_s:
                unlink(path)
