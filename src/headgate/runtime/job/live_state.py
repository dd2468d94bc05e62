"""Queries of a running job's state, from any thread of the driver's process."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final

from headgate.common.errors import HeadgateError, OperatingError
from headgate.common.keys.keygroups import shortened

WAIT_MS: Final = 10_000

Then = Callable[[Any, HeadgateError | None], None]
"""Takes the value and None, or None and why there is no value."""

Query = Callable[[str, str, Any, Then], None]


class LiveState:
    """The present keyed state of a running job, key by key, for reading only.

    Each answer is the value between two records of the key's subtask: with all effects of the records before,
    those after the last checkpoint included. After a failure these are undone and made anew, so a later
    answer may be of an earlier state. Two answers are of two moments.

    `query` is `JobMaster.query`; `post` hands a callback to the job master's loop.

    Example:
        >>> live = LiveState(lambda uid, state, key, then: then(7, None), lambda callback: callback())
        >>> live.value("visits", "count", "ada")
        7
    """

    def __init__(self, query: Query, post: Callable[[Callable[[], None]], None]) -> None:
        self._query, self._post = query, post

    def value(self, uid: str, state: str, key: Any, wait_ms: int = WAIT_MS) -> Any:
        """Query a state under a key: a value, a list, a dict, a reduced value or an aggregate's result.

        The operator is named by its uid, the key is as the program's key selector gives it. Not to be called
        in the job master's loop, for which it waits.

        Raises UsageError: there is no such operator or state, or the key cannot be one; NoEntryError:
        nothing is stored under the key, or its time to live has expired; OperatingError: the job does not
        run at present, stopped meanwhile, or did not answer in time.
        """
        answer: Future[Any] = Future()

        def then(value: Any, error: HeadgateError | None) -> None:
            if error is None:
                answer.set_result(value)
            else:
                answer.set_exception(error)

        self._post(lambda: self._query(uid, state, key, then))
        try:
            return answer.result(wait_ms / 1000)
        except TimeoutError:
            raise OperatingError(
                f"operator {uid!r} did not say within {wait_ms} ms what it holds under key {shortened(key)}; "
                "its user code may be busy, or the job over; ask again, or wait longer"
            ) from None
