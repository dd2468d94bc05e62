"""Lists whose elements end one by one."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import compress
from typing import Any, Generic

from headgate.api.declared.keyed_states import V
from headgate.common.time import WATERMARK_MIN
from headgate.state.ttl.declared import ABSENT
from headgate.state.ttl.handle import TtlHandle


class TtlListState(TtlHandle, Generic[V]):
    """List state. The stamps are in the order of the elements; elements without a stamp are in front."""

    __slots__ = ()

    def add(self, value: V) -> None:
        """Append one element."""
        self.values.add(value)
        self.stamps.add(self.expiry.now)

    def extend(self, values: Iterable[V]) -> None:
        """Append several elements."""
        added = list(values)
        self.values.extend(added)
        self.stamps.extend([self.expiry.now] * len(added))

    def get(self) -> list[V]:
        """A copy of the elements; empty when there are none."""
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
        """Replace the whole list."""
        elements = list(values)
        self.values.update(elements)
        self.stamps.update([self.expiry.now] * len(elements))

    def judge(self, stamps: list[int]) -> tuple[int, bool, int]:
        """See :class:`TtlHandle`."""
        oldest = min(map(self.expiry.since, stamps), default=self.expiry.now)
        untidy = WATERMARK_MIN in stamps or oldest <= self.expiry.limit
        return len(stamps), untidy, oldest

    def _state(self) -> tuple[list[V], list[int], list[bool]]:
        """Elements, times of writing, and which live."""
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

    def _living(self) -> Any:
        elements, _, alive = self._state()
        return list(compress(elements, alive)) or ABSENT

    def _holds(self) -> bool:
        return bool(self._visible())

    def _visible(self) -> list[V]:
        elements, _, alive = self._state()
        return elements if self.expiry.show_expired else list(compress(elements, alive))
