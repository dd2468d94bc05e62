"""A stored blob, or a segment of a changelog, read in parts; a chunk is verified before it is decoded."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import Final

from headgate.common.errors import StorageError, UsageError
from headgate.state.backend import BlobReader, Entries
from headgate.state.canonical.table_layout import TIMER_SECTIONS
from headgate.state.changelog.sections import changed_name
from headgate.state.stored.blob_format import Chunk, Section, place_in, read_chunks, read_header, split_chunk
from headgate.state.stored.blob_format import KEY_SERIALIZER
from headgate.state.stored.contract import TIMER_CODEC, OpenSection, SectionCodec, ValueCodec

_SPAN_BYTES: Final = 4 << 20
"""Chunks that lie behind one another are read together up to so many bytes."""


class StoredBlob:
    """One blob."""

    def __init__(self, reader: BlobReader) -> None:
        self._reader = reader
        self.header, self._body = read_header(reader)

    def sections(
        self, values: ValueCodec, names: Collection[str] | None, without: Collection[str] = ()
    ) -> list[OpenSection]:
        """See :class:`state.stored.contract.StoredForm`; `without`: those that another form has."""
        found = []
        for section in self.header.sections:
            removed = changed_name(section.name)
            state = section.name if removed is None else removed
            if section.name in without or (names is not None and state not in names):
                continue
            if state in TIMER_SECTIONS:
                codec: SectionCodec | None = TIMER_CODEC
            elif removed is not None:
                codec = None
            elif (codec := values.codec(section)) is None:
                continue
            entries = partial(self.entries, section, codec)
            found.append(OpenSection(state, removed is not None, codec, entries))
        return found

    def entries(
        self, section: Section, codec: SectionCodec | None, groups: Collection[int]
    ) -> Iterator[Entries]:
        """The entries of a section in some key groups; without a codec keys only."""
        for span in _spans([chunk for chunk in section.chunks if chunk.group in groups]):
            for chunk, part in zip(span, read_chunks(self._reader, self._body, section, span), strict=True):
                yield self._decoded(section, codec, chunk, part)

    def _decoded(
        self, section: Section, codec: SectionCodec | None, chunk: Chunk, part: memoryview
    ) -> Entries:
        try:
            stored_keys, stored_values = split_chunk(part)
            keys = KEY_SERIALIZER.decode_many(stored_keys, chunk.count)
            values = [] if codec is None else codec.read(stored_values, chunk.count)
        except StorageError as error:
            at = self._body + chunk.offset
            where = place_in(self._reader, at, at + chunk.length)
            named = f"section {section.name!r}, key group {chunk.group}"
            raise StorageError(f"{named} ({where}): {error}") from None
        except UsageError as error:
            raise UsageError(f"state {section.name!r} of the checkpoint cannot be read: {error}") from None
        return Entries(chunk.group, keys, values, len(part))


def _spans(chunks: Sequence[Chunk]) -> Iterator[list[Chunk]]:
    """Chunks that one read may bring."""
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
