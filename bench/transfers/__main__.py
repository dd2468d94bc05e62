"""python -m bench.transfers [--json FILE] [--svg FILE] [--no-peers]: what a sink sees in between.

Transfers are counted as credits and as debits, both are joined and added up: 0, for any part of them.
Shown is what reaches a sink while the job runs: with corrections at marks and at once, and on the peers.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, Final

from bench.machine import ROOT
from bench.transfers.peers import PEERS, seen_by
from bench.transfers.picture import Line, drawn

_WAYS: Final = {"Headgate, corrections at marks": "marks", "Headgate, corrections at once": "eager"}


def _example() -> Any:
    spec = spec_from_file_location("transfers", ROOT / "examples" / "transfers.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m bench.transfers")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--svg", type=Path)
    parser.add_argument("--no-peers", action="store_true", help="Headgate alone")
    given = parser.parse_args()
    lines = []
    for line in _lines(_example(), peers=not given.no_peers):
        lines.append(line)
        print(f"{line.name}: {line.told}", flush=True)
    if given.json is not None:
        found = {line.name: {"answers": line.answers, "why": line.why} for line in lines}
        given.json.write_text(json.dumps(found), encoding="utf-8")
    if given.svg is not None:
        given.svg.write_text(drawn(lines), encoding="utf-8")


def _lines(example: Any, *, peers: bool) -> Iterator[Line]:
    for name, emission in _WAYS.items():
        yield Line(name, example.seen(emission))
    for name in PEERS if peers else ():
        yield seen_by(name, example.transfers(), install=True)


if __name__ == "__main__":
    main()
