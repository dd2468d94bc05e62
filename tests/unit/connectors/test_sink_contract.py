"""Sinks of ours under the tests that every two-phase sink must pass."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from headgate.api.sink import Sink
from headgate.connectors.collection import collect_sink
from headgate.connectors.files import json_sink, parquet_sink
from headgate.testing.suites import SinkSuite


class TestJsonFiles(SinkSuite):
    """Lines of JSON."""

    def new_sink(self, folder: Path) -> Sink[Any]:
        """A sink of its own for each program."""
        return json_sink(folder / "out")

    def read(self, sink: Sink[Any], folder: Path) -> list[Any]:
        """All lines of visible files."""
        files = (folder / "out").glob("part-*")
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]


class TestParquetFiles(SinkSuite):
    """Parquet, one column."""

    def new_sink(self, folder: Path) -> Sink[Any]:
        """A sink of its own for each program."""
        return _OneColumn(parquet_sink(folder / "out"))

    def read(self, sink: Sink[Any], folder: Path) -> list[Any]:
        """All rows of visible files."""
        files = (folder / "out").glob("part-*")
        return [row["n"] for file in files for row in pq.read_table(file).to_pylist()]


class TestTheGuide(SinkSuite):
    """The sink that `docs/sinks.md` shows, word by word."""

    def new_sink(self, folder: Path) -> Sink[Any]:
        """Sinks of one test share their box."""
        if "_names" not in self.__dict__:
            text = (Path(__file__).parents[3] / "docs" / "sinks.md").read_text(encoding="utf-8")
            self._names: dict[str, Any] = {}
            exec(text.partition("```python\n")[2].partition("```")[0], self._names)
        return self._names["Letters"]()  # type: ignore[no-any-return]

    def read(self, sink: Sink[Any], folder: Path) -> list[Any]:
        """What lies in the box."""
        return [record for letter in self._names["BOX"].values() for record in letter]


class TestCollect(SinkSuite):
    """Results in the driver, which live as long as the sink object."""

    def new_sink(self, folder: Path) -> Sink[Any]:
        """The same sink for all drivers of a test: results do not outlive it."""
        return self.__dict__.setdefault("_sink", collect_sink())  # type: ignore[no-any-return]

    def read(self, sink: Sink[Any], folder: Path) -> list[Any]:
        """What was collected."""
        return list(sink.results)  # type: ignore[attr-defined]


class _OneColumn(Sink[Any]):
    """Gives integers a column."""

    def __init__(self, inner: Sink[Any]) -> None:
        self.inner = inner

    def create_writer(self, context: Any, restored: Any) -> Any:
        """A writer that makes rows of numbers."""
        writer = self.inner.create_writer(context, restored)
        write = writer.write
        writer.write = lambda records: write([{"n": record} for record in records])  # type: ignore[method-assign]
        return writer

    def create_committer(self) -> Any:
        """That of the files."""
        return self.inner.create_committer()
