"""Two jobs with conflicting dependencies take turns in the same Python workers of one Spark application.

    python examples/two_versions/run.py

Both run `job.py`: one brings attrs 21.4.0, the other 24.2.0. Each has checkpoints and state, stops with a
savepoint, and goes on from it in its next turn; in one turn its worker is killed. Side by side it is shown
which version each job has seen, in which process. Exit code 1 if a count is missing or came twice.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import headgate as hg

HERE = Path(__file__).resolve().parent
JOBS = ("old", "new")
TURNS = 3
KILLED = ("old", 1)
"""The job and the turn in which its worker is killed."""
VISITS = 1_500


def main() -> int:
    """Run the turns, show them, and check what was written."""
    console = Console()
    with tempfile.TemporaryDirectory(prefix="headgate-two-versions-") as root:
        rows = [turn(Path(root), job, number) for number in range(TURNS) for job in JOBS]
        console.print(side_by_side(rows))
        wrong = [f"{job}: {what}" for job in JOBS for what in check(written(Path(root) / job))]
    console.print("\n".join(wrong) if wrong else "exactly once: no count is missing, none came twice")
    return 1 if wrong else 0


def turn(root: Path, job: str, number: int) -> dict[str, Any]:
    """One turn of one job; gives what it has written."""
    folder = root / job
    folder.mkdir(exist_ok=True)
    before = len(written(folder))
    killer = threading.Thread(target=kill, args=(folder / "worker.pid",))
    if (job, number) == KILLED:
        (folder / "worker.pid").unlink()
        killer.start()
    hg.run_program(
        HERE / "job.py",
        [str(folder), str(VISITS)],
        [f"headgate.user-code.requirements={HERE / f'{job}.txt'}", "headgate.progress=off"],
    )
    if (job, number) == KILLED:
        killer.join()
    records = written(folder)[before:]
    return {
        "job": job,
        "turn": number + 1,
        "attrs": sorted({record["attrs"] for record in records}),
        "pids": sorted({record["pid"] for record in records}),
        "records": len(records),
        "killed": (job, number) == KILLED,
    }


def kill(pid: Path) -> None:
    """Kill the worker of this turn once it has some state."""
    while not pid.exists():
        time.sleep(0.05)
    time.sleep(0.5)
    with suppress(ProcessLookupError):
        os.kill(int(pid.read_text()), signal.SIGKILL)


def written(folder: Path) -> list[dict[str, Any]]:
    """What a job has committed, in order of commit."""
    files = sorted((folder / "out").glob("part-*"), key=lambda path: path.stat().st_mtime_ns)
    return [json.loads(line) for path in files for line in path.read_text().splitlines()]


def check(records: list[dict[str, Any]]) -> list[str]:
    """What is wrong with all counts of a job."""
    found: dict[str, list[int]] = {}
    for record in records:
        found.setdefault(record["page"], []).append(record["count"])
    return [
        f"{page} has {len(counts)} counts up to {max(counts)}, {len(set(counts))} of them different"
        for page, counts in found.items()
        if sorted(counts) != list(range(1, len(counts) + 1))
    ]


def side_by_side(rows: list[dict[str, Any]]) -> Table:
    """A line for each turn, a column for each job."""
    table = Table("turn", *(f"job {job!r}" for job in JOBS))
    for number in range(1, TURNS + 1):
        cells = [next(row for row in rows if (row["job"], row["turn"]) == (job, number)) for job in JOBS]
        table.add_row(str(number), *(shown(cell) for cell in cells))
    return table


def shown(row: dict[str, Any]) -> str:
    """One turn of one job."""
    pids = " and ".join(map(str, row["pids"]))
    killed = ", where it was killed once" if row["killed"] else ""
    return f"attrs {', '.join(row['attrs'])}, {row['records']:,} visits in process {pids}{killed}"


if __name__ == "__main__":
    sys.exit(main())
