"""Live handles of list and map states whose elements and entries expire one by one."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from itertools import compress
from typing import Any, Generic

from headgate.api.declared.keyed_states import MK, MV, V
from headgate.common.time import WATERMARK_MIN
from headgate.state.subscripts import Subscripts
from headgate.state.ttl.declared import ABSENT
from headgate.state.ttl.handle import TtlHandle


class TtlListState(TtlHandle, Generic[V]):
    """The live handle of a list state whose elements expire one by one, for the list of one key at a time.

    The last-access times, in ms, are a list in the order of the elements; elements without a time come first.
    A read returns expired elements only if `show_expired`, and removes them in any case; it renews the others
    if `refresh` (both are of :class:`~headgate.state.ttl.handle.Expiry`).
    """

    __slots__ = ()

    def add(self, value: V) -> None:
        self.values.add(value)
        self.stamps.add(self.expiry.now)

    def extend(self, values: Iterable[V]) -> None:
        added = list(values)
        self.values.extend(added)
        self.stamps.extend([self.expiry.now] * len(added))

    def get(self) -> list[V]:
        elements, stamps, alive = self._state()
        kept = elements
        if not all(alive):
            kept = list(compress(elements, alive))
            self.counts.removed += len(elements) - len(kept)
            self.values.update(kept)
            if not self.expiry.refresh:
                self.stamps.update(compress(stamps, alive))
        if self.expiry.refresh:
            self.stamps.update(map(self.expiry.renewed, compress(stamps, alive)))
        return elements if self.expiry.show_expired else kept

    def update(self, values: Iterable[V]) -> None:
        elements = list(values)
        self.values.update(elements)
        self.stamps.update([self.expiry.now] * len(elements))

    def judge(self, stamps: list[int]) -> tuple[int, bool, int]:
        oldest = min(map(self.expiry.since, stamps), default=self.expiry.now)
        untidy = WATERMARK_MIN in stamps or oldest <= self.expiry.limit
        return len(stamps), untidy, oldest

    def _state(self) -> tuple[list[V], list[int], list[bool]]:
        # elements, when each counts as written, and whether each is not expired
        elements: list[V] = self.values.get()
        stored = self.stamps.get() if elements else []
        expiry = self.expiry
        stamps = [expiry.origin] * (len(elements) - len(stored)) + [expiry.since(stamp) for stamp in stored]
        return elements, stamps, [stamp > expiry.limit for stamp in stamps]

    def _tidy(self) -> int:
        elements, stamps, alive = self._state()
        if not all(alive):
            self.values.update(compress(elements, alive))
        if not all(alive) or stamps != self.stamps.get():
            self.stamps.update(compress(stamps, alive))
        return alive.count(False)

    def _shown(self, expired: bool) -> Any:
        elements, _, alive = self._state()
        return (elements if expired else list(compress(elements, alive))) or ABSENT

    def _empty(self) -> list[V]:
        return []


class TtlMapState(Subscripts[MK, MV], TtlHandle):
    """The live handle of a map state whose entries expire one by one, for the map of one key at a time.

    The last-access times, in ms, are a map from the same keys. A read returns expired entries only if
    `show_expired`, and removes them in any case; it renews the others if `refresh` (both are of
    :class:`~headgate.state.ttl.handle.Expiry`). `in`, iteration and `items` are reads; `len` is none.
    """

    __slots__ = ()

    def get(self, key: MK, default: MV | None = None) -> MV | None:
        value = self._read(key)
        return default if value is ABSENT else value

    def put(self, key: MK, value: MV) -> None:
        # an expired entry moves to the end
        stamp = self.stamps.get(key)
        if self.expiry.over(stamp) and key in self.values:
            self._drop(key)  # what is expired has lost its place in the order, too
        self.values.put(key, value)
        self.stamps.put(key, self.expiry.renewed(stamp))

    def remove(self, key: MK) -> None:
        self.values.remove(key)
        self.stamps.remove(key)

    def __contains__(self, key: MK) -> bool:
        return self._read(key) is not ABSENT

    def __iter__(self) -> Iterator[MK]:
        return iter([key for key, _ in self.items()])

    def __len__(self) -> int:
        shown = self._shown(self.expiry.show_expired)
        return 0 if shown is ABSENT else len(shown)

    def items(self) -> Iterable[tuple[MK, MV]]:
        expiry = self.expiry
        entries, over = self._state()
        for key in over:
            self._drop(key)
        if expiry.refresh:
            for key in entries:
                if key not in over:
                    self.stamps.put(key, expiry.renewed(self.stamps.get(key)))
        return [item for item in entries.items() if expiry.show_expired or item[0] not in over]

    def judge(self, stamps: dict[Hashable, int]) -> tuple[int, bool, int]:
        oldest = min(map(self.expiry.since, stamps.values()), default=self.expiry.now)
        untidy = WATERMARK_MIN in stamps.values() or oldest <= self.expiry.limit
        return len(stamps), untidy, oldest

    def _read(self, key: MK) -> Any:
        value = self.values.get(key, ABSENT)
        if value is ABSENT:
            return ABSENT
        expiry = self.expiry
        stamp = self.stamps.get(key)
        if expiry.over(stamp):
            self._drop(key)
            return value if expiry.show_expired else ABSENT
        if expiry.refresh:
            self.stamps.put(key, expiry.renewed(stamp))
        return value

    def _drop(self, key: MK) -> None:
        self.counts.removed += 1
        self.remove(key)

    def _state(self) -> tuple[dict[MK, MV], set[MK]]:
        entries, stamps = dict(self.values.items()), dict(self.stamps.items())
        return entries, {key for key in entries if self.expiry.over(stamps.get(key))}

    def _tidy(self) -> int:
        entries, over = self._state()
        stamps = dict(self.stamps.items())
        for key in entries:
            if key in over:
                self.remove(key)
            elif stamps.get(key, WATERMARK_MIN) == WATERMARK_MIN:
                self.stamps.put(key, self.expiry.origin)
        return len(over)

    def _shown(self, expired: bool) -> Any:
        entries, over = self._state()
        return {key: entries[key] for key in entries if expired or key not in over} or ABSENT

    def _empty(self) -> dict[MK, MV]:
        return {}
