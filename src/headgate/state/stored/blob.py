"""Writes and reads a blob of keyed state, or a changelog's segment; all is verified before decoding."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headgate.common.errors import StorageError, UsageError
from headgate.common.files.durable import crc32
from headgate.common.keys.key_types import checked_keys
from headgate.state.backend import BlobReader, Entries, NewSection, Part
from headgate.state.canonical.table_layout import TIMER_SECTIONS
from headgate.state.snapshots import Inline, KeyedStateHandle, StateHandle, size_of
from headgate.state.state_names import changed_name
from headgate.state.stored import blob_format
from headgate.state.stored.blob_format import KEY_SERIALIZER, Chunk, ColumnLayout, Section
from headgate.state.stored.contract import TIMER_CODEC, OpenSection, SectionCodec, ValueCodec
from headgate.state.stored.local_files import Spool

if TYPE_CHECKING:
    from headgate.state.stored.column_chunks import ColumnChunk

_SPAN_BYTES: Final = 4 << 20
"""Adjacent chunks are read together up to so many bytes."""


class StoredBlob:
    """A `StoredForm`: reads a blob of keyed state or a changelog's segment; bytes are verified when read."""

    def __init__(self, reader: BlobReader) -> None:
        self._reader = reader
        self.header, self._body = blob_format.read_header(reader)

    def sections(
        self, values: ValueCodec, names: Collection[str] | None, without: Collection[str] = ()
    ) -> list[OpenSection]:
        """Return the sections of states and timers in `names` (None: all) but not in `without`, to be decoded
        by `values`; what it leaves out is missing. UsageError: it cannot decode a state.
        """
        found = []
        for section in self.header.sections:
            removed = changed_name(section.name)
            state = section.name if removed is None else removed
            if section.name in without or (names is not None and state not in names):
                continue
            codec = None
            if state in TIMER_SECTIONS:
                codec = TIMER_CODEC
            elif removed is None and (codec := values.codec(section)) is None:
                continue
            entries = partial(self.entries, section, codec)
            found.append(OpenSection(state, removed is not None, codec, entries))
        return found

    def entries(
        self, section: Section, codec: SectionCodec | None, groups: Collection[int]
    ) -> Iterator[Entries]:
        """Yield the entries of `section` in the key groups `groups`, in batches, ascending by key group.
        `codec` decodes values; None: only keys are stored. StorageError: damaged; UsageError: not readable.
        """
        for span in _spans([chunk for chunk in section.chunks if chunk.group in groups]):
            for chunk, part in zip(
                span, blob_format.read_chunks(self._reader, self._body, section, span), strict=True
            ):
                yield self._decoded(section, codec, chunk, part)

    def _decoded(
        self, section: Section, codec: SectionCodec | None, chunk: Chunk, part: memoryview
    ) -> Entries:
        try:
            keys, stored_values = keys_and_values(section, chunk, part)
            values = [] if codec is None else codec.read(stored_values, chunk.count)
        except StorageError as error:
            at = self._body + chunk.offset
            where = blob_format.place_in(self._reader, at, at + chunk.length)
            named = f"section {section.name!r}, key group {chunk.group}"
            raise StorageError(f"{named} ({where}): {error}") from None
        except UsageError as error:
            raise UsageError(f"state {section.name!r} of the checkpoint cannot be read: {error}") from None
        return Entries(chunk.group, keys, values, len(part))


def keys_and_values(section: Section, chunk: Chunk, part: memoryview) -> tuple[list[Hashable], memoryview]:
    """Return a verified chunk's keys, and its values as one encoded batch; StorageError: not decodable."""
    if section.columns is None:
        stored_keys, stored_values = blob_format.split_chunk(part)
        return checked_keys(KEY_SERIALIZER.decode_many(stored_keys, chunk.count)), stored_values
    from headgate.state.stored.column_chunks import read_chunk  # it loads Arrow

    keys, values = read_chunk(section.columns, part)
    if len(keys) != chunk.count:
        raise StorageError(f"stored columns are of {len(keys)} keys; expected {chunk.count}")
    return keys, memoryview(values)


def _spans(chunks: Sequence[Chunk]) -> Iterator[list[Chunk]]:
    span: list[Chunk] = []
    for chunk in chunks:
        if span:
            end = span[-1].offset + span[-1].length
            if chunk.offset != end or end + chunk.length - span[0].offset > _SPAN_BYTES:
                yield span
                span = []
        span.append(chunk)
    if span:
        yield span


Store = Callable[[Iterable[Part]], StateHandle]
"""Stores the parts of a complete blob durably, and returns its handle."""


def in_metadata(parts: Iterable[Part]) -> Inline:
    return Inline(b"".join(parts))


class BlobWriter:
    """The `StateWriter` of a blob; its chunks wait in memory, as the header before them is known last.
    `store` stores the complete blob, in parts, and returns its handle; by default it stays in the metadata.
    """

    def __init__(self, groups: tuple[int, int], max_parallelism: int, store: Store = in_metadata) -> None:
        self._groups, self._max_parallelism, self._store = groups, max_parallelism, store
        self._sections: list[Section] = []
        self._body: list[Part] = []
        self._offset = 0

    def add(self, section: NewSection, entries: Iterable[Entries]) -> None:
        chunks: list[Chunk] = []
        for group, keys, values, _ in entries:
            if keys:
                data = blob_format.chunk_bytes(KEY_SERIALIZER.encode_many(keys), section.encode(values))
                chunks.append(Chunk(group, self._offset, len(data), len(keys), crc32(data)))
                self._append(data)
                self._offset += len(data)
        self._sections.append(Section(section.name, section.schema, chunks))

    def add_columns(self, section: NewSection, layout: ColumnLayout, chunks: Iterable[ColumnChunk]) -> None:
        """Write a section whose entries are Arrow columns; `chunks` ascend by key group (not checked)."""
        from headgate.state.stored.column_chunks import written_chunk  # it loads Arrow

        found: list[Chunk] = []
        for chunk in chunks:
            data = written_chunk(chunk)
            found.append(Chunk(chunk.group, self._offset, len(data), chunk.keys, crc32(data)))
            self._append(data)
            self._offset += len(data)
        self._sections.append(Section(section.name, section.schema, found, layout))

    def _append(self, data: Part) -> None:
        self._body.append(data)

    def parts(self) -> Iterable[Part]:
        return [self._head(), *self._body]

    def _head(self) -> bytes:
        keys = KEY_SERIALIZER.describe()
        return blob_format.preamble_and_header(
            blob_format.Header(self._max_parallelism, *self._groups, keys, self._sections, self._offset)
        )

    def finish(self) -> KeyedStateHandle:
        handle = self._store(self.parts())
        return KeyedStateHandle(*self._groups, handle, size_of(handle))

    def abandon(self) -> None:
        self._body = []


class SpooledBlob(BlobWriter):
    """A `BlobWriter` whose chunks wait in a nameless file in the local `folder`, not in memory."""

    def __init__(
        self, groups: tuple[int, int], max_parallelism: int, folder: Path, store: Store = in_metadata
    ) -> None:
        super().__init__(groups, max_parallelism, store)
        self._spool = Spool(folder)

    def _append(self, data: Part) -> None:
        self._spool.write(data)

    def parts(self) -> Spool:
        """Put the header before the chunks and return the blob, readable at any offset; call it once."""
        # readable at any offset; to be called once
        self._spool.finish(self._head())
        return self._spool

    def finish(self) -> KeyedStateHandle:
        try:
            return super().finish()
        finally:
            self._spool.close()

    def abandon(self) -> None:
        self._spool.close()
