"""A heap snapshot between the cut and its bytes: shallow copies in the loop, encoding beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any
from zlib import crc32

import numpy as np

from headgate.common.errors import InternalError, UsageError
from headgate.common.keygroups import key_groups_of_keys, shortened
from headgate.core.timers import in_order
from headgate.serde.dynamic import DynamicSerializer
from headgate.serde.serializer import TypeSerializer
from headgate.state.heap.blob import Chunk, Header, Section, chunk_bytes, preamble_and_header

KEY_SERIALIZER = DynamicSerializer()


@dataclass(frozen=True, slots=True)
class FrozenState:
    """One state at the cut."""

    name: str
    schema: dict[str, Any]
    serializer: TypeSerializer[Any]
    entries: dict[Any, Any]

    def columns(self) -> tuple[list[Any], list[Any]]:
        """Keys and values."""
        return list(self.entries), list(self.entries.values())


@dataclass(frozen=True, slots=True)
class FrozenTimers:
    """One kind of timers at the cut."""

    name: str
    schema: dict[str, Any]
    serializer: TypeSerializer[Any]
    timers: tuple[list[int], list[Any]]

    def columns(self) -> tuple[list[Any], list[int]]:
        """Keys and timestamps, in firing order."""
        timestamps, keys = in_order(*self.timers)
        return keys, timestamps


class PendingHeapSnapshot:
    """The state of one operator subtask at the cut.

    :meth:`write` runs in another thread while the loop goes on. Either it or :meth:`release` must
    be called, or the tables go on copying values at their first access.
    """

    def __init__(
        self,
        parts: Sequence[FrozenState | FrozenTimers],
        groups: tuple[int, int],
        max_parallelism: int,
        release: Callable[[], None],
    ) -> None:
        self._parts = list(parts)
        self._groups, self._max_parallelism = groups, max_parallelism
        self._release = release

    def write(self) -> list[bytes]:
        """The blob, in parts to be laid end to end; then the snapshot is released.

        Raises:
            UsageError: a value is not of its state's declared type, or a key is not plain data.
        """
        try:
            return self._encode()
        finally:
            self.release()

    def release(self) -> None:
        """Let go of the state."""
        self._parts = []
        self._release()

    def _encode(self) -> list[bytes]:
        sections: list[Section] = []
        body: list[bytes] = []
        offset = 0
        for part in self._parts:
            chunks, data = self._section(part, offset)
            offset += sum(map(len, data))
            sections.append(Section(part.name, part.schema, chunks))
            body += data
        header = Header(self._max_parallelism, *self._groups, KEY_SERIALIZER.describe(), sections, offset)
        return [preamble_and_header(header), *body]

    def _section(self, part: FrozenState | FrozenTimers, offset: int) -> tuple[list[Chunk], list[bytes]]:
        keys, values = part.columns()
        chunks: list[Chunk] = []
        data: list[bytes] = []
        for group, group_keys, group_values in self._by_group(part.name, keys, values):
            try:
                chunk = chunk_bytes(
                    KEY_SERIALIZER.encode_checked(group_keys), part.serializer.encode_checked(group_values)
                )
            except UsageError as error:
                raise UsageError(f"state {part.name!r} cannot be stored: {error}") from None
            chunks.append(Chunk(group, offset, len(chunk), len(group_keys), crc32(chunk)))
            data.append(chunk)
            offset += len(chunk)
        return chunks, data

    def _by_group(
        self, name: str, keys: list[Any], values: list[Any]
    ) -> list[tuple[int, list[Any], list[Any]]]:
        """Keys and values of each key group that has any, ascending; in given order within a group."""
        if not keys:
            return []
        groups = key_groups_of_keys(keys, self._max_parallelism)
        first, last = self._groups
        if int(groups.min()) < first or int(groups.max()) > last:
            strange = next(k for k, g in zip(keys, groups.tolist(), strict=True) if not first <= g <= last)
            raise InternalError(
                f"state {name!r} holds key {shortened(strange)} outside its key groups {first} to {last}; "
                "please report this"
            )
        # 16 bits make the stable argsort a radix sort.
        order = np.argsort(groups.astype(np.uint16), kind="stable")
        sorted_keys = iter(np.fromiter(keys, object, len(keys))[order].tolist())
        sorted_values = iter(np.fromiter(values, object, len(values))[order].tolist())
        found, counts = np.unique(groups, return_counts=True)
        return [
            (group, list(islice(sorted_keys, count)), list(islice(sorted_values, count)))
            for group, count in zip(found.tolist(), counts.tolist(), strict=True)
        ]
