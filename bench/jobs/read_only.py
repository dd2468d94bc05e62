"""J0: the bids are read and dropped, with checkpoints every second; what every other job pays as well."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from typing_extensions import override

from bench.jobs.running_count import run_once
from bench.jobs.support import SummingSink, SummingWriter, result
from headgate.api.sink import SinkWriter, SinkWriterContext
from headgate.api.source import Plain


class DroppingSink(SummingSink):
    """Counts its records, exactly once, and looks at none of them."""

    @override
    def create_writer(
        self, context: SinkWriterContext, restored: Sequence[Plain]
    ) -> SinkWriter[tuple[Any, int]]:
        return _DroppingWriter(context, 0.0)

    @override
    def describe(self) -> str:
        return "count"


class _DroppingWriter(SummingWriter):
    @override
    def write(self, records: Any) -> None:
        self._records += len(records)


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", help="folder of Parquet files")
    result(**run_once(parser.parse_args().data, "on", lambda bids: bids, DroppingSink()))


if __name__ == "__main__":
    main()
