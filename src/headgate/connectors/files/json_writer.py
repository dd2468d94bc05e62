"""Encodes records as JSON lines into a part file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from headgate.common.errors import UsageError
from headgate.connectors.files.json_decoder import is_named_tuple
from headgate.connectors.files.part_file import PartFile
from headgate.connectors.pydantic_rows import is_model

if TYPE_CHECKING:
    import pyarrow as pa


def _other(value: Any) -> Any:
    """What msgspec does not know: models, and rows and values that tell their fields."""
    if is_model(type(value)):
        return value.model_dump(mode="json")
    as_dict = getattr(type(value), "as_dict", None)
    if as_dict is None:
        raise TypeError(f"a value of type {type(value).__name__} has no JSON form")
    return as_dict(value)


class JsonPartWriter:
    """One record per line; every line ends with a line feed."""

    def __init__(self, file: PartFile) -> None:
        self._file = file
        self._encoder = msgspec.json.Encoder(enc_hook=_other)

    def write(self, records: list[Any] | pa.RecordBatch) -> None:
        """Encode a list of records or a record batch."""
        if hasattr(records, "to_pylist"):
            records = records.to_pylist()
        elif any(map(is_named_tuple, set(map(type, records)))):
            # msgspec writes NamedTuples as arrays; a record with named fields is an object here.
            records = [record._asdict() if is_named_tuple(type(record)) else record for record in records]
        try:
            data = self._encoder.encode_lines(records)
        except (TypeError, ValueError) as problem:
            raise UsageError(
                f"a record for {str(self._file.path)!r} cannot be written as JSON ({problem}); map it to "
                "dicts, lists, strings and numbers first"
            ) from problem
        self._file.write(data)

    def finish(self) -> None:
        """Nothing is buffered here."""
