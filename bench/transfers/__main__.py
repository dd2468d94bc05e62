"""python -m bench.transfers [--json FILE] [--svg FILE] [--install]: what a sink sees in between.

Transfers are counted as credits and as debits, both are joined and added up: 0, for any part of them.
Shown is what reaches a sink while the job runs, by Headgate at marks and at once, and by Flink SQL.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, Final

from bench.machine import ROOT
from bench.peers.environments import FLINK, AbsentError, interpreter
from bench.transfers.picture import Line, drawn

_FLINK: Final = ROOT / "bench" / "peers" / "flink_transfers.py"
_LIMIT_S: Final = 600

Answers = list[tuple[int, int]]
"""How many transfers an answer says it is of, and the total."""


def _example() -> Any:
    spec = spec_from_file_location("transfers", ROOT / "examples" / "transfers.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _flink(example: Any, install: bool) -> Answers:
    python, variables = interpreter(FLINK, install)
    with tempfile.TemporaryDirectory() as work:
        (folder := Path(work, "moved")).mkdir()
        lines = map(json.dumps, example.transfers())
        (folder / "transfers.json").write_text("\n".join(lines), encoding="utf-8")
        result = Path(work, "result.json")
        command = [python, str(_FLINK), str(folder), str(result)]
        subprocess.run(command, env=variables, check=True, timeout=_LIMIT_S, capture_output=True)
        return [(transfers, total) for transfers, total in json.loads(result.read_text(encoding="utf-8"))]


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m bench.transfers")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--svg", type=Path)
    parser.add_argument("--install", action="store_true", help="install Flink where it is missing")
    given = parser.parse_args()
    example = _example()
    ways: dict[str, Callable[[], Answers]] = {
        "Headgate, at marks": lambda: example.seen("marks"),
        "Headgate, at once": lambda: example.seen("eager"),
        "Flink SQL": lambda: _flink(example, given.install),
    }
    found: dict[str, Answers] = {}
    for name, run in ways.items():
        try:
            found[name] = run()
        except AbsentError as error:
            print(f"{name}: {error}")
    lines = [Line(name, answers) for name, answers in found.items()]
    for line in lines:
        print(f"{line.name}: {line.told}")
    if given.json is not None:
        given.json.write_text(json.dumps(found), encoding="utf-8")
    if given.svg is not None:
        given.svg.write_text(drawn(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
