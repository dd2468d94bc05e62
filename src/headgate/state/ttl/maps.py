"""Maps whose entries end one by one."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Any

from headgate.api.declared.keyed_states import MK, MV
from headgate.common.time import WATERMARK_MIN
from headgate.state.subscripts import Subscripts
from headgate.state.ttl.declared import ABSENT
from headgate.state.ttl.handle import TtlHandle


class TtlMapState(Subscripts[MK, MV], TtlHandle):
    """Map state. The stamps are a map from the same keys.

    `in`, iteration and `items` are reads of what they touch; `len` is not.
    """

    __slots__ = ()

    def get(self, key: MK, default: MV | None = None) -> MV | None:
        """The entry's value, or `default`."""
        value = self._read(key)
        return default if value is ABSENT else value

    def put(self, key: MK, value: MV) -> None:
        """Set an entry."""
        stamp = self.stamps.get(key)
        if self.expiry.over(stamp) and key in self.values:
            self._drop(key)  # what is over has lost its place in the order, too
        self.values.put(key, value)
        self.stamps.put(key, self.expiry.renewed(stamp))

    def remove(self, key: MK) -> None:
        """Remove an entry; an absent one is no error."""
        self.values.remove(key)
        self.stamps.remove(key)

    def __contains__(self, key: MK) -> bool:
        return self._read(key) is not ABSENT

    def __iter__(self) -> Iterator[MK]:
        return iter([key for key, _ in self.items()])

    def __len__(self) -> int:
        return len(self._visible())

    def items(self) -> Iterable[tuple[MK, MV]]:
        """The entries at this moment, in order of insertion."""
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
        """See :class:`TtlHandle`."""
        oldest = min(map(self.expiry.since, stamps.values()), default=self.expiry.now)
        untidy = WATERMARK_MIN in stamps.values() or oldest <= self.expiry.limit
        return len(stamps), untidy, oldest

    def _read(self, key: MK) -> Any:
        """What a read of an entry gives, with all its effects; or ABSENT."""
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
        """All entries, and the keys of those that are over."""
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

    def _living(self) -> Any:
        entries, over = self._state()
        return {key: value for key, value in entries.items() if key not in over} or ABSENT

    def _holds(self) -> bool:
        return bool(self._visible())

    def _visible(self) -> dict[MK, MV]:
        entries, over = self._state()
        return {key: entries[key] for key in entries if self.expiry.show_expired or key not in over}
