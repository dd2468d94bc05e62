"""Encoders of output files: records become JSON lines or the row groups of a Parquet file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from typing_extensions import override

from headgate.common.errors import UsageError
from headgate.connectors.fields import fields_of, is_model
from headgate.connectors.files.json_decoder import is_named_tuple
from headgate.connectors.files.part_file import PartFile

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

T = TypeVar("T")

ROW_GROUP_ROWS: Final = 131_072
ROW_GROUP_BYTES: Final = 16 * 1024 * 1024


class PartWriter(ABC):
    """Encodes records into one open file of a sink; made for each new file, used by one writer."""

    @abstractmethod
    def write(self, records: list[T] | pa.RecordBatch) -> None:
        """Encode a list of records or a record batch; UsageError if the format cannot hold a record."""

    def finish(self) -> None:  # noqa: B027 - optional hook
        """Write buffered records and the file's end, such as Parquet's footer; the encoder's last call."""


def _other(value: Any) -> Any:
    # msgspec calls this for values that it does not know.
    if is_model(type(value)):
        return value.model_dump(mode="json")
    as_dict = getattr(type(value), "as_dict", None)
    if as_dict is None:
        raise TypeError(f"a value of type {type(value).__name__} has no JSON form")
    return as_dict(value)


class JsonPartWriter(PartWriter):
    """Encodes each record as one line of JSON, at once; nothing is buffered."""

    def __init__(self, file: PartFile) -> None:
        self._file = file
        self._encoder = msgspec.json.Encoder(enc_hook=_other)

    @override
    def write(self, records: list[Any] | pa.RecordBatch) -> None:
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


class Columns:
    """Columns of all files of one sink writer: a given schema, else that of the writer's first batch."""

    def __init__(self, schema: pa.Schema | None, verb: str = "write_parquet") -> None:
        self.schema, self._verb = schema, verb

    def batch_of(self, records: list[T] | pa.RecordBatch) -> pa.RecordBatch:
        """Return the records as a batch of the schema; a first batch sets it if None. UsageError: misfit."""
        import pyarrow as pa

        if not isinstance(records, pa.RecordBatch):
            return self._from_rows([fields_of(record) for record in records])
        if self.schema is None:
            self.schema = records.schema
        if records.schema.equals(self.schema):
            return records
        if set(records.schema.names) == set(self.schema.names):
            try:
                return records.select(self.schema.names).cast(self.schema)
            except (pa.ArrowException, ValueError):
                pass
        raise UsageError(
            f"a batch with columns ({_shown(records.schema)}) does not fit the Parquet schema "
            f"({_shown(self.schema)}); give {self._verb}(schema=...) or convert the columns"
        )

    def _from_rows(self, rows: list[dict[str, Any]]) -> pa.RecordBatch:
        import pyarrow as pa

        try:
            if self.schema is None:
                names = list(dict.fromkeys(name for row in rows for name in row))
                columns = [pa.array([row.get(name) for row in rows]) for name in names]
                batch = pa.record_batch(columns, names=names)
                self.schema = batch.schema
                return batch
            known = set(self.schema.names)
            for row in rows:
                if not known.issuperset(row):
                    raise ValueError(
                        f"field {next(name for name in row if name not in known)!r} is not in the schema"
                    )
            return pa.RecordBatch.from_pylist(rows, schema=self.schema)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as problem:
            expected = "a first batch of one kind" if self.schema is None else _shown(self.schema)
            raise UsageError(
                f"a record cannot be written as Parquet: {problem}; expected {expected}; give "
                f"{self._verb}(schema=...) or convert the records"
            ) from problem


def _shown(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)


class ParquetPartWriter(PartWriter):
    """Encodes one Parquet file; rows are buffered for row groups of 131,072 rows or 16 MiB."""

    def __init__(self, file: PartFile, columns: Columns, dictionary: bool = True) -> None:
        self._file, self._columns, self._dictionary = file, columns, dictionary
        self._writer: pq.ParquetWriter | None = None
        self._buffered: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0

    @override
    def write(self, records: list[T] | pa.RecordBatch) -> None:
        batch = self._columns.batch_of(records)
        self._buffered.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= ROW_GROUP_ROWS or self._bytes >= ROW_GROUP_BYTES:
            self._flush()

    @override
    def finish(self) -> None:
        self._flush().close()

    def _flush(self) -> pq.ParquetWriter:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self._writer is None:
            self._writer = pq.ParquetWriter(self._file, self._columns.schema, use_dictionary=self._dictionary)
        if self._buffered:
            self._writer.write_table(pa.Table.from_batches(self._buffered, self._columns.schema))
        self._buffered, self._rows, self._bytes = [], 0, 0
        return self._writer
