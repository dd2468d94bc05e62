"""A sink that prints records to the worker's standard output, which the job forwards to the driver."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from typing_extensions import override

from headgate.api.sink import Sink, SinkWriter, SinkWriterContext
from headgate.api.source import Plain, T

if TYPE_CHECKING:
    import pyarrow as pa


def print_sink() -> PrintSink:
    """Return a sink that prints every record when it arrives; after a failure it may be printed again.

    Example:
        >>> writer = print_sink().create_writer(SinkWriterContext("p", 0, 1, 1, "job"), [])
        >>> writer.write([{"author": "ada"}, 7])
        {'author': 'ada'}
        7
    """
    return PrintSink()


class PrintSink(Sink):
    """Sink that prints records when they arrive, at least once; made by :func:`print_sink`."""

    guarantee = "at-least-once"

    @override
    def create_writer(self, context: SinkWriterContext, restored: Sequence[Plain]) -> SinkWriter:
        return PrintWriter()

    @override
    def describe(self) -> str:
        return "print"


class PrintWriter(SinkWriter[T]):
    """Prints each record as one line on the standard output of its worker."""

    @override
    def write(self, records: list[T] | pa.RecordBatch) -> None:
        if hasattr(records, "to_pylist"):
            records = records.to_pylist()
        sys.stdout.write("".join(f"{record}\n" for record in records))

    @override
    def prepare_commit(self) -> list[Plain]:
        return []
