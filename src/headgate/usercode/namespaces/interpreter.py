"""Replaces CPython's table of modules, `__import__` and thread start, with checks that this has worked.

The interpreter keeps two references to its table of modules: `sys.modules`, which Python code reads,
and `PyInterpreterState.modules`, which C code reads: `pickle`, the import of a circular import's
half-made module, and every extension that imports by itself. Both must be our table, or C code sees
the framework's modules where Python code sees the user's. The second reference is found by looking for
the old table's address in the interpreter's state: exactly one place holds it on CPython 3.9 to 3.13.
Where the check fails there is no isolation within a process, and :class:`NoIsolationError` says so.
"""

from __future__ import annotations

import _thread
import builtins
import ctypes
import importlib._bootstrap as _bootstrap
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType
from typing import Any, Final, Protocol

from headgate.usercode.loading_errors import NoIsolationError

Names = Mapping[str, Any] | None
"""The globals or locals of code that imports; C code gives none."""


class Import(Protocol):
    """The function `__import__`, with the parameters that `import` statements give it."""

    def __call__(
        self,
        name: str,
        globals: Names = None,  # noqa: A002 - called by name
        locals: Names = None,  # noqa: A002 - called by name
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """Import a module, and return the one that the import statement binds (it or its top package)."""


SWITCHES: Final = ("HEADGATE_NAMESPACES", "HEADGATE_REALMS")
"""The variable of the environment that forbids namespaces, and its name of before."""
OFF: Final = ("off", "false", "no", "0")
STATE_BYTES: Final = 16_384
"""How much of the interpreter's state is searched; the reference lies at 856 to 7,656."""
FRAMES_MAX: Final = 16
"""How far up the stack the owner of running code is looked for."""

import_by_name: Final[Import] = _bootstrap.__import__
"""`__import__` in Python, which goes through `sys.modules` as it is."""
find_spec: Final[Callable[..., ModuleSpec | None]] = _bootstrap._find_spec  # type: ignore[attr-defined]
"""Asks each finder of `sys.meta_path`, without a look into `sys.modules`."""

_kept: list[dict[str, ModuleType]] = []
"""Tables that were replaced: C code may have borrowed references to them, so they live for ever."""


def builtins_on_stack(depth: int) -> Iterator[dict[str, Any]]:
    """Yield the builtins of up to 16 stack frames, nearest first, from `depth` frames above the caller."""
    frame = sys._getframe(depth + 1)
    for _ in range(FRAMES_MAX):
        yield frame.f_builtins
        if frame.f_back is None:
            return
        frame = frame.f_back


def callers(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def builtins_of_caller(depth: int) -> dict[str, Any]:
    """Return the builtins of the frame `depth` levels above the function that calls this (0: its own)."""
    return sys._getframe(depth + 1).f_builtins


def replace_module_table(table: dict[str, ModuleType]) -> None:
    """Make `table`, a superset of `sys.modules`, the table of modules for Python and C code, for good.
    Call it once in a process, before a namespace opens. Where that fails, NoIsolationError is raised and
    nothing has changed.
    """
    old = sys.modules
    address = _address_of_table(old)
    _kept.append(old)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(table))
    ctypes.c_void_p.from_address(address).value = id(table)
    sys.modules = table
    if _table_of_c() != id(table) or not _canary(table):
        ctypes.c_void_p.from_address(address).value = id(old)
        sys.modules = old
        raise NoIsolationError(_no_isolation("C code did not follow the new table of modules"))


def _address_of_table(table: dict[str, ModuleType]) -> int:
    for switch in SWITCHES:
        if os.environ.get(switch, "").lower() in OFF:
            raise NoIsolationError(_no_isolation(f"{switch} is {os.environ[switch]}"))
    if sys.implementation.name != "cpython":
        raise NoIsolationError(_no_isolation(f"it is {sys.implementation.name}"))
    state = _pointer("PyInterpreterState_Get")
    size = ctypes.sizeof(ctypes.c_void_p)
    found = [
        state + offset
        for offset in range(0, STATE_BYTES, size)
        if ctypes.c_void_p.from_address(state + offset).value == id(table)
    ]
    if len(found) != 1 or _table_of_c() != id(table):
        raise NoIsolationError(
            _no_isolation(f"its state holds the table of modules in {len(found)} places, expected 1")
        )
    return found[0]


def _table_of_c() -> int:
    return _pointer("PyImport_GetModuleDict")


def _pointer(function: str) -> int:
    get = getattr(ctypes.pythonapi, function)
    get.restype = ctypes.c_void_p
    return int(get())


def _canary(table: dict[str, ModuleType]) -> bool:
    name = "headgate._canary"
    canary = ModuleType(name)
    dict.__setitem__(table, name, canary)
    try:
        load = ctypes.pythonapi.PyImport_GetModule
        load.restype = ctypes.py_object
        return load(ctypes.py_object(name)) is canary
    except Exception:
        return False
    finally:
        dict.pop(table, name)


def _no_isolation(why: str) -> str:
    version = ".".join(map(str, sys.version_info[:3]))
    return f"user code cannot be isolated within one process on this interpreter ({version}): {why}"


def replace_import(make: Callable[[Import], Import]) -> None:
    """Replace `builtins.__import__` by what `make` returns for the present one."""
    builtins.__import__ = make(builtins.__import__)


def wrap_thread_start(started: Callable[[Callable[..., None]], Callable[..., None]]) -> None:
    """Have each new thread of this process run `started(function)` instead of its function, for good.
    The starting thread calls `started`, so that it can look at who starts the thread.
    """
    name = "_start_joinable_thread" if hasattr(threading, "_start_joinable_thread") else "_start_new_thread"
    start = getattr(threading, name, _thread.start_new_thread)

    def start_wrapped(run: Callable[..., None], *args: Any, **kwargs: Any) -> Any:
        return start(started(run), *args, **kwargs)

    setattr(threading, name, start_wrapped)
