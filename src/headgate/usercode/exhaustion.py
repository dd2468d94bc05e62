"""Detects that memory ran out while user code is loaded, and ends the process, which cannot recover.

A process that has leaked loaders, or that may not map another library, does not recover. With the option
`classloader.fail-on-metaspace-oom-error` it ends with an exit code of its own, and Spark runs the task anew.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from headgate.common.settings.loader_options import LEAKED_BYTES_MAX, LEAKED_LOADERS_MAX
from headgate.usercode.loading_errors import UserCodeLoadError

EXIT_CODE: Final = 239
MESSAGES: Final = ("failed to map segment", "cannot allocate memory", "out of memory")
"""Messages of the dynamic linker about a library that it has no room for, in lower case."""
DEPTH_MAX: Final = 50


@dataclass(frozen=True, slots=True)
class LoaderBounds:
    """Limits on how many closed namespaces stay in memory, and by how many bytes the process has grown."""

    loaders: int = LEAKED_LOADERS_MAX  # namespaces that are still in memory after their grace period
    bytes: int = LEAKED_BYTES_MAX  # by which loading has grown the process, beyond what open namespaces need

    def exceeded(self, loaders: int, grown: int) -> str | None:
        """Return the exceeded limit as part of a sentence, None if none is; `grown` is in bytes.

        Example:
            >>> LoaderBounds(3, 1000).exceeded(4, 10)
            '4 loaders of jobs that have ended are in memory, more than classloader.max-leaked-loaders=3'
            >>> LoaderBounds(3, 1000).exceeded(3, 10)
        """
        if loaders > self.loaders:
            return (
                f"{loaders} loaders of jobs that have ended are in memory, more than "
                f"classloader.max-leaked-loaders={self.loaders}"
            )
        if grown > self.bytes:
            return (
                f"loading user code has grown this process by {grown} bytes that were not given back, more "
                f"than classloader.max-leaked-memory={self.bytes}"
            )
        return None


def is_exhaustion(error: BaseException) -> bool:
    """Return whether an error, or one in its chain of causes, means that loading ran out of memory.

    Example:
        >>> is_exhaustion(ImportError("libx.so: failed to map segment from shared object"))
        True
        >>> is_exhaustion(ImportError("no module named x"))
        False
    """
    return any(map(_is_of_memory, _chain(error)))


def is_failed_import(error: BaseException) -> bool:
    """Return whether an error, or one in its chain of causes, came out of an import that failed.

    Example:
        >>> import importlib
        >>> try:
        ...     importlib.import_module("nowhere_to_be_found")
        ... except ImportError as missing:
        ...     cause = missing
        >>> is_failed_import(cause), is_failed_import(MemoryError())
        (True, False)
    """
    return any(map(_is_of_import, _chain(error)))


def _is_of_import(error: BaseException) -> bool:
    if isinstance(error, ImportError):
        return True
    frames = traceback.walk_tb(error.__traceback__)
    names = (str(frame.f_globals.get("__name__")) for frame, _ in frames)
    return any(name.startswith(("importlib._bootstrap", "_frozen_importlib")) for name in names)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(DEPTH_MAX):
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__


def _is_of_memory(error: BaseException) -> bool:
    if not isinstance(error, ImportError | OSError):
        return isinstance(error, MemoryError)
    no_memory = getattr(error, "errno", None) == errno.ENOMEM
    return no_memory or any(text in str(error).lower() for text in MESSAGES)


def end_process(why: str, leave: Callable[[int], None] = os._exit) -> None:
    """Write `why` to stderr and exit by `leave`, without Python's shutdown, which might need memory."""
    sys.stderr.write(f"headgate: FATAL: this worker ends with exit code {EXIT_CODE}: {why}\n")
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    leave(EXIT_CODE)


def on_load_failure(
    error: BaseException, loader: str, fatal: bool, leave: Callable[[int], None] = os._exit
) -> UserCodeLoadError | None:
    """Return the error to raise if `error` means that memory ran out, else None; `fatal`: exit by `leave`."""
    if not is_exhaustion(error):
        return None
    why = f"memory ran out while user code loader {loader!r} loaded a module: {error}"
    if fatal:
        end_process(why, leave)
        return None
    return UserCodeLoadError(
        f"{why}; give workers more memory (spark.executor.pyspark.memory) or bring fewer packages"
    )
