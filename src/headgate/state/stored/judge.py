"""What becomes of stored values under the type that a program declares: the judge of a restore.

Whoever asks before a restore gets the restore's own answer, from the same readers: `state.stored.value_readers`, and
for values in RocksDB's own files `state.rocksdb.value_versions`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headgate.common.errors import UsageError
from headgate.common.plain_data import Description
from headgate.serde.compatibility import Compatibility, Incompatible
from headgate.state.stored.blob_format import Section
from headgate.state.stored.value_readers import value_reader, value_verdict
from headgate.state.snapshots import KeyedStateHandle, NativeFiles
from headgate.state.targets import Target


def judge(
    name: str, schema: Description, target: Target, stored: Iterable[KeyedStateHandle]
) -> list[Compatibility]:
    """The verdicts on a state: one on values of the type `schema`, one on each older type in native files.

    A serializer that a restore would reconfigure is reconfigured by this, too.
    """
    found = list(_judged(name, schema, target))
    for keyed in stored:
        if keyed.native is not None:
            found += _natively(name, schema, target, keyed.native)
    return found


def _judged(name: str, schema: Description, target: Target) -> Iterator[Compatibility]:
    try:
        value_reader(Section(name, schema, []), target)
        yield value_verdict(schema, target)
    except UsageError as error:
        yield Incompatible(str(error))


def _natively(name: str, schema: Description, target: Target, native: NativeFiles) -> Iterator[Compatibility]:
    """Values in RocksDB's files may be of older types, too, and each must have a way to the declared one."""
    from headgate.state.rocksdb.native_files import details_of
    from headgate.state.rocksdb.value_versions import Versions

    numbers = details_of(native).versions.get(name)
    if numbers is None or not numbers.older:
        return
    try:
        Versions.restored(name, target, schema, numbers)
        yield from [value_verdict(older.schema, target) for older in numbers.older]
    except UsageError as error:
        yield Incompatible(str(error))
