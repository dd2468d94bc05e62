"""What becomes of a record on which a function of the program fails: the job, the record, or neither ends."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final, NamedTuple, TypeAlias

from headgate.api.checking.arguments import refuse_arity, refuse_unawaited
from headgate.api.declared.operator_state import declared_operator_state
from headgate.api.functions import OutputTag, RichFunction
from headgate.api.holding import Holding, holding
from headgate.api.site import user_site
from headgate.common.errors import PlanError


class OnError(StrEnum):
    """What becomes of a record on which a function fails.

    Attributes:
        FAIL: the attempt fails, and the job goes on from the last checkpoint.
        SKIP: the record is left out, and counted.
        QUARANTINE: the record goes to the side output `ERRORS` with its error, exactly once.
    """

    FAIL = "fail"
    SKIP = "skip"
    QUARANTINE = "quarantine"

    def __call__(self, *, hold: int, release: str) -> Holding:
        """Return a quarantine that also holds later records of the key, in order, until the program starts
        with another release: ``on_error=hg.quarantine(hold=1_000, release="1")``.

        Args:
            hold: the most records that are held of one key, the one that failed included; then the job fails.
            release: names what is deployed; a start with another name gives held records to the function.

        Raises:
            PlanError: this is no quarantine, or an argument is none of these.
        """
        if self is not OnError.QUARANTINE:
            raise PlanError(
                f"hg.{self}() ({user_site()}) holds no records; write hg.{self}, or hg.quarantine()"
            )
        return holding(hold, release)


class FailedCall(NamedTuple):
    """A call that failed, for a function that decides what becomes of its record.

    Attributes:
        record: the record; None for a timer.
        error: the exception.
        key: the key; None without one.
        timestamp: event time of the record, or time of the timer, in ms; None: there is none.
        timer: whether a timer fired.
    """

    record: Any
    error: BaseException
    key: Any
    timestamp: int | None
    timer: bool


class Quarantined(NamedTuple):
    """A record on which a function failed, as it goes to the side output `ERRORS`.

    Attributes:
        operator: the uid of the function's operator, or else a name by its position.
        subtask: number of the subtask.
        attempt: number of the deployment.
        failed_ms: wall clock, ms since 1970.
        kind: name of the exception's type.
        message: the exception's text.
        line: `file:line` of the program that raised; empty where it is not known.
        traceback: the program's own traceback.
        key: `repr` of the key; None without one.
        record: `repr` of the record; None for a timer.
        timestamp: event time of the record, or time of the timer, in ms; None: there is none.
        timer: whether a timer fired.
        data: the record in base64, msgpack with tags for types, of a class its fields; None: it has no form.
        source: the uid of the source that read the record; None, as the next three, where the place is not
            known exactly.
        split: the split, such as a file, that it was read from.
        position: a position of the split as JSON, at or before the record; "null" is the beginning.
        skip: how many records the source reads from that position on before this one.
        held: whether the operator holds it, with later records of its key, for the next release.
    """

    operator: str
    subtask: int
    attempt: int
    failed_ms: int
    kind: str
    message: str
    line: str
    traceback: str
    key: str | None
    record: str | None
    timestamp: int | None
    timer: bool
    data: str | None
    source: str | None = None
    split: str | None = None
    position: str | None = None
    skip: int | None = None
    held: bool = False


QUARANTINE_FOLDER: Final = "quarantine"
"""Name of the folder of all quarantines below that of checkpoints."""

ERRORS: Final[OutputTag[Quarantined]] = OutputTag("errors")
"""The side output of records that are quarantined."""

Decides: TypeAlias = "str | OnError | Holding | Callable[[FailedCall], str | OnError]"
"""What the argument `on_error` may be."""


def checked_on_error(
    verb: str, given: Decides | None, function: RichFunction | None = None, *, keyed: bool = False
) -> OnError | Holding | Callable[[FailedCall], str] | None:
    """Return the argument `on_error` of the call `verb`; None: the attempt fails, as without it. PlanError:
    it is none of the words, and no function of one failed call; or `function` has operator state; or it
    holds records of keys, and the call is not `keyed`.
    """
    if given is None or given == OnError.FAIL:
        return None
    if function is not None and declared_operator_state(function):
        raise PlanError(
            f"{verb}() ({user_site()}) got on_error for {type(function).__name__}, which has operator state, "
            "and what a failing call has done to that cannot be undone; keep the state by key, or leave "
            "on_error away"
        )
    if isinstance(given, Holding):
        if not keyed:
            raise PlanError(
                f"{verb}() ({user_site()}) got on_error=hg.quarantine(hold=...), which holds records of a "
                "key, and has no key; leave hold away, or write process() behind key_by()"
            )
        return given
    if isinstance(given, str):
        if given not in list(OnError):
            raise PlanError(
                f"{verb}() ({user_site()}) got on_error={given!r:.80}; expected hg.fail, hg.skip, "
                "hg.quarantine, or a function of the failed call that returns one of them"
            )
        return OnError(given)
    if not callable(given):
        raise PlanError(
            f"{verb}() ({user_site()}) got on_error={given!r:.80}; expected hg.fail, hg.skip, hg.quarantine, "
            "or a function of the failed call that returns one of them"
        )
    refuse_arity(f"{verb}() ({user_site()}): on_error", given, "one failed call")
    refuse_unawaited(verb, given)
    return given


def may_quarantine(given: OnError | Holding | Callable[[FailedCall], str] | None) -> bool:
    """Return whether records may go to the side output `ERRORS`."""
    return given is not None and given is not OnError.SKIP
