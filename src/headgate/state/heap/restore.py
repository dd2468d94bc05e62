"""Reading the key groups of one subtask out of the blobs of any number of earlier ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from headgate.api.state import StateKind
from headgate.common.errors import InternalError, StorageError, UsageError
from headgate.serde.compatibility import AfterMigration, AsIs, Incompatible, compare
from headgate.serde.evolution import Reader, judge, reader_for
from headgate.serde.forms import FormSerializer, describe
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
    readers = [_readers(header, targets, max_parallelism) for header, _ in headers]
    _check_cover([header for header, _ in headers], groups)
    for blob, (header, body), of_blob in zip(blobs, headers, readers, strict=True):
        for section in filter(_has_entries, header.sections):
            yield from _read_section(blob, body, section, of_blob[section.name], groups)


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


def _readers(header: Header, targets: Mapping[str, Target], max_parallelism: int) -> dict[str, Reader]:
    """Section name -> what reads its values, once everything was found to fit."""
    if header.max_parallelism != max_parallelism:
        raise UsageError(
            f"the checkpoint was drawn with max parallelism {header.max_parallelism} and the program has "
            f"{max_parallelism}; it is part of the stored bytes, so set it to {header.max_parallelism}"
        )
    keys = compare(header.key_schema, KEY_SERIALIZER.describe())
    if isinstance(keys, Incompatible):
        raise UsageError(
            f"the keys of the checkpoint cannot be read by this program: {keys.why}; keys decide where state "
            "is, so they may not change"
        )
    readers = {}
    for section in filter(_has_entries, header.sections):
        target = targets.get(section.name)
        if target is None:
            raise UsageError(
                f"the checkpoint holds state {section.name!r}, which the program does not declare "
                f"(it declares {', '.join(map(repr, targets))}); declare it, or start without the checkpoint"
            )
        readers[section.name] = _reader(section, target)
    return readers


def _has_entries(section: Section) -> bool:
    return bool(section.chunks)


def _reader(section: Section, target: Target) -> Reader:
    """What reads a state of the checkpoint as the program declares it."""
    stored, current = section.schema, target.schema
    if isinstance(compare(stored, current), AsIs):
        return target.serializer.decode_many
    try:
        if stored["kind"] != current["kind"]:
            raise UsageError(f"kind was {stored['kind']} and is {current['kind']}")
        if stored["kind"] == StateKind.MAP:
            _check_map_keys(stored["of"][0], target.serializer)
        return reader_for(_stored_values(stored), target.serializer)
    except UsageError as error:
        raise UsageError(
            f"state {section.name!r} of the checkpoint cannot be read as the program declares it: {error}; "
            "declare the type as it was, or change it in a way that stored values can follow (see "
            "docs/state-evolution.md)"
        ) from None


def _check_map_keys(stored: dict[str, Any], current: TypeSerializer[Any]) -> None:
    assert isinstance(current, FormSerializer)
    verdict = judge(stored, FormSerializer(current.form.inner[0]))
    if isinstance(verdict, AfterMigration | Incompatible):
        why = verdict.why if isinstance(verdict, Incompatible) else "; ".join(verdict.changes)
        raise UsageError(f"the type of its keys changed ({why}), and keys may not change; only values may")


def _stored_values(schema: dict[str, Any]) -> dict[str, Any]:
    """The description of what a state holds under one key of the stream."""
    of = schema["of"]
    if schema["kind"] == StateKind.LIST:
        return describe("list", of=of[0])
    return describe("dict", key=of[0], value=of[1]) if schema["kind"] == StateKind.MAP else of[0]


def _read_section(
    blob: BlobReader, body: int, section: Section, read: Reader, groups: tuple[int, int]
) -> Iterator[tuple[str, list[Any], list[Any]]]:
    first, last = groups
    chunks = [chunk for chunk in section.chunks if first <= chunk.group <= last]
    for chunk, part in zip(chunks, read_chunks(blob, body, section, chunks), strict=True):
        keys, values = split_chunk(part)
        try:
            decoded = (
                KEY_SERIALIZER.decode_many(keys, chunk.count),
                read(values, chunk.count),
            )
        except StorageError as error:
            raise StorageError(f"section {section.name!r}, key group {chunk.group}: {error}") from None
        except UsageError as error:
            raise UsageError(f"state {section.name!r} of the checkpoint cannot be read: {error}") from None
        yield (section.name, *decoded)
