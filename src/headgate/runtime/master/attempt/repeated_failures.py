"""Recognises a failure that repeats, by a fingerprint, and describes it to the user."""

from __future__ import annotations

import re
import shlex
from typing import Final

from headgate.api.jobs.executor_contract import RepeatingFailure
from headgate.common.errors import (
    BadRecordError,
    FencedError,
    HeadgateError,
    JobFailedError,
    OperatingError,
    ProtocolError,
    UserFunctionError,
)
from headgate.common.settings.options import SAME_FAILURE_ACTION, SameFailureAction
from headgate.core.same_failures import Fingerprint, SameFailure
from headgate.runtime.master.attempt.deaths import ENDED_WHERE

_NUMBERS: Final = re.compile(r"\d+")


def fingerprint_of(error: HeadgateError) -> Fingerprint | None:
    """Return a key shared by equal failures; None for failures that cannot be compared (a killed worker).

    Numbers in the text, such as a checkpoint's id, become "N", because they differ each time.

    Example:
        >>> error = UserFunctionError("operator 'map' (uid 'm')", "7", "...", 1, "ValueError", "job.py:7")
        >>> fingerprint_of(error)
        Fingerprint(operator="operator 'map' (uid 'm')", kind='ValueError', line='job.py:7', record='7',
            uid='', key='')
        >>> from headgate.common.errors import StorageError
        >>> fingerprint_of(StorageError("checkpoint 3 failed (state 'n' cannot be stored)")).line
        "checkpoint N failed (state 'n' cannot be stored)"
    """
    if isinstance(error, UserFunctionError):
        record = "" if error.record.startswith("none (") else error.record
        return Fingerprint(error.operator, error.kind, error.line, record, error.uid, error.key)
    if isinstance(error, BadRecordError):  # its text names file and line of the input
        return Fingerprint("", type(error).__name__, str(error).partition("\n")[0])
    if isinstance(error, FencedError | ProtocolError | JobFailedError):
        return None
    text, _, stack = str(error).partition(ENDED_WHERE)
    if type(error) is OperatingError:  # of a worker, of which only some leave the place where they ended
        cause = text.partition(" was lost: ")[2].partition("\n")[0]
        return Fingerprint("", _NUMBERS.sub("N", cause), stack.strip().partition("\n")[0]) if stack else None
    return Fingerprint("", type(error).__name__, _NUMBERS.sub("N", text.strip().rpartition("\n")[2]))


def repeating_failure(
    same: SameFailure, action: SameFailureAction, checkpoint: str | None = None
) -> RepeatingFailure:
    """Return the report to users that `same` repeats; `action`: FAIL, the job ends, or REPORT, it goes on.
    `checkpoint` is where the one lies since which it does; None: nowhere that a command could read it.
    """
    mark, since = same.fingerprint, f"checkpoint {same.since}" if same.since is not None else "the beginning"
    where = f"{mark.operator} raised {mark.kind}" if mark.operator else mark.kind
    line = f" at {mark.line}" if mark.line else ""
    choices = "correct the function or the record, and go on with `headgate run --from` the newest checkpoint"
    if action is SameFailureAction.REPORT:
        choices = (
            f"the job goes on trying: cancel it, {choices}; or wait, where the cause lies outside; or set "
            f"{SAME_FAILURE_ACTION.key}={SameFailureAction.FAIL.value} to have it end"
        )
    else:
        choices = f"the job ends, as {SAME_FAILURE_ACTION.key} says: {choices}"
    what = "the same failure"
    if same.record:
        what, line = "the same record fails", f"{line} for record {same.record}"
        key = f" of key {mark.key}" if mark.key else ""
        what = f"the same record{key} fails"
        ways = f"`{_replay(same, checkpoint)}` shows why, and on_error=hg.quarantine goes on without it"
        choices = f"{ways}; {choices}"
    text = f"{what} for the {_th(same.times)} time since {since}: {where}{line}; {choices}"
    return RepeatingFailure(
        mark.operator, mark.kind, mark.line, same.times, same.since, text, mark.uid, mark.key
    )


def _replay(same: SameFailure, checkpoint: str | None) -> str:
    mark = same.fingerprint
    if not (mark.key and mark.uid) or checkpoint is None:
        return "headgate replay"
    named = ["--uid", mark.uid, "--key", mark.key, "--from", checkpoint]
    return shlex.join(["headgate", "replay", "JOB.PY", *named])


def _th(number: int) -> str:
    """Return a number as an English ordinal in digits, such as "2nd".

    Example:
        >>> [_th(number) for number in (3, 11, 22)]
        ['3rd', '11th', '22nd']
    """
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
