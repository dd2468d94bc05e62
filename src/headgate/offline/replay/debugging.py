"""A debugger at the user's function: it stops where that is called for the key, and where it raises."""

from __future__ import annotations

import pdb
import sys
from bdb import BdbQuit
from types import FrameType
from typing import Any, Final

LEFT: Final = BdbQuit.__name__
"""Name of the exception by which a debugger ends what it runs."""


class Debugger:
    """Python's debugger, with breakpoints at the first lines of `process` and `on_timer` of a function.

    A function of Headgate's own, as that of a window, has none: then it opens only where user code raises.
    """

    def __init__(self, function: Any) -> None:
        self._debugger = pdb.Pdb(nosigint=True)
        self._debugger.prompt = "(replay) "
        self._begun = False
        for name in ("process", "on_timer", "process_broadcast"):
            code = getattr(getattr(function, name, None), "__code__", None)
            if code is not None and not _is_ours(function, name):
                self._debugger.set_break(code.co_filename, code.co_firstlineno, funcname=code.co_name)

    def before(self, what: str) -> None:
        """Say what comes, and begin to trace; called before each step of the key."""
        _say(what)
        if not self._begun and self._debugger.get_all_breaks():
            self._begun = True
            self._trace()

    def _trace(self) -> None:
        # As `Pdb.set_trace` does, but without a stop before the first breakpoint.
        debugger, frame = self._debugger, sys._getframe()
        debugger.reset()
        outward: FrameType | None = frame
        while outward is not None:
            debugger.botframe, outward = outward, outward.f_back
        debugger.set_continue()
        sys.settrace(debugger.trace_dispatch)

    def after_failure(self, raised: BaseException) -> None:
        """Open the debugger in the frame in which user code raised."""
        sys.settrace(None)
        first = raised.__context__ or raised
        if not isinstance(first, BdbQuit):
            _say(f"{type(first).__name__}: {first}")
            pdb.post_mortem(first.__traceback__)

    def close(self) -> None:
        """Remove the breakpoints, and trace no more."""
        sys.settrace(None)
        self._debugger.clear_all_breaks()


def _say(what: str) -> None:
    sys.stdout.write(f"--- {what}\n")
    sys.stdout.flush()


def _is_ours(function: Any, name: str) -> bool:
    module = getattr(getattr(type(function), name), "__module__", "") or ""
    return module.partition(".")[0] == "headgate"
