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
    """Live handle of a list state with a time to live per element, for the bound key.

    The last-access times are in the order of the elements; elements without a time come first.
    """

    __slots__ = ()

    def add(self, value: V) -> None:
        """Append one element, written now."""
        self.values.add(value)
        self.stamps.add(self.expiry.now)

    def extend(self, values: Iterable[V]) -> None:
        """Append several elements, written now."""
        added = list(values)
        self.values.extend(added)
        self.stamps.extend([self.expiry.now] * len(added))

    def get(self) -> list[V]:
        """Return the elements, expired ones if `show_expired`; remove these, renew others if `refresh`."""
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
        """Replace the list; all its elements count as written now."""
        elements = list(values)
        self.values.update(elements)
        self.stamps.update([self.expiry.now] * len(elements))

    def judge(self, stamps: list[int]) -> tuple[int, bool, int]:
        """Judge a key's times: return their number, whether :meth:`tidy` has to run, the oldest in ms."""
        oldest = min(map(self.expiry.since, stamps), default=self.expiry.now)
        untidy = WATERMARK_MIN in stamps or oldest <= self.expiry.limit
        return len(stamps), untidy, oldest

    def _state(self) -> tuple[list[V], list[int], list[bool]]:
        """Return the elements, when each counts as written, and whether each is not expired."""
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
    """Live handle of a map state with a time to live per entry; the times are a map from the same keys.

    `in`, iteration and `items` read the entries they touch (remove expired, renew others); `len` does not.
    """

    __slots__ = ()

    def get(self, key: MK, default: MV | None = None) -> MV | None:
        """Return the value of `key` (expired: only if `show_expired`, and removed), else `default`."""
        value = self._read(key)
        return default if value is ABSENT else value

    def put(self, key: MK, value: MV) -> None:
        """Set the value under the map's own key `key`, written now; an expired entry moves to the end."""
        stamp = self.stamps.get(key)
        if self.expiry.over(stamp) and key in self.values:
            self._drop(key)  # what is expired has lost its place in the order, too
        self.values.put(key, value)
        self.stamps.put(key, self.expiry.renewed(stamp))

    def remove(self, key: MK) -> None:
        """Remove the entry of the map's own key `key`; an absent one is no error."""
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
        """Return the entries, expired ones if `show_expired`; remove those, renew others if `refresh`."""
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
        """Judge a key's times: return their number, whether :meth:`tidy` has to run, the oldest in ms."""
        oldest = min(map(self.expiry.since, stamps.values()), default=self.expiry.now)
        untidy = WATERMARK_MIN in stamps.values() or oldest <= self.expiry.limit
        return len(stamps), untidy, oldest

    def _read(self, key: MK) -> Any:
        """Return an entry's value or ABSENT; renew it if `refresh`, remove it if expired, even if shown."""
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
        """Return the entries, and the keys of those that are expired."""
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
