"""Every exception of Headgate, in three families: the user must act, the world failed, Headgate has a bug.

::

    HeadgateError
    ├── UsageError            the program or its settings are wrong: fix and run again
    │   ├── ConfigError           an option: unknown key, wrong type, contradiction
    │   ├── PlanError             the dataflow: missing or repeated uid, state not declared
    │   ├── NotShippableError     a function that cannot be sent to the workers
    │   ├── NoEntryError          nothing is stored under the key that was asked for
    │   └── UserFunctionError     code of the user's program raised
    ├── OperatingError        the world failed: a process, a disk, a peer, a damaged file
    │   ├── StorageError          a file cannot be written, read or trusted
    │   │   ├── DamagedFileError      a stored file is missing or is not what was written
    │   │   └── StrayPathError        stored bytes name a path outside the folder they belong to
    │   ├── BadRecordError        input that does not decode; names file and line
    │   ├── ProtocolError         a peer spoke out of turn, out of date or unauthenticated
    │   ├── FencedError           this process was replaced and must stop
    │   └── JobFailedError        the job ended for good; carries the first cause
    │       └── JobCancelledError     it was cancelled; nothing is wrong with it
    └── InternalError         Headgate broke its own rule: please report

Each message is one sentence: what, where, got, expected, what to do. Exceptions cross process
borders, so each survives pickling; their arguments are plain values.
"""

from __future__ import annotations

import traceback
from typing import Final

from typing_extensions import override

from headgate.common.refusals.cells import with_cell_names
from headgate.common.refusals.texts import shortened
from headgate.common.refusals.users_frames import notebook_lines, raised_line

_LINE_CHARS_MAX: Final = 4096
"""Longest first line; the text below it has the same words again."""


class HeadgateError(Exception):
    """Base class of all of Headgate's exceptions; cuts the middle out of texts of over 65,536 characters."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*(shortened(each) if isinstance(each, str) else each for each in arguments))

    def _render_traceback_(self) -> list[str]:
        # IPython asks for this. A refusal is one sentence; a page of Headgate's own frames would hide it.
        return notebook_lines(self)


class TerminatedError(KeyboardInterrupt):
    """Raised when a signal such as SIGTERM ends this process: unlike Ctrl-C, no request to cancel the job."""

    goes_on: bool = False
    """Whether the job was left to the next driver, and not cancelled."""

    by_sigterm: bool = False
    """Whether the signal was SIGTERM, to which `headgate.on-sigterm` applies."""

    savepoint: str | None = None
    """URI of the savepoint with which the job was stopped; None: with none."""


class UsageError(HeadgateError):
    """The program or its settings are wrong; the message says how to mend them."""


class ConfigError(UsageError):
    """An option has an unknown key, a value of the wrong type, or contradicts another."""


class PlanError(UsageError):
    """The program's dataflow cannot run as it is written, such as for a missing or repeated uid."""


class NotShippableError(UsageError):
    """A function or object of the program cannot be sent to the workers, as it cannot be pickled."""


class NoEntryError(UsageError):
    """A running job was asked for the state of a key, and nothing is stored under that key."""


class UserFunctionError(UsageError):
    """Code of the user's program raised, while it processed a record or in another call.

    Attributes:
        operator: name and uid of the operator, or "code of the program".
        record: the offending record, shortened; if it was no record, a description of the call.
        traceback_text: the user's own traceback, without Headgate's frames.
        attempt: the attempt (deployment of the job) that failed, counted from 1; 0 where that is not known.
        kind: name of the exception's type; empty where that is not known.
        line: `file:line` of the program's code that raised; empty where that is not known.
        uid: of the operator; empty where none is known.
        key: the key of the record or timer as JSON text, as `headgate replay` takes it; empty: it has none.
    """

    def __init__(
        self,
        operator: str,
        record: str,
        traceback_text: str,
        attempt: int = 0,
        kind: str = "",
        line: str = "",
        uid: str = "",
        key: str = "",
    ) -> None:
        super().__init__(operator, record, traceback_text, attempt, kind, line, uid, key)
        self.operator, self.record, self.traceback_text, self.attempt, self.kind, self.line = self.args[:6]
        self.uid, self.key = uid, key

    def __str__(self) -> str:
        attempt = f" in attempt {self.attempt}" if self.attempt else ""
        return with_cell_names(
            f"{self.operator} raised {self.raised}{attempt} for record {self.record}\n"
            f"{self.traceback_text.rstrip()}"
        )

    @property
    def raised(self) -> str:
        """Type and first line of the user's exception, such as `ValueError: no`; "" where it is unknown."""
        return shortened(raised_line(self.traceback_text), _LINE_CHARS_MAX)


class OperatingError(HeadgateError):
    """Something outside the program failed: a process, a disk, a network peer, or a stored file."""


class StorageError(OperatingError):
    """A file cannot be written, read or trusted; the message names it and what to do."""


class DamagedFileError(StorageError):
    """A stored file is missing, cut short, or not what was written; to read it again is of no use.

    The message names the file and the bytes that were found to be wrong.
    """


class StrayPathError(StorageError):
    """Stored bytes name a path outside the folder that they belong to; it was not touched."""


class BadRecordError(OperatingError):
    """Input does not decode; the message names file and line."""


class ProtocolError(OperatingError):
    """A network peer sent a message out of order, of an earlier attempt, or without authentication."""


class FencedError(OperatingError):
    """This process must stop, because a newer driver or worker, or another job, has taken its place."""


class JobFailedError(OperatingError):
    """The job ended for good; the message carries the first cause."""


class JobCancelledError(JobFailedError):
    """The job was cancelled, such as by ``headgate cancel``; nothing is wrong with it."""


class InternalError(HeadgateError):
    """Headgate broke a rule of its own; please report it, with its traceback."""

    @override
    def _render_traceback_(self) -> list[str]:
        return "".join(traceback.format_exception(self)).splitlines()


def restart_may_help(error: BaseException) -> bool:
    """Return whether another attempt of a job may get further after this error; asked before a restart.

    False for a StrayPathError, and for a UsageError (a wrong program or setting stays wrong), but True for a
    UserFunctionError: user code may have met a passing condition. True for everything else.

    Example:
        >>> restart_may_help(ConfigError("no such option")), restart_may_help(StorageError("disk full"))
        (False, True)
    """
    return isinstance(error, UserFunctionError) or not isinstance(error, UsageError | StrayPathError)
