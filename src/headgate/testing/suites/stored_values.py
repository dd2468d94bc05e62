"""Values stored by one version of a serializer, in a file that tests of later versions read."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypeVar
from zlib import crc32

import msgspec

from headgate.common.decoders import json_decoder
from headgate.common.errors import StorageError, UsageError
from headgate.common.plain_data import Description
from headgate.serde.serializer import TypeSerializer

T = TypeVar("T")

_FORM: Final = 1


class Verdict(enum.Enum):
    """Verdict of a new serializer on values stored by an older one; see `docs/custom-serializers.md`."""

    AS_IS = "as is"
    AFTER_MIGRATION = "after migration"
    RECONFIGURED = "reconfigured"
    INCOMPATIBLE = "incompatible"


class _File(msgspec.Struct, forbid_unknown_fields=True):
    form: int
    writer: str
    count: int
    description: bytes
    batch: bytes
    crc32: int


class StoredValues(msgspec.Struct, frozen=True):
    """A batch of values as a serializer stored it, with the serializer's description.

    Attributes:
        writer: name of the serializer that wrote the values.
        description: the serializer's stored description, with its snapshot.
        count: how many values there are.
        batch: the bytes of the values.

    Example:
        >>> import tempfile
        >>> import headgate as hg
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "counts-1.json")
        ...     StoredValues.written_by(hg.serializer_for(int), [1, 2]).write(path)
        ...     stored = StoredValues.from_file(path)
        >>> stored.writer, stored.count, hg.serializer_for(int).decode_many(stored.batch, 2)
        ('int', 2, [1, 2])
    """

    writer: str
    description: Description
    count: int
    batch: bytes

    @classmethod
    def written_by(cls, serializer: TypeSerializer[T], values: Sequence[T]) -> StoredValues:
        """Return the values as `serializer` encodes them, with its description.

        Args:
            serializer: the serializer, of the version whose values are to be kept.
            values: at least one value, for later versions to read.

        Raises:
            UsageError: no values are given, or one does not fit the serializer.
        """
        if not values:
            raise UsageError("no values are given to be stored; give at least one, else nothing is tested")
        return cls(
            serializer.name, dict(serializer.describe()), len(values), serializer.encode_checked(values)
        )

    @classmethod
    def from_file(cls, path: Path) -> StoredValues:
        """Return the values that :meth:`write` has stored in a file.

        Raises:
            StorageError: the file is missing, damaged or of another form.
        """
        try:
            file = json_decoder(_File).decode(path.read_bytes())
        except (OSError, msgspec.MsgspecError) as error:
            raise StorageError(f"{path} cannot be read as stored values ({error})") from None
        if file.form != _FORM or _checksum(file.description, file.batch) != file.crc32:
            raise StorageError(f"{path} is damaged or of another form; take it from the history")
        return cls(file.writer, msgspec.msgpack.decode(file.description), file.count, file.batch)

    def write(self, path: Path) -> None:
        """Write the values to a new file, which belongs into version control.

        Args:
            path: path of the file, in a folder that exists.

        Raises:
            UsageError: the file exists already: what an old version stored is written once, by that version.
        """
        description = msgspec.msgpack.encode(self.description)
        file = _File(
            _FORM, self.writer, self.count, description, self.batch, _checksum(description, self.batch)
        )
        try:
            with path.open("xb") as target:
                target.write(msgspec.json.format(msgspec.json.encode(file)) + b"\n")
        except FileExistsError:
            raise UsageError(
                f"{path} is there already; keep it, and give what this version stores another file"
            ) from None


def _checksum(description: bytes, batch: bytes) -> int:
    return crc32(batch, crc32(description))
