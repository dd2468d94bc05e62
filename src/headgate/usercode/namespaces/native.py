"""Each shared object once per process: CPython can neither unload an extension module nor load it twice.

A second namespace that loads the same file gets, without a word, the first one's C state: exceptions that
nobody catches, recursion errors, crashes. So the file is refused, with the ways out.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headgate.usercode.errors import NativeModuleConflictError


@dataclass(frozen=True, slots=True)
class Loaded:
    """Who has loaded a shared object.

    Attributes:
        loader: a token of the namespace; equal for the same one only.
    """

    loader: int
    name: str


class NativeModules:
    """The shared objects that namespaces of this process have loaded, by the file itself and not by its name.

    Example:
        >>> import tempfile
        >>> file = tempfile.NamedTemporaryFile()
        >>> seen = NativeModules()
        >>> seen.claim(Loaded(1, "job a"), "yaml._yaml", file.name)
        >>> seen.claim(Loaded(1, "job a"), "yaml._yaml", file.name)
        >>> seen.claim(Loaded(2, "job b"), "yaml._yaml", file.name)
        Traceback (most recent call last):
            ...
        headgate.usercode.errors.NativeModuleConflictError: extension module 'yaml._yaml' ...
    """

    def __init__(self) -> None:
        self._loaded: dict[tuple[int, int], Loaded] = {}
        self._lock = threading.Lock()

    def claim(self, loader: Loaded, name: str, file: str) -> None:
        """Note that a namespace is about to load a shared object."""
        status = Path(file).stat()
        key = (status.st_dev, status.st_ino)
        with self._lock:
            first = self._loaded.setdefault(key, loader)
        if first.loader != loader.loader:
            raise NativeModuleConflictError(_conflict(name, file, first.name), name=name, path=file)


NATIVE_MODULES: Final = NativeModules()
"""Of this process."""


def _conflict(name: str, file: str, first: str) -> str:
    top, _, _ = name.partition(".")
    return (
        f"extension module {name!r} ({file}) was already loaded in this process by user code loader "
        f"{first!r}, and CPython cannot load one shared object twice; run the job in a process of its own "
        "(classloader.native-modules=process), let its packages lie in a layer that jobs share "
        f"(classloader.dependency-layer=native), or take the framework's copy ('{top}.' in "
        "classloader.parent-first-patterns.additional)"
    )
