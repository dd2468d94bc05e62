"""Records that windows of rows have got lately, and that are not in state yet.

Where event time goes fast, most windows are over soon after their first record. Records wait here for a
moment; a window that ends meanwhile, and of which state has nothing, gives its results from them. What waits
for longer, and all of it before a snapshot, goes to state, in the order of arrival. So state, timers and
results are those of windows whose records went to state at once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from headgate.api.windows.window import Window
from headgate.api.windows.window_function import WindowFunction
from headgate.records.arrow_batch import ArrowBatch
from headgate.runtime.worker.operators.keyed_operator import KeyedProcessOperator
from headgate.runtime.worker.operators.windows_of_rows.added_records import add_to_state
from headgate.runtime.worker.operators.windows_of_rows.ordered_records import OrderedRecords

if TYPE_CHECKING:
    from headgate.records.batch import Int64s

MOST: Final = 524_288
"""Pairs of a record and a window that wait at most; then the oldest batch goes to state."""

MOST_BYTES: Final = 64 << 20
"""Bytes of batches of which records wait at most."""

WAIT_MS: Final = (60, 5_000)
"""A batch waits at most so long, by the monotonic clock: longer where windows end meanwhile, less where they
do not, so that a snapshot of windows that stay open has little to store."""

LEAST_IN_WINDOW: Final = 16
"""Pairs for each window of a batch from which on they wait; windows of fewer end as fast out of state."""

_TABLE_LEAST: Final = 4_096
"""Codes below this are looked up in a table, however few records there are."""


class Portion(NamedTuple):
    """Some pairs of a record and a window, in order of the records, which are of one batch.

    `pairs` are indices of records in the batch, `ends` the ends of their windows (ms, exclusive), from
    `least` to `most`; `codes` tell the `keys` of all records of the batch apart.
    """

    batch: ArrowBatch
    keys: Sequence[Hashable]
    codes: Int64s
    pairs: Int64s
    ends: Int64s
    came_ms: int
    least: int
    most: int

    def where(self, which: Any) -> Portion:
        """Return the pairs that a mask says."""
        ends = self.ends[which]
        least, most = (int(ends.min()), int(ends.max())) if len(ends) else (self.most, self.least)
        return self._replace(pairs=self.pairs[which], ends=ends, least=least, most=most)


class RecentRecords:
    """Records of one operator that wait; `step` is a number of ms by multiples of which ends differ.

    Attributes:
        next_end: the end (ms, exclusive) of the window that ends first, None if no record waits.
    """

    def __init__(self, operator: KeyedProcessOperator, function: WindowFunction) -> None:
        self._operator, self._function = operator, function
        self._portions: list[Portion] = []
        self._ending: EndingRecords | None = None
        self._kind: Any = None
        self._count = self._bytes = 0  # of `_portions`
        self._step, self._wait_ms, self._ended = 1, WAIT_MS[1], False
        self.next_end: int | None = None

    def add(self, portion: Portion, step: int) -> None:
        """Have records wait. Those that came before go to state first if keys or rows are of other kinds."""
        kind = portion.batch.row_class(), _kind_of(portion.keys[0])
        if kind != self._kind:
            self.flush()
            self._kind = kind
        self._portions.append(portion)
        self._count += len(portion.pairs)
        self._bytes += portion.batch.nbytes()
        self._step = step
        if self._ending is None and (self.next_end is None or portion.least < self.next_end):
            self.next_end = portion.least

    def ending(self) -> EndingRecords:
        """Return the records of the window that ends first. They wait until :meth:`EndingRecords.forget`."""
        if self._ending is None:
            end = self.next_end
            assert end is not None
            window = self._function.assigner.window_ending(end)
            assert window is not None
            self._ending = EndingRecords(self._function, window, self._taken(end, until=False))
        return self._ending

    def ended(self) -> None:
        """Note that keys of the window that ends first were forgotten."""
        if self._ending is not None and self._ending.is_over:
            self._ending = None
            self._wait_ms, self._ended = min(2 * self._wait_ms, WAIT_MS[1]), True
            self._look()

    def flush_for_snapshot(self) -> None:
        """Add all records to state; they wait less from now on if no window has ended since the last time."""
        if self._portions and not self._ended:
            self._wait_ms = max(self._wait_ms // 2, WAIT_MS[0])
        self._ended = False
        self.flush()

    def flush(self, until: int | None = None) -> None:
        """Add to state the records of windows that end by `until` (ms, exclusive); None: all records."""
        if self.next_end is None or (until is not None and self.next_end > until):
            return
        portions = [] if self._ending is None else self._ending.rest()
        self._ending = None
        if until is None:
            portions += self._portions
            self._portions, self._count, self._bytes = [], 0, 0
        else:
            portions += self._taken(until, until=True)
        self._look()
        self._store(portions)

    def flush_old(self) -> None:
        """Add to state the batches that have waited for long, and the oldest ones of too many."""
        oldest = self._operator.context.clock.monotonic_ms() - self._wait_ms
        old = []
        while self._portions and (self._portions[0].came_ms <= oldest or self._are_many):
            portion = self._portions.pop(0)
            self._count -= len(portion.pairs)
            self._bytes -= portion.batch.nbytes()
            old.append(portion)
        if old:
            self._wait_ms = max(self._wait_ms // 2, WAIT_MS[0])
            if self._ending is None:
                self._look()
            self._store(old)

    @property
    def _are_many(self) -> bool:
        return self._count > MOST or self._bytes > MOST_BYTES

    def _taken(self, end: int, *, until: bool) -> list[Portion]:
        found, left = [], []
        for portion in self._portions:
            if end < portion.least or (end > portion.most and not until):
                left.append(portion)
                continue
            which = portion.ends <= end if until else portion.ends == end
            if which.any():
                found.append(portion.where(which))
                which = ~which
                portion = portion.where(which)
            if len(portion.pairs):
                left.append(portion)
            else:
                self._bytes -= portion.batch.nbytes()
        self._portions = left
        self._count -= sum(len(portion.pairs) for portion in found)
        return found

    def _look(self) -> None:
        self.next_end = min((portion.least for portion in self._portions), default=None)

    def _store(self, portions: Iterable[Portion]) -> None:
        timers, firing = self._operator._timers.event, self._operator._firing
        before = len(timers)
        for batch, keys, codes, pairs, ends, *_ in portions:
            ordered = OrderedRecords(batch, pairs, ends, codes, self._step)
            add_to_state(self._operator, self._function, ordered, keys)
        if firing is not None and firing.allowed is not None:
            # The program registers none of these at the end of the input: their records came before it.
            firing.allowed += len(timers) - before


class EndingRecords:
    """The records of a window that ends, by their keys in the order of their first records: its `Ends`.

    The keys that are asked for with :meth:`first` are those at the places 0, 1, ... of :meth:`results`.
    """

    def __init__(self, function: WindowFunction, window: Window, portions: Sequence[Portion]) -> None:
        self._function: Any = function
        self.window, self._portions = window, portions
        numbers: dict[Hashable, int] = {}
        number = numbers.setdefault
        self._numbered = []
        for _, keys, codes, pairs, *_ in portions:
            firsts, inverse = _alike(codes[pairs])
            order = np.argsort(firsts)
            own = np.empty(len(firsts), np.int64)
            own[order] = [number(keys[at], len(numbers)) for at in pairs[firsts[order]].tolist()]
            self._numbered.append(own[inverse])
        self._keys = list(numbers)
        of_all = np.concatenate(self._numbered)
        # small numbers are far faster to order
        self._order = np.argsort(of_all.astype(np.uint16) if len(numbers) < 2**16 else of_all, kind="stable")
        counts = np.bincount(of_all, minlength=len(numbers))
        self._borders: list[int] = np.concatenate(([0], np.cumsum(counts))).tolist()
        self._of_portion = np.repeat(np.arange(len(portions)), [len(each.pairs) for each in portions])
        self._index = np.concatenate([each.pairs for each in portions])
        self._done = 0
        self._records: list[list[Any]] = []

    def first(self, count: int) -> list[Hashable]:
        """Return the first `count` keys that are left, fewer if there are fewer."""
        stop = min(self._done + count, len(self._keys))
        borders = self._borders[self._done : stop + 1]
        rows = self._rows(self._order[borders[0] : borders[-1]])
        begin = borders[0]
        self._records = [rows[start - begin : end - begin] for start, end in pairwise(borders)]
        return self._keys[self._done : stop]

    def results(self, place: int, view: Any) -> Iterable[Any]:
        function = self._function
        return list(function.computed(function, self.window, self._records[place], view))

    def forget(self, count: int) -> None:
        self._done += count

    @property
    def is_over(self) -> bool:
        """Whether all keys were forgotten."""
        return self._done == len(self._keys)

    def rest(self) -> list[Portion]:
        """Return the records of the keys that are left."""
        left = [
            portion.where(numbers >= self._done)
            for portion, numbers in zip(self._portions, self._numbered, strict=True)
        ]
        return [portion for portion in left if len(portion.pairs)]

    def _rows(self, order: Int64s) -> list[Any]:
        batches = [portion.batch for portion in self._portions]
        cls, views = batches[0].row_class(), [batch.views() for batch in batches]
        rows = []
        of_portion, indices = self._of_portion[order].tolist(), self._index[order].tolist()
        for portion, index in zip(of_portion, indices, strict=True):
            row = cls()
            row._c, row._i = views[portion], index
            rows.append(row)
        return rows


def _alike(codes: Int64s) -> tuple[Int64s, Int64s]:
    """Return where each code is found first, in order of the codes, and for each place the number of its code
    in that order.
    """
    size = int(codes.max()) + 1
    if size > max(_TABLE_LEAST, 4 * len(codes)):
        _, firsts, numbers = np.unique(codes, return_index=True, return_inverse=True)
        return firsts, numbers
    # a table of all codes, which are small: nothing has to be sorted
    first = np.full(size, -1)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    present = np.flatnonzero(first >= 0)
    number = np.empty(size, np.int64)
    number[present] = np.arange(len(present))
    return first[present], number[codes]


def _kind_of(key: Any) -> Any:
    # of keys of one kind equal ones are the same for state
    kind = type(key)
    if kind is tuple:
        return tuple(map(_kind_of, key))
    zone = getattr(key, "tzinfo", None)
    return (kind, zone, key.fold) if hasattr(key, "fold") else kind
