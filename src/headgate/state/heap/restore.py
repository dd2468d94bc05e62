"""Reading the key groups of one subtask out of the blobs of any number of earlier ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from headgate.common.errors import InternalError, StorageError, UsageError
from headgate.serde.compatibility import Incompatible, compare
from headgate.serde.serializer import TypeSerializer
from headgate.state.backend import BlobReader
from headgate.state.heap.blob import Header, Section, read_chunks, read_header, split_chunk
from headgate.state.heap.snapshot import KEY_SERIALIZER


class Target(NamedTuple):
    """What the program declares under a section's name."""

    schema: dict[str, Any]
    serializer: TypeSerializer[Any]


def restored_sections(
    blobs: Sequence[BlobReader], targets: Mapping[str, Target], groups: tuple[int, int], max_parallelism: int
) -> Iterator[tuple[str, list[Any], list[Any]]]:
    """Section name, keys and values, key group by key group, of the groups in `groups`.

    Every header is verified and compared with the program before anything is yielded.

    Raises:
        StorageError: a blob is damaged.
        UsageError: a state's type changed, a stored state is no longer declared, or the number of
            key groups differs.
        InternalError: a key group is in two blobs or in none.
    """
    headers = [read_header(blob) for blob in blobs]
    for header, _ in headers:
        _check_header(header, targets, max_parallelism)
    _check_cover([header for header, _ in headers], groups)
    for blob, (header, body) in zip(blobs, headers, strict=True):
        for section in filter(_has_entries, header.sections):
            yield from _read_section(blob, body, section, targets[section.name].serializer, groups)


def _check_cover(headers: list[Header], groups: tuple[int, int]) -> None:
    first, last = groups
    expected = first
    for low, high in sorted((header.first_group, header.last_group) for header in headers):
        if high < first or low > last:
            continue
        if low < expected and expected != first:
            raise InternalError(f"key group {low} is in two blobs of one checkpoint; please report this")
        if low > expected:
            raise InternalError(
                f"key groups {expected} to {low - 1} are in no blob of the checkpoint; please report this"
            )
        expected = high + 1
    if headers and expected <= last:
        raise InternalError(
            f"key groups {expected} to {last} are in no blob of the checkpoint; please report this"
        )


def _check_header(header: Header, targets: Mapping[str, Target], max_parallelism: int) -> None:
    if header.max_parallelism != max_parallelism:
        raise UsageError(
            f"the checkpoint was drawn with max parallelism {header.max_parallelism} and the program has "
            f"{max_parallelism}; it is part of the stored bytes, so set it to {header.max_parallelism}"
        )
    _check_schema("the keys", header.key_schema, KEY_SERIALIZER.describe())
    for section in filter(_has_entries, header.sections):
        target = targets.get(section.name)
        if target is None:
            raise UsageError(
                f"the checkpoint holds state {section.name!r}, which the program does not declare "
                f"(it declares {', '.join(map(repr, targets))}); declare it, or start without the checkpoint"
            )
        _check_schema(f"state {section.name!r}", section.schema, target.schema)


def _has_entries(section: Section) -> bool:
    return bool(section.chunks)


def _check_schema(what: str, stored: dict[str, Any], current: dict[str, Any]) -> None:
    verdict = compare(stored, current)
    if isinstance(verdict, Incompatible):
        raise UsageError(
            f"{what} of the checkpoint cannot be read as the program declares it: {verdict.why}; "
            "declare the type as it was"
        )


def _read_section(
    blob: BlobReader, body: int, section: Section, serializer: TypeSerializer[Any], groups: tuple[int, int]
) -> Iterator[tuple[str, list[Any], list[Any]]]:
    first, last = groups
    chunks = [chunk for chunk in section.chunks if first <= chunk.group <= last]
    for chunk, part in zip(chunks, read_chunks(blob, body, section, chunks), strict=True):
        keys, values = split_chunk(part)
        try:
            decoded = (
                KEY_SERIALIZER.decode_many(keys, chunk.count),
                serializer.decode_many(values, chunk.count),
            )
        except StorageError as error:
            raise StorageError(f"section {section.name!r}, key group {chunk.group}: {error}") from None
        yield (section.name, *decoded)
