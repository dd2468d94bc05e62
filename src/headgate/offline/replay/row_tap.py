"""Watches an operator of records: a batch goes on as batches of single records of the key.

Event time stops at each due timer. Neither changes what the operator does, for its results depend on no
limits of batches (`runtime/worker/operators/keyed_operator.py`).
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence

from headgate.common.time import WATERMARK_MIN
from headgate.offline.replay.keyed_part import shown
from headgate.offline.replay.saving import Fed, Played
from headgate.offline.replay.tap import Tap, time_of
from headgate.records.batch import Batch
from headgate.runtime.worker.operators.keyed_operator import KeyedProcessOperator
from headgate.state.backend import Part
from headgate.state.snapshots import Inline, OperatorSubtaskState, StateHandle


class RowTap(Tap):
    """Takes the steps of one key in an operator of records: each record and each due timer is a step."""

    def _begin(self) -> None:
        super()._begin()
        self._noted_clock = NotedClock(self._keyed)
        self._stored: OperatorSubtaskState | None = None
        self._fed: list[Fed] = []

    def record_all(self) -> None:
        """Keep the state as it is now, and from now on all records and output, for :meth:`played`."""
        pending = self._store(1)
        assert pending is not None
        self._stored, self._kept_output = pending.finish(_Memory()), []

    def played(self) -> Played:
        """Return what was recorded since :meth:`record_all`."""
        assert self._stored is not None
        assert self._kept_output is not None
        ended = self._mark if self._mark > WATERMARK_MIN else None
        return Played(self._stored, self._fed, ended, self._kept_output)

    @property
    def _keyed(self) -> KeyedProcessOperator:
        assert isinstance(self._operator, KeyedProcessOperator)
        return self._operator

    @property
    def clock_read(self) -> bool:
        """Whether the function has asked for processing time."""
        return self._noted_clock.read

    def _let_through(self, batch: Batch, sender: str) -> None:
        keys = self._keyed._key_types.keys_of(batch, self._keyed._key)
        for at, key in enumerate(keys):
            if key == self._key and not self.full:
                self._record(batch.slice(at, at + 1), sender)

    def _record(self, row: Batch, sender: str) -> None:
        if row.watermarks is not None:
            self._until(int(row.watermarks[0]))
        self.senders.add(sender)
        self.records += 1
        if self._stored is not None:
            before = None if row.watermarks is None else int(row.watermarks[0])
            self._fed.append(Fed(copy.deepcopy(row.rows()[0]), time_of(row), before))
        with self._step("record", repr(row.rows()[0]), sender, time_of(row)):
            while not self._take(row):
                self._drain()
        self.full = self.records == self._count

    def _reach(self, watermark: int) -> None:
        while (due := self._keyed._next_due()) is not None and due <= watermark:
            with self._step("timer", str(due)):
                self._advance(due)
                self._drain()
        if watermark > self._mark:
            self._advance(watermark)
            self._drain()

    @property
    def _mark(self) -> int:
        return self._keyed._mark

    def _now(self) -> dict[str, str]:
        backend = self._keyed._backend
        held = {name: [value for _, value in backend.scan(name)] for name in backend.handles}
        return shown({name: values for name, values in held.items() if values})

    def _set_timers(self) -> set[tuple[str, int]]:
        backend = self._keyed._backend
        found = {("event", time) for time in backend.event_timers.frozen()[0]}
        return found | {("processing", time) for time in backend.processing_timers.frozen()[0]}


class NotedClock:
    """Takes the place of the clock that an operator's function reads, and notes whether it did."""

    def __init__(self, operator: KeyedProcessOperator) -> None:
        self._clock, self.read = operator.context.clock, False
        operator._timers._clock = self

    def now_ms(self) -> int:
        self.read = True
        return int(self._clock.now_ms())

    def monotonic_ms(self) -> int:
        return int(self._clock.monotonic_ms())

    def precise_ms(self) -> float:
        return float(self._clock.precise_ms())


class _Memory:
    """The files of a snapshot that is kept in its handles."""

    def write(self, uid: str, parts: Iterable[Part]) -> Inline:
        return Inline(b"".join(parts))

    def write_sections(
        self, uid: str, sections: Sequence[Iterable[Part]], *, inline: bool
    ) -> list[StateHandle]:
        return [self.write(uid, parts) for parts in sections]

    def share(self, handle: StateHandle, root: str | None) -> bool:
        return False
