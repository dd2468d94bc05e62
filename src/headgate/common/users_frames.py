"""What a program raised, as its author wants to see it: without the frames of Headgate and of imports."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Final

from headgate.common.texts import shortened

_OURS: Final = (f"{Path(__file__).resolve().parents[1]}/", "<headgate", "<frozen importlib")
"""How the names of files begin that are not the user's; generated code is named `<headgate ...>`."""


def is_users_file(name: str) -> bool:
    """Whether code of this file is the program's, or of a package that it uses.

    Example:
        >>> is_users_file("/home/ada/job.py"), is_users_file(__file__)
        (True, False)
    """
    return not name.startswith(_OURS)


def users_traceback(error: BaseException) -> str:
    """The traceback of an error, of its causes too, with the user's frames only.

    An error that has no frame of the program's, such as a syntax error, is shown without any.

    Example:
        >>> try:
        ...     {}["key"]
        ... except KeyError as error:
        ...     print(users_traceback(error).splitlines()[-1])
        KeyError: 'key'
    """
    told = traceback.TracebackException.from_exception(error)
    _leave_users_frames(told)
    return shortened("".join(told.format()))


def _leave_users_frames(told: traceback.TracebackException) -> None:
    frames = [frame for frame in told.stack if not frame.filename.startswith(_OURS)]
    # Without frames there is no heading either.
    told.stack = traceback.StackSummary.from_list(frames) if frames else None  # type: ignore[assignment]
    for inner in (told.__cause__, told.__context__, *(told.exceptions or ())):
        if inner is not None and inner.stack:
            _leave_users_frames(inner)
