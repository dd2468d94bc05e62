"""Writes a stored blob, or a segment of a changelog, section after section; only here chunks are laid out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from headgate.common.files.durable import crc32
from headgate.common.plain_data import Description
from headgate.state.backend import Entries, EntryFilter
from headgate.state.stored.blob_format import (
    KEY_SERIALIZER,
    Chunk,
    Header,
    Section,
    chunk_bytes,
    preamble_and_header,
)
from headgate.state.stored.local_files import Spool


class BlobWriter:
    """A blob in the making; its header comes first and is known last."""

    def __init__(
        self, groups: tuple[int, int], max_parallelism: int, append: Callable[[Iterable[bytes]], None]
    ) -> None:
        self._groups, self._max_parallelism, self._append = groups, max_parallelism, append
        self._sections: list[Section] = []
        self._offset = 0

    def add(
        self,
        name: str,
        schema: Description,
        entries: Iterable[Entries],
        encode: Callable[[list[Any]], bytes],
        *,
        encode_keys: Callable[[list[Any]], bytes] = KEY_SERIALIZER.encode_many,
        keep: EntryFilter | None = None,
    ) -> None:
        """Write a section.

        `entries`: ascending by key group.
        `encode`: makes the batch of some values.
        `keep`: leaves entries out; None: none.
        """
        chunks: list[Chunk] = []
        for group, keys, values, _ in entries:
            if keep is not None:
                keys, values = keep(name, keys, values)
            if keys:
                data = chunk_bytes(encode_keys(keys), encode(values))
                chunks.append(Chunk(group, self._offset, len(data), len(keys), crc32(data)))
                self._append([data])
                self._offset += len(data)
        self._sections.append(Section(name, schema, chunks))

    def head(self) -> bytes:
        """What comes before the chunks."""
        keys = KEY_SERIALIZER.describe()
        header = Header(self._max_parallelism, *self._groups, keys, self._sections, self._offset)
        return preamble_and_header(header)


class SpooledBlob(BlobWriter):
    """One whose chunks go to the local disk."""

    def __init__(self, folder: Path, groups: tuple[int, int], max_parallelism: int) -> None:
        self._spool = Spool(folder)
        super().__init__(groups, max_parallelism, self._spool.append)

    def finish(self) -> Spool:
        """The complete blob."""
        self._spool.finish(self.head())
        return self._spool

    def close(self) -> None:
        """Give it up."""
        self._spool.close()
