"""The simulator's share of the proof: seeds, counted over many runs in `docs/proof/simulation.json`.

One proof does not have the time for all of them. It goes on where the last one on the same source stopped.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from proof.record import FOLDER, ROOT, write_json

SEEDS = 20_000
SMOKE_SEEDS = 4
"""Enough to show that the section runs: `make sim` has these seeds and hundreds more."""
SMOKE_EVERY = 60
"""Steps of a driver from one crash to the next; the tests of the simulator have more of them."""
MINUTES = 20.0
LEDGER = FOLDER / "simulation.json"


def carry_out(smoke: bool, minutes: float, console: Console, ledger: Path = LEDGER) -> dict[str, Any]:
    """Simulate seeds, and every crash of a driver; gives the figures.

    Args:
        smoke: a few seeds and steps, which are written nowhere.
        minutes: after which no new seed is begun.
        console: gets the progress, and the story of what failed.
        ledger: remembers what was done.
    """
    console.rule("simulator")
    if smoke:
        wanted = ["--seeds", str(SMOKE_SEEDS)]
    else:
        wanted = ["--seeds", str(SEEDS), "--seconds", str(minutes * 60), "--ledger", str(ledger)]
    figures = json.loads(_simulated([*wanted, "--keep-going", "--json"], console))
    every = str(SMOKE_EVERY if smoke else 1)
    crashes = _simulated(["--exhaustive", "driver-crash", "--every", every], console)
    failed = figures.get("all_failed", figures["failed"])
    return figures | {"driver_crashes": crashes, "findings": len(failed) + (" 0 violations" not in crashes)}


def main(arguments: Sequence[str]) -> int:
    """Simulate until all seeds are done, or the time is over; 0 when all are done and nothing was found."""
    parser = argparse.ArgumentParser(prog="python -m proof simulation", description=__doc__)
    parser.add_argument("--minutes", type=float, default=MINUTES, help="after which no new seed is begun")
    parser.add_argument("--smoke", action="store_true", help="a few seeds, which are written nowhere")
    parser.add_argument("--results", type=Path, help="file for the figures")
    options = parser.parse_args(arguments)
    figures = carry_out(options.smoke, options.minutes, Console(highlight=False))
    if options.results is not None:
        write_json(figures, options.results)
    left = 0 if options.smoke else SEEDS - figures["all_seeds"]
    if left > 0:
        print(f"{left:,} seeds are left for another time")
    return int(figures["findings"] > 0 or left > 0)


def _simulated(arguments: list[str], console: Console) -> str:
    """Run the simulator; shows what it says, and gives the last line."""
    command = [sys.executable, "-m", "sim", *arguments]
    line = ""
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            console.print(line.rstrip(), markup=False, soft_wrap=True)
    if process.returncode not in (0, 1):
        raise RuntimeError(f"the simulator ended with {process.returncode}; its messages are above")
    return line.strip()
