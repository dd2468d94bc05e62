"""Paths that were read from stored bytes, which an attacker may have written: below their folder, or refused.

Whoever can write into a checkpoint decides which names it has. So a stored name never becomes a path by being
joined: it is resolved here below the folder that it belongs to, symbolic links included. All refusals are
StrayPathErrors; `what` names the path in their messages.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from headgate.common.errors import StrayPathError


def inside(
    root: str | os.PathLike[str], name: object, what: str, shape: re.Pattern[str] | None = None
) -> Path:
    """Return `root`/`name` for a name from stored bytes; StrayPathError unless the path lies below `root`.

    The root may be a link, or not exist. The whole name must match `shape`, if given; errors call it `what`.

    Example:
        >>> inside("/srv/out", "_pending/a/part-1", "a prepared file").as_posix()
        '/srv/out/_pending/a/part-1'
        >>> inside("/srv/out", "../.bashrc", "a prepared file")
        Traceback (most recent call last):
            ...
        headgate.common.errors.StrayPathError: a prepared file is stored as '../.bashrc', which is no path \
below '/srv/out'; nothing was done with it: the snapshot was written by somebody else or is damaged, begin \
from another one
    """
    if not isinstance(name, str) or not is_relative(name):
        raise _stray(what, name, root, "which is no path below")
    if shape is not None and not shape.fullmatch(name):
        raise _stray(what, name, root, "which is none of its kind in")
    path = Path(root, name)
    if not _below(path, root):
        raise _stray(what, name, root, "which a symbolic link leads out of")
    return path


def unlinked(root: str | os.PathLike[str], *parts: str) -> Path:
    """Return the path of `parts` below `root`; StrayPathError if a symbolic link leads out of `root`.

    The parts are Headgate's own names, not stored ones. The root may itself be a link, or not exist.

    Example:
        >>> unlinked("/srv/out", "_pending", "job+out").as_posix()
        '/srv/out/_pending/job+out'
    """
    path = Path(root, *parts)
    if not _below(path, root):
        raise StrayPathError(
            f"a symbolic link leads {str(path)!r} out of {os.fspath(root)!r}, to what is not "
            "Headgate's to write or remove; nothing was done there: remove the link"
        )
    return path


def is_relative(name: str) -> bool:
    """Return whether a name is a relative path, none of whose parts is empty, ``.`` or ``..``.

    Example:
        >>> is_relative("a/b"), is_relative("/a"), is_relative("a/../b"), is_relative("a//b"), is_relative("")
        (True, False, False, False, False)
    """
    return "\0" not in name and all(part not in ("", ".", "..") for part in name.split("/"))


def made_folder(stored: object, kind: str, below: re.Pattern[str], what: str) -> Path:
    """Return a stored absolute path if it has the form of a folder that Headgate makes, else StrayPathError.

    It may be on a disk that the job no longer uses. A folder on the path must be called `kind`, or `kind`,
    "-" and hexadecimal digits, and the path below that must match `below` (empty text: that folder itself).
    Errors call the path `what`.

    Example:
        >>> made_folder("/srv/.made-0a1b/x", ".made", re.compile("x"), "a folder").as_posix()
        '/srv/.made-0a1b/x'
    """
    if isinstance(stored, str) and stored.startswith("/") and is_relative(stored[1:]):
        parts = stored.split("/")
        for place in range(len(parts) - 1, 0, -1):
            name, rest = parts[place], "/".join(parts[place + 1 :])
            if re.fullmatch(re.escape(kind) + "(-[0-9a-f]+)?", name) and below.fullmatch(rest):
                return inside("/".join(parts[: place + 1]), rest, what) if rest else Path(stored)
    raise _stray(what, stored, kind, "which is no folder that Headgate makes in a")


def _below(path: Path, root: str | os.PathLike[str]) -> bool:
    top, found = os.path.realpath(root), os.path.realpath(path)
    return found.startswith(top.rstrip(os.sep) + os.sep)


def _stray(what: str, name: object, root: str | os.PathLike[str], why: str) -> StrayPathError:
    return StrayPathError(
        f"{what} is stored as {name!r:.500}, {why} {os.fspath(root)!r}; nothing was done with it: the "
        "snapshot was written by somebody else or is damaged, begin from another one"
    )
