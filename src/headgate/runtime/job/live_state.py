"""The asker's part: a running job's state, from any thread of the driver's process."""

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
    """What the keyed state of a running job holds now, key by key, for reading only.

    Each answer is the value as it is between two records of the key's subtask: all effects of the records
    before, those after the last checkpoint included. After a failure these are undone and made anew, so
    a later answer may be of an earlier state. Two answers are of two moments.

    Args:
        query: `JobMaster.query`.
        post: hands a callback to the job master's loop.

    Example:
        >>> live = LiveState(lambda uid, state, key, then: then(7, None), lambda callback: callback())
        >>> live.value("visits", "count", "ada")
        7
    """

    def __init__(self, query: Query, post: Callable[[Callable[[], None]], None]) -> None:
        self._query, self._post = query, post

    def value(self, uid: str, state: str, key: Any, wait_ms: int = WAIT_MS) -> Any:
        """What a state holds under a key: a value, a list, a dict, a reduced value or an aggregate's result.

        Not to be called in the job master's loop, which it waits for.

        Args:
            uid: of the operator.
            state: name of the state.
            key: of the stream, as the program's key selector gives it.
            wait_ms: how long to wait.

        Raises:
            UsageError: there is no such operator or state, or the key cannot be one.
            NoEntryError: nothing is stored under the key, or its time to live is over.
            OperatingError: the job does not run at present, stopped meanwhile, or did not answer in time.
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
