"""What a proof leaves behind: per fault what happened, and the JSON record of a whole one."""

from __future__ import annotations

import datetime
import json
import os
import platform
import statistics
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from proof.modes import MODES, Restored

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "proof"
VERSIONS = ("pyspark", "pyarrow", "numpy", "msgspec", "cloudpickle")


@dataclass
class FaultResult:
    """One fault.

    Attributes:
        fault: its name.
        group: its letter.
        struck: whether it happened before the job ended.
        struck_s: seconds into the run.
        recovery_s: from the fault, or from when it was mended, until all subtasks ran again; for a fault
            that does not stop the job, until the next completed checkpoint.
        progress_s: from there to the next completed checkpoint.
        restarts: of the job for this fault.
        detail: what the driver said was wrong.
        violations: what did not hold.
    """

    fault: str
    group: str
    struck: bool = False
    struck_s: float | None = None
    recovery_s: float | None = None
    progress_s: float | None = None
    restarts: int = 0
    detail: str = ""
    violations: list[str] = field(default_factory=list)


@dataclass
class RunResult:
    """One job from its start to its end.

    Attributes:
        name: number and outline of the run.
        seed: decides moments and victims.
        parallelism: of the job; several where drivers follow each other.
        interval_ms: between two checkpoints.
        mode: how barriers travelled.
        faults: what was done to it.
        duration_s: of the whole run.
        checkpoints: completed.
        restarts: of the job.
        restored: what the recoveries started from.
        lines: of the output.
        violations: what did not hold at the end.
        story: the driver's events; only of a run with violations.
    """

    name: str
    seed: int
    parallelism: list[int]
    interval_ms: int
    mode: str
    faults: list[FaultResult] = field(default_factory=list)
    duration_s: float = 0.0
    checkpoints: int = 0
    restarts: int = 0
    restored: Restored = field(default_factory=Restored)
    lines: int = 0
    violations: list[str] = field(default_factory=list)
    story: list[str] = field(default_factory=list)

    @property
    def wrong(self) -> list[str]:
        """All violations."""
        return [text for fault in self.faults for text in fault.violations] + self.violations


def summary(runs: Sequence[RunResult]) -> dict[str, Any]:
    """Counts and recovery times."""
    faults = [fault for run in runs for fault in run.faults if fault.struck]
    names = sorted({(fault.group, fault.fault) for fault in faults})
    return {
        "faults": len(faults),
        "violations": sum(len(run.wrong) for run in runs),
        "duplicates_or_missing": sum("lines" in text for run in runs for text in run.violations),
        "runs": len(runs),
        "restarts": sum(run.restarts for run in runs),
        "checkpoints": sum(run.checkpoints for run in runs),
        "recovery": {
            "workers": times(fault.recovery_s for fault in faults if fault.group not in "fghi"),
            "drivers": times(fault.recovery_s for fault in faults if fault.group == "f"),
            "leaders": times(fault.recovery_s for fault in faults if fault.group == "h"),
            "border": times(fault.recovery_s for fault in faults if fault.group == "i"),
        },
        "modes": {mode.name: _of_mode(mode.name, runs) for mode in MODES},
        "per_fault": {
            f"{group}: {name}": {
                "count": sum(fault.fault == name for fault in faults),
                **times(fault.recovery_s for fault in faults if fault.fault == name),
            }
            for group, name in names
        },
    }


def _of_mode(mode: str, runs: Sequence[RunResult]) -> dict[str, int]:
    mine = [run for run in runs if run.mode == mode]
    restored = Restored()
    for run in mine:
        restored.add(run.restored)
    return {
        "runs": len(mine),
        "faults": sum(fault.struck for run in mine for fault in run.faults),
        "recoveries": restored.recoveries,
        "recoveries_with_records_in_flight": restored.with_records,
        "records_in_flight": restored.records,
    }


def times(values: Iterable[float | None]) -> dict[str, float]:
    """Median, 99th percentile and greatest of recovery times in seconds."""
    known = sorted(value for value in values if value is not None)
    if not known:
        return {}
    p99 = known[min(len(known) - 1, -(-99 * len(known) // 100) - 1)]
    return {
        "median_s": round(statistics.median(known), 3),
        "p99_s": round(p99, 3),
        "max_s": round(known[-1], 3),
    }


def commit() -> tuple[str, bool]:
    """The commit of this checkout, short, and whether files differ from it."""

    def git(*arguments: str) -> str:
        said = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
        return said.stdout.strip()

    return git("rev-parse", "--short", "HEAD") or "unknown", bool(git("status", "--porcelain"))


def origin() -> dict[str, Any]:
    """What every record says of itself: when, of which commit, on what machine, with which versions."""
    head, changed = commit()
    return {
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": head,
        "uncommitted_changes": changed,
        "machine": {
            "system": platform.platform(),
            "processor": platform.machine(),
            "cores": os.cpu_count(),
            "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        },
        "versions": {"python": platform.python_version(), **{name: version(name) for name in VERSIONS}},
    }


def record_of(
    runs: Sequence[RunResult],
    seed: int,
    smoke: bool,
    took_s: float,
    fuzzing: dict[str, Any] | None = None,
    simulation: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Everything that is kept of a proof."""
    return {
        "what": "exactly once under faults of real processes",
        **origin(),
        "seed": seed,
        "smoke": smoke,
        "duration_s": round(took_s, 1),
        "summary": summary(runs),
        "fuzzing": fuzzing,
        "simulation": simulation,
        "runs": [asdict(run) for run in runs],
    }


def write_record(content: dict[str, Any], folder: Path) -> Path:
    """Write the record into a file of the day and the commit; gives its name."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{content['time'][:10]}-{content['commit']}.json"
    write_json(content, path)
    return path


def write_json(content: dict[str, Any], path: Path) -> None:
    """Write a record."""
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
