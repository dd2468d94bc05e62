"""Queries of a running job's keyed state, from any thread of the driver process."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final

from headgate.common.errors import HeadgateError, OperatingError
from headgate.common.keys.keygroups import shortened

WAIT_MS: Final = 10_000

Then = Callable[[Any, HeadgateError | None], None]
"""Called with the value and None, or with None and the error."""

Query = Callable[[str, str, Any, Then], None]


class LiveState:
    """Reads the present keyed state of a running job, one key at a time.

    Each answer is the key's value between two records of its subtask, and includes changes after the last
    checkpoint. A failure undoes those changes before they are made again, so a later answer may show an
    earlier state. Two answers are of two different moments.

    `query` is `JobMaster.query`; `post` has the job master's loop call a callback.

    Example:
        >>> live = LiveState(lambda uid, state, key, then: then(7, None), lambda callback: callback())
        >>> live.value("visits", "count", "ada")
        7
    """

    def __init__(self, query: Query, post: Callable[[Callable[[], None]], None]) -> None:
        self._query, self._post = query, post

    def value(self, uid: str, state: str, key: Any, wait_ms: int = WAIT_MS) -> Any:
        """Return a state's value under a key: a value, list, dict, reduced value or aggregate's result.

        `uid` names the operator; `key` is as the program's key selector returns it. Waits (at most `wait_ms`)
        for the job master's loop, so it must not be called there. Raises UsageError: there is no such
        operator or state, or the key cannot be one; NoEntryError: nothing is stored under the key, or its
        time to live has expired; OperatingError: the job does not run at present, stopped meanwhile, or did
        not answer in time.
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
