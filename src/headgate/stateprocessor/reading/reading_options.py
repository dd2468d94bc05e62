"""The options of `spark.read.format("headgate-savepoint")`: the snapshot, the state in it, its storage."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headgate.common.errors import UsageError

STORAGE: Final = "storage."
"""The prefix of options that are settings of the storage."""
PATH, UID, STATE, COLUMNS, PUSHDOWN = "path", "uid", "state", "columns", "pushdown"
OPTIONS: Final = (PATH, UID, STATE, COLUMNS, PUSHDOWN)

TIMERS: Final = "timers"
IN_FLIGHT: Final = "in-flight"


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """The checked options of one read; `columns` empty: all; `pushdown`: whether filters may reduce it."""

    path: str
    uid: str | None = None
    state: str | None = None
    columns: tuple[str, ...] = ()
    storage: tuple[str, ...] = ()
    pushdown: bool = False


def read_request(options: Mapping[str, str]) -> ReadRequest:
    """Return the checked options of a read; UsageError for an unknown or wrong one, or if `path` is missing.

    Example:
        >>> options = {"path": "/sp", "uid": "tally", "state": "count", "storage.s3.endpoint": "http://s3"}
        >>> read_request(options)
        ReadRequest(path='/sp', uid='tally', state='count', columns=(), storage=(...), pushdown=False)
        >>> read_request({"uid": "tally"})
        Traceback (most recent call last):
            ...
        headgate.common.errors.UsageError: headgate-savepoint got no path; give the snapshot's folder to \
load(), such as .load("file:///savepoints/savepoint-1a2b3c")
    """
    for name in options:
        if name not in OPTIONS and not name.startswith(STORAGE):
            raise _unknown(name)
    path = options.get(PATH)
    if not path:
        raise UsageError(
            "headgate-savepoint got no path; give the snapshot's folder to load(), such as "
            '.load("file:///savepoints/savepoint-1a2b3c")'
        )
    pushdown = options.get(PUSHDOWN, "false").lower()
    if pushdown not in ("true", "false"):
        raise UsageError(f"option {PUSHDOWN} of headgate-savepoint is {pushdown!r}; expected true or false")
    columns = tuple(name.strip() for name in options.get(COLUMNS, "").split(",") if name.strip())
    storage = tuple(
        f"{name.removeprefix(STORAGE)}={value}"
        for name, value in sorted(options.items())
        if name.startswith(STORAGE)
    )
    return ReadRequest(path, options.get(UID), options.get(STATE), columns, storage, pushdown == "true")


def _unknown(name: str) -> UsageError:
    close = difflib.get_close_matches(name, OPTIONS, 1)
    hint = f"did you mean {close[0]!r}? It" if close else "it"
    return UsageError(
        f"headgate-savepoint has no option {name!r}; {hint} takes {', '.join(OPTIONS)} and storage.<setting>"
    )
