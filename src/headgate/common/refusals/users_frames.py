"""Tracebacks and errors as the program's author wants them: without frames of Headgate and of imports."""

from __future__ import annotations

import re
import sys
import sysconfig
import traceback
from pathlib import Path
from typing import Final

from headgate.common.refusals.cells import short_place, with_cell_names
from headgate.common.refusals.texts import shortened

_OURS: Final = (f"{Path(__file__).resolve().parents[2]}/", "<headgate", "<frozen importlib")
"""How the names of files begin that are not the user's; generated code is named `<headgate ...>`."""

_LINKS: Final = (
    "The above exception was the direct cause of the following exception:",
    "During handling of the above exception, another exception occurred:",
)
_HEADING: Final = re.compile(r"(  \+ Exception Group )?Traceback( \(most recent call last\):)?")

_PATHS: Final = sysconfig.get_paths()
_STANDARD_LIBRARY: Final = (f"{_PATHS['stdlib']}/", f"{_PATHS['platstdlib']}/", "<frozen ")
_IPYTHON: Final = re.compile(r"[/\\]IPython[/\\]")
_INSTALLED: Final = (f"{_PATHS['purelib']}/", f"{_PATHS['platlib']}/")
"""Installed packages may lie below the folder of the standard library."""

_OTHERS: Final = (*_OURS, *_STANDARD_LIBRARY, *_INSTALLED)


def is_users_file(name: str) -> bool:
    """Return whether a file of code (its name) is not Headgate's: the program's, a package's or Python's own.

    Example:
        >>> is_users_file("/home/ada/job.py"), is_users_file(__file__)
        (True, False)
    """
    return not name.startswith(_OURS)


def users_traceback(error: BaseException) -> str:
    """Return the text of an error's traceback, its causes too, without frames of Headgate and of importlib.

    An error that has no other frame, such as a syntax error, is shown without any.

    Example:
        >>> try:
        ...     {}["key"]
        ... except KeyError as error:
        ...     print(users_traceback(error).splitlines()[-1])
        KeyError: 'key'
    """
    found = traceback.TracebackException.from_exception(error)
    _leave_users_frames(found)
    return shortened("".join(found.format()))


def raised_line(traceback_text: str) -> str:
    r"""Return the type and the message's first line at the end of a traceback's text; "" for empty text.

    Further lines of the message, notes and the members of a group come after it, and are not part of it.

    Example:
        >>> raised_line('Traceback (most recent call last):\n  File "a.py", line 1\nValueError: one\ntwo\n')
        'ValueError: one'
    """
    lines = traceback_text.strip("\n").split("\n")
    last = max((at for at, line in enumerate(lines) if line in _LINKS), default=-1)
    lines = [line for line in lines[last + 1 :] if line.strip()]
    if not lines:
        return ""
    begins = max((at for at, line in enumerate(lines) if _HEADING.fullmatch(line)), default=-1)
    for line in lines[begins + 1 :]:
        text = line.removeprefix("  | ")
        if not text.startswith(" "):
            return text.strip()
    return lines[-1].strip()


def notebook_lines(error: BaseException) -> list[str]:
    r"""Return the lines that a notebook shows of an error: its cause's, the program's own, the message.

    Example:
        >>> notebook_lines(ValueError("it says\nall"))
        ['ValueError: it says', 'all']
    """
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(_OURS) and not _IPYTHON.search(frame.filename)
    ]
    lines = with_cell_names("".join(traceback.format_list(frames))).splitlines()
    message = str(error).splitlines() or [""]
    cause = error.__cause__
    before = [] if cause is None else notebook_lines(cause)
    before = [*before, ""] if len(before) > 1 else []  # the message explains a cause within Headgate
    return [*before, *lines, *([""] if lines else []), f"{type(error).__name__}: {message[0]}", *message[1:]]


def _leave_users_frames(found: traceback.TracebackException) -> None:
    frames = [frame for frame in found.stack if not frame.filename.startswith(_OURS)]
    # Without frames there is no heading either.
    found.stack = traceback.StackSummary.from_list(frames) if frames else None  # type: ignore[assignment]
    for inner in (found.__cause__, found.__context__, *(found.exceptions or ())):
        if inner is not None and inner.stack:
            _leave_users_frames(inner)


def is_standard_library(file: str) -> bool:
    """Return whether a file of code is Python's own.

    Example:
        >>> is_standard_library(traceback.__file__), is_standard_library("/home/ada/job.py")
        (True, False)
    """
    return file.startswith(_STANDARD_LIBRARY) and not file.startswith(_INSTALLED)


def users_line(error: BaseException) -> str | None:
    """Return `file:line` of the program that an error came out of; None: it has frames of Headgate only.

    That is the innermost frame which is neither Python's nor an installed package's; where all are, the
    innermost one that is not Headgate's.

    Example:
        >>> import json
        >>> try:
        ...     json.loads("{")
        ... except ValueError as error:
        ...     users_line(error)
        '<doctest headgate.common.refusals.users_frames.users_line[1]>:2'
    """
    own = any_other = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        file = frame.f_code.co_filename
        if not file.startswith(_OURS):
            any_other = f"{file}:{line}"
            own = own if file.startswith(_OTHERS) else any_other
    return own or any_other


def is_of_program(name: str) -> bool:
    """Return whether a file of code is the program's own: not Headgate's, Python's, or a package's."""
    return not name.startswith(_OTHERS)


def is_of_the_program(error: BaseException) -> bool:
    """Return whether a frame of the program itself is in the error's traceback, not only of libraries.

    Example:
        >>> is_of_the_program(ValueError("raised nowhere"))
        False
    """
    frames = traceback.walk_tb(error.__traceback__)
    return any(is_of_program(frame.f_code.co_filename) for frame, _ in frames)


def calling_line() -> str:
    """Return the place of the program's innermost frame on this thread's stack, as `job.py:12`; "": none.

    Example:
        >>> calling_line()
        '<doctest headgate.common.refusals.users_frames.calling_line[0]>:1'
    """
    for frame, line in traceback.walk_stack(sys._getframe(1)):
        if not frame.f_code.co_filename.startswith(_OTHERS):
            return short_place(frame.f_code.co_filename, line)
    return ""


def text_with_line(error: BaseException) -> str:
    """Return an error's type, text and the program's line that raised it, to be quoted in another message."""
    text, line = str(error), users_line(error)
    return f"{type(error).__name__}{f': {text}' if text else ''}{f' at {line}' if line else ''}"
