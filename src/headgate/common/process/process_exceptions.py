"""Tells interrupts that must end the process from a function's own SystemExit, KeyboardInterrupt and such.

``SystemExit``, ``KeyboardInterrupt``, ``GeneratorExit`` and asyncio's ``CancelledError`` get past every
``except Exception``. Raised by a program's function they are an error of it. A Ctrl-C, a signal that ends
the process, and what Headgate itself raises past all handlers must not be taken for one. The handling of
Ctrl-C begins in `common.process.signal_handlers`, and ends the job in `runtime.driver.driver`.
"""

from __future__ import annotations

import opcode
from types import TracebackType
from typing import Final

from headgate.common.errors import TerminatedError
from headgate.common.process.children import is_child

_RAISE: Final = opcode.opmap["RAISE_VARARGS"]
_BY_SIGNAL: Final = "__headgate_by_signal__"


class PastAllHandlers(BaseException):
    """Base of Headgate's own exceptions that no handler may catch as an error of the user's function."""


def is_about_the_process(error: BaseException) -> bool:
    """Return whether an exception (by Ctrl-C or a signal) must end the process, and is no user code's error.

    In a forked child True for all but subclasses of `Exception`: user code leaves by `sys.exit` there.

    Example:
        >>> is_about_the_process(ValueError()), is_about_the_process(SystemExit(7))
        (False, False)
        >>> try:
        ...     raise KeyboardInterrupt
        ... except KeyboardInterrupt as error:
        ...     is_about_the_process(error)
        False
        >>> import signal
        >>> try:
        ...     signal.raise_signal(signal.SIGINT)
        ... except KeyboardInterrupt as error:
        ...     is_about_the_process(error)
        True
    """
    if isinstance(error, Exception):
        return False
    if is_child():
        return True  # a child leaves user code by `sys.exit`
    if isinstance(error, (PastAllHandlers, TerminatedError)) or getattr(error, _BY_SIGNAL, False):
        return True
    return isinstance(error, KeyboardInterrupt) and _is_ctrl_c(error)


def let_pass(error: BaseException) -> None:
    """Raise `error` again if it must end the process; return if it may be handled as a function's error.

    For handlers of what a program's function raised, which begin with ``except BaseException``.
    """
    if is_about_the_process(error):
        raise error


def note_signal(error: BaseException) -> None:
    """Mark `error`, which a signal handler raises, so that :func:`is_about_the_process` says True of it."""
    setattr(error, _BY_SIGNAL, True)


def _is_ctrl_c(error: BaseException) -> bool:
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, KeyboardInterrupt) and not _is_raised_by_statement(seen.__traceback__):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


def _is_raised_by_statement(trace: TracebackType | None) -> bool:
    # Whether the innermost frame stands at a `raise`: Python's own handler of SIGINT has no frame.
    if trace is None:
        return False
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code.co_code
    return trace.tb_lasti < len(code) and code[trace.tb_lasti] == _RAISE
