"""Refuses what code of a closed namespace asks for, in the namespace's place."""

from __future__ import annotations

import sys
import threading
import types
from collections.abc import Hashable
from typing import NoReturn

from headgate.usercode.errors import ClosedUserCodeLoaderError
from headgate.usercode.namespaces import context


class ClosedNamespace:
    """Takes the place of a namespace at its end: it refuses everything, naming the job."""

    def __init__(self, name: str) -> None:
        self.name = name

    closed = True
    handle = None

    @property
    def release_hooks(self) -> NoReturn:
        """See `code_release.HookOwner`."""
        self.refuse("a release hook")

    @property
    def threads(self) -> NoReturn:
        """See `context.View`."""
        self.refuse("a thread")

    @property
    def path(self) -> NoReturn:
        """See `context.View`."""
        self.refuse("sys.path")

    @property
    def meta_path(self) -> NoReturn:
        """See `context.View`."""
        self.refuse("sys.meta_path")

    def home(self, name: Hashable) -> NoReturn:
        """See `context.View`."""
        self.refuse(f"module {name!r}")

    def store(self, name: str, module: types.ModuleType) -> NoReturn:
        """See `context.View`."""
        self.refuse(f"module {name!r}")

    def forget(self, name: str) -> NoReturn:
        """See `context.View`."""
        self.refuse(f"module {name!r}")

    def clear(self) -> NoReturn:
        """See `context.View`."""
        self.refuse("sys.modules")

    def view(self) -> NoReturn:
        """See `context.View`."""
        self.refuse("sys.modules")

    def refuse(self, what: str) -> NoReturn:
        """Say who asked for what."""
        thread, place = threading.current_thread().name, _place_of_user_code()
        raise ClosedUserCodeLoaderError(
            f"{what} was asked for through the user code of job {self.name!r}, which is used after the job "
            f"has terminated, in thread {thread!r} at {place}; look for a lingering thread or a static "
            "registry that holds it, or switch the check off with classloader.check-leaked-classloader=false"
        )


def _place_of_user_code() -> str:
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        if context.MARK in frame.f_builtins:
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return "an unknown place"
