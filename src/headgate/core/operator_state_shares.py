"""Distribution of operator state to subtasks when a job is restored, perhaps at another parallelism.

The rules are those of Flink's round-robin repartitioner. With R new subtasks:

    mode        parallelism changed                          unchanged
    ----------  -------------------------------------------  ----------------------------------------
    split       elements of all old subtasks in order, the   each subtask keeps its own, however
                first n to one subtask, the next to the      uneven
                next; loads differ by one at most
    union       everything to everybody                      everything to everybody
    broadcast   subtask i gets that of old subtask i mod n,  each keeps its own; when only n have one:
                of the n that have one                       as if the parallelism had changed

Splitting begins one name where the remainder of the one before ran out, so remainders do not pile up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from headgate.common.errors import InternalError


class Distributed(Protocol):
    """What an old subtask's operator state must tell: its `name`, its `mode` ("split", "union" or
    "broadcast"), and which elements it has, `first` to before `stop` (None: the end) of `count`.
    """

    @property
    def name(self) -> str: ...
    @property
    def mode(self) -> str: ...
    @property
    def count(self) -> int: ...
    @property
    def first(self) -> int: ...
    @property
    def stop(self) -> int | None: ...


H = TypeVar("H", bound=Distributed)


@dataclass(frozen=True, slots=True)
class Share(Generic[H]):
    """Elements `first` to before `stop` of `held`, an old subtask's operator state, for one new subtask."""

    held: H
    first: int
    stop: int


def redistribute(old: Sequence[Sequence[H]], parallelism: int) -> list[list[Share[H]]]:
    """Return, for each of `parallelism` new subtasks, its shares of `old`, the states of each old subtask.

    Shares of split states come first, then of union, then broadcast, by name. InternalError: another mode.

    Example:
        >>> from headgate.state.snapshots import Inline, OperatorStateHandle
        >>> held = [OperatorStateHandle("waiting", "split", None, Inline(b""), 3)]
        >>> [[(share.first, share.stop) for share in mine] for mine in redistribute([held], 2)]
        [[(0, 2)], [(2, 3)]]
    """
    new: list[list[Share[H]]] = [[] for _ in range(parallelism)]
    begin = 0
    for by_subtask in _of_mode(old, "split"):
        if parallelism == len(old):
            _keep(by_subtask, new)
        else:
            begin = _split([held for held in by_subtask if held is not None], new, begin)
    for by_subtask in _of_mode(old, "union"):
        everything = [_all_of(held) for held in by_subtask if held is not None]
        for mine in new:
            mine.extend(everything)
    for by_subtask in _of_mode(old, "broadcast"):
        reported = [held for held in by_subtask if held is not None]
        for index, mine in enumerate(new):
            mine.append(_all_of(reported[index % len(reported)]))
    _refuse_other_modes(old)
    return new


def _of_mode(old: Sequence[Sequence[H]], mode: str) -> Iterator[list[H | None]]:
    names = sorted({held.name for states in old for held in states if held.mode == mode})
    for name in names:
        yield [next((held for held in states if held.name == name), None) for states in old]


def _keep(by_subtask: Sequence[H | None], new: list[list[Share[H]]]) -> None:
    for held, mine in zip(by_subtask, new, strict=True):
        if held is not None:
            mine.append(_all_of(held))


def _split(parts: Sequence[H], new: list[list[Share[H]]], begin: int) -> int:
    count, rest = len(new), [_all_of(held) for held in reversed(parts)]
    fraction, remainder = divmod(sum(share.stop - share.first for share in rest), count)
    for place in range(count):
        new[(begin + place) % count].extend(_taken(rest, fraction + (place < remainder)))
    return (begin + remainder) % count


def _taken(rest: list[Share[H]], count: int) -> Iterator[Share[H]]:
    while count:
        share = rest.pop()
        stop = min(share.stop, share.first + count)
        if stop < share.stop:
            rest.append(Share(share.held, stop, share.stop))
        if stop > share.first:
            yield Share(share.held, share.first, stop)
        count -= stop - share.first


def _all_of(held: H) -> Share[H]:
    return Share(held, held.first, held.count if held.stop is None else held.stop)


def _refuse_other_modes(old: Sequence[Sequence[Distributed]]) -> None:
    for held in (held for states in old for held in states):
        if held.mode not in ("split", "union", "broadcast"):
            raise InternalError(
                f"operator state {held.name!r} is distributed by {held.mode!r}; expected split, union or "
                "broadcast; please report this"
            )
