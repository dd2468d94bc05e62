"""The transfers on the peers: each gets the same ones, as JSON lines, and tells what its sink receives."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

from bench.compare.cells import shortened
from bench.compare.orders import Order, TableFiles
from bench.machine import ROOT
from bench.measure import run
from bench.peers import environments as e
from bench.transfers.picture import Line

PEERS: Final = {
    "Flink SQL": ("flink_transfers.py", e.FLINK),
    "Spark Structured Streaming": ("spark_transfers.py", e.SPARK_ALONE),
    "Pathway": ("pathway_transfers.py", e.PATHWAY),
    "Bytewax": ("bytewax_transfers.py", e.BYTEWAX),
}
"""Name of a peer -> its program, and the environment that it needs."""

_FILES: Final = 20
_TIMEOUT_S: Final = 300.0
_COLUMNS: Final = [(name, "bigint") for name in ("from", "to", "amount")]
_ANSWER: Final = [(name, "bigint") for name in ("transfers", "total")]


def write_transfers(transfers: Sequence[dict[str, int]], folder: Path) -> None:
    """Write transfers as JSON lines, every so many of them into one of the files of a new folder."""
    folder.mkdir()
    for number in range(_FILES):
        lines = [json.dumps(each) + "\n" for each in islice(transfers, number, None, _FILES)]
        (folder / f"part-{number:02}.jsonl").write_text("".join(lines))


def seen_by(name: str, transfers: Iterable[dict[str, int]], install: bool) -> Line:
    """Return what the sink of a peer received, or why there is nothing."""
    program, environment = PEERS[name]
    try:
        python, variables = e.interpreter(environment, install)
    except e.AbsentError as error:
        return Line(name, why=f"absent: {error}")
    every = list(transfers)
    with tempfile.TemporaryDirectory(prefix="bench-transfers-") as folder:
        order = _order(every, Path(folder))
        command = [python, str(ROOT / "bench" / "peers" / program), str(order)]
        # What the programs import without a path of their own.
        variables = {**variables, "PYTHONPATH": str(ROOT / "bench" / "compare")}
        done = run(name, command, _TIMEOUT_S, variables)
    if done.failure is not None:
        return Line(name, why=f"failed: {shortened(done.failure)}")
    if "cannot" in done.result:
        return Line(name, why=f"cannot: {done.result['cannot']}")
    return Line(name, [(transfers, total) for transfers, total in done.result["answers"]])


def _order(transfers: Sequence[dict[str, int]], folder: Path) -> Path:
    files = TableFiles(str(folder / "transfers"), _COLUMNS)
    write_transfers(transfers, Path(files.folder))
    more: dict[str, Any] = {"timed": False, "files_per_batch": 1, "rows": 1, "wait_s": 0.0}
    more |= {"counted": "transfers", "total": len(transfers), "work": str(folder / "work")}
    order = Order("transfers", "", "json", {"transfers": files}, _ANSWER, out=str(folder / "answer"), **more)
    (folder / "work").mkdir()
    order.write(folder / "order.json")
    return folder / "order.json"
