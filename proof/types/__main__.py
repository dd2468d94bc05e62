"""``python -m proof.types``: the matrix of types that programs define: run, printed, written into the docs.

python -m proof.types                        every job, those on Spark included; writes docs/types.md
python -m proof.types --kind NAME --place NAME   some jobs; what the record says of others stays
python -m proof.types --recorded             prints what was seen the last time
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from proof.types import on_spark, table
from proof.types.cells import RUNS, Place, Way, run
from proof.types.kinds import Kind


def main() -> int:
    """The program."""
    parser = argparse.ArgumentParser(prog="python -m proof.types", description=__doc__.partition("\n")[0])
    parser.add_argument("--kind", action="append", help="of types; may be given several times")
    parser.add_argument("--place", action="append", help="where they are defined; likewise")
    parser.add_argument("--way", action="append", choices=list(Way), help="in which they run; likewise")
    parser.add_argument("--jobs", type=int, default=2, help="how many run at a time")
    parser.add_argument("--no-spark", action="store_true", help="leave the jobs on Spark out")
    parser.add_argument("--recorded", action="store_true", help="run nothing")
    asked = parser.parse_args()
    cells = table.recorded()
    if not asked.recorded:
        wanted = [
            (kind, place, way)
            for kind, place, way in RUNS
            if (asked.kind is None or kind.name in asked.kind)
            and (asked.place is None or place.name in asked.place)
            and (asked.way is None or way in asked.way)
        ]
        cells |= on_processes(wanted, asked.jobs)
        if not asked.no_spark:
            cells |= with_spark()
        table.record(cells)
    print(table.printed(cells))
    return int(any(one.state == "fails" for one in cells.values()))


def with_spark() -> table.Cells:
    """What becomes of the uses that need Spark, in those of its jobs that there are."""
    cells: table.Cells = {}
    for session in on_spark.SESSIONS:
        with tempfile.TemporaryDirectory(prefix="headgate-types-", ignore_cleanup_errors=True) as scratch:
            folder = Path(scratch, "session")
            folder.mkdir()
            cells |= on_spark.run(session, folder)
        print(f"on Spark, {session}: done", file=sys.stderr)
    return cells


def on_processes(wanted: list[tuple[Kind, Place, Way]], at_a_time: int) -> table.Cells:
    """What becomes of the uses that need no Spark."""

    def one(job: tuple[Kind, Place, Way]) -> table.Cells:
        kind, place, way = job
        with tempfile.TemporaryDirectory(prefix="headgate-types-", ignore_cleanup_errors=True) as scratch:
            folder = Path(scratch, "cell")
            folder.mkdir()
            found = run(kind, place, way, folder)
        states = [outcome.state for outcome in found.values()]
        said = f"{kind.name}, {place.name}, {way}: {states.count('works')} of {len(states)} work"
        print(said, file=sys.stderr)
        return {(kind.name, place.name, way, use): outcome for use, outcome in found.items()}

    cells: table.Cells = {}
    with ThreadPoolExecutor(at_a_time) as pool:
        for found in pool.map(one, wanted):
            cells |= found
    return cells


if __name__ == "__main__":
    sys.exit(main())
