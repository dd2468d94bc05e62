"""Writes golden checkpoints: python tests/compat/write_golden.py [KIND ...]; by default what is missing.

One is missing when no folder has the numbers of the formats that are written now. A folder is never written
again. What the restored job emits is kept beside it, after it was compared with an uninterrupted job.

A format that only older code can write is written by it: unpack `src` of a commit into a folder, and give
this script its name in GOLDEN_SOURCE, and the commit in GOLDEN_COMMIT.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SOURCE = Path(os.environ.get("GOLDEN_SOURCE", ROOT / "src"))
sys.path[:0] = [str(SOURCE), str(Path(__file__).parent)]

import golden_parts as parts  # noqa: E402 - found only now

import headgate as hg  # noqa: E402
from headgate.checkpoint.opening import open_checkpoint, referenced_ranges, verify_files  # noqa: E402
from headgate.runtime.job import job_settings  # noqa: E402
from headgate.runtime.worker.operators.columns.updating import logged_state  # noqa: E402

DATA = Path(__file__).with_name("data")
EXPECTED, FORMATS, STORAGE = "expected.json", "formats.json", "storage"
ATTEMPTS = 20
IN_FILES = -1
"""The size up to which state lies in the metadata: none does."""


def formats_of(kind: parts.Kind) -> dict[str, int]:
    """The numbers that the code writes now, of the formats in a kind."""
    current = parts.current_formats()
    return {name: current[name] for name in kind.formats if name in current}


def missing(name: str, kind: parts.Kind) -> bool:
    """Whether no golden checkpoint of a kind has the numbers that are written now."""
    told = [json.loads(file.read_text()) for file in (DATA / name).glob(f"*/{FORMATS}")]
    return formats_of(kind) not in [one["formats"] for one in told]


def folder_of(name: str, kind: parts.Kind) -> Path:
    """Named after the numbers, and the commit that wrote them."""
    return DATA / name / f"v{'-'.join(map(str, formats_of(kind).values()))}-{commit()}"


def stopped(name: str, kind: parts.Kind, scratch: Path) -> Path:
    """The storage's folder of a job that was stopped at a checkpoint worth keeping.

    Raises:
        SystemExit: none came up.
    """
    for attempt in range(ATTEMPTS):
        storage = scratch / f"storage-{attempt}"
        env = parts.environment(storage, kind.settings(scratch / "local"))
        kind.build(env, str(scratch / "before"), parts.HALTS)
        try:
            env.execute(name)
        except hg.HeadgateError as error:
            if "halts at" not in str(error):
                raise
        (job,) = (path for path in storage.iterdir() if path.is_dir() and not path.name.startswith("."))
        disk, metadata = open_checkpoint(str(job))
        verify_files(disk, metadata)
        if kind.holds(metadata):
            return keep_what_counts(job, metadata)
    raise SystemExit(f"no checkpoint of {name} had what it is kept for in {ATTEMPTS} attempts")


def keep_what_counts(job: Path, metadata: Any) -> Path:
    """Leave only the log, the last checkpoint, and the files that it refers to."""
    needed = {f"{job.name}/chk-{metadata.checkpoint}/_metadata"}
    needed |= {item.file for item in referenced_ranges(metadata)}
    for path in sorted(job.rglob("*"), reverse=True):
        name = path.relative_to(job.parent).as_posix()
        if path.is_file() and "/log/" not in name and name not in needed:
            path.unlink()
        elif path.is_dir() and not any(path.iterdir()):
            path.rmdir()
    return job


def uninterrupted(kind: parts.Kind, scratch: Path) -> dict[str, list[str]]:
    """What a job emits that runs from the beginning to the end."""
    env = parts.environment(scratch / "storage-whole", kind.settings(scratch / "local-whole"))
    kind.build(env, str(scratch / "whole"), None)
    env.execute("whole")
    return {
        "out" + path.name.removeprefix("whole"): parts.committed(path)
        for path in sorted(scratch.glob("whole*"))
    }


def check(name: str, emitted: dict[str, list[str]], whole: dict[str, list[str]]) -> None:
    """Everything that goes on must be what would have come anyway; only what tells of the restore is new.

    Raises:
        SystemExit: it is not.
    """
    for output, lines in emitted.items():
        strange = [line for line in set(lines) - set(whole[output]) if not line.startswith(TOLD_AT_RESTORE)]
        if strange or not lines:
            raise SystemExit(f"{name} goes on with what would not have come: {strange[:3]}")


TOLD_AT_RESTORE = ('{"kept"', '{"total"')


def write(name: str, kind: parts.Kind) -> None:
    """Write one golden checkpoint.

    Raises:
        SystemExit: it cannot be written.
    """
    target = folder_of(name, kind)
    if target.exists():
        raise SystemExit(f"{target} exists; a golden checkpoint is never written again")
    with tempfile.TemporaryDirectory() as made:
        scratch = Path(made)
        job = stopped(name, kind, scratch)
        kept = scratch / "kept" / STORAGE / job.name
        shutil.copytree(job, kept)
        emitted = parts.restored(kind, kept, scratch)
        check(name, emitted, uninterrupted(kind, scratch))
        (scratch / "kept" / EXPECTED).write_text(json.dumps(emitted, indent=0, ensure_ascii=True) + "\n")
        told = {"formats": formats_of(kind), "commit": commit()}
        (scratch / "kept" / FORMATS).write_text(json.dumps(told, indent=1) + "\n")
        shutil.copytree(scratch / "kept", target)
    size = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    print(f"{target.relative_to(ROOT)}: {size:,} bytes")


def commit() -> str:
    """Which code writes."""
    if "GOLDEN_COMMIT" in os.environ:
        return os.environ["GOLDEN_COMMIT"]
    said = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=Path(hg.__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return said.stdout.strip() or "unknown"


if __name__ == "__main__":
    kinds = parts.kinds()
    for chosen in sys.argv[1:] or [name for name, kind in kinds.items() if missing(name, kind)]:
        if kinds[chosen].in_files:
            made = job_settings.WorkerSettings
            job_settings.WorkerSettings = lambda made=made, **kw: made(**{**kw, "inline_size_max": IN_FILES})
            logged_state.ROWS_MIN = 0
        write(chosen, kinds[chosen])
