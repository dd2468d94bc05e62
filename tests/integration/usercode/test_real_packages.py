"""Real packages in two and three versions in one process: what each gets, and what crosses."""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
OWNERS = ("framework", "a", "b")
FETCH_TIMEOUT_S = 400

pytestmark = [pytest.mark.ci, pytest.mark.timeout(900)]


@pytest.fixture(scope="session")
def environments() -> Path:
    """A folder with the packages of each owner, fetched once into the folder `build`."""
    if sys.version_info[:2] != (3, 11) or (sys.platform, platform.machine()) != ("linux", "x86_64"):
        pytest.skip("the packages are pinned for CPython 3.11 on Linux, x86-64")
    pins = {owner: ROOT / "requirements" / f"usercode-{owner}.txt" for owner in OWNERS}
    key = hashlib.sha256(b"".join(file.read_bytes() for file in pins.values())).hexdigest()[:16]
    folder = ROOT / "build" / f"usercode-{key}"
    if not folder.is_dir():
        making = folder.with_name(f"{folder.name}-making")
        shutil.rmtree(making, ignore_errors=True)
        for owner, file in pins.items():
            _install(file, making / owner)
        making.rename(folder)
    return folder


def _install(pins: Path, folder: Path) -> None:
    options = [
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--only-binary=:all:",
        "--require-hashes",
    ]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(folder), "-r", str(pins)]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip(f"the packages of {pins.name} did not arrive within {FETCH_TIMEOUT_S} s")
    if ended.returncode:
        pytest.skip(f"the packages of {pins.name} cannot be had: {ended.stderr.strip().splitlines()[-1:]}")


def run(name: str, environments: Path, folder: Path) -> dict[str, Any]:
    """What a program of checks prints."""
    arguments = [str(ROOT / "src"), str(folder), str(environments)]
    ended = subprocess.run(
        [sys.executable, "-B", str(HERE / name), *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found


def test_versions_that_conflict_side_by_side(environments: Path, tmp_path: Path) -> None:
    """attrs, requests with urllib3, six, pydantic 1 and 2, protobuf, numpy, pandas, pyarrow: each its own."""
    found = run("real_program.py", environments, tmp_path)
    assert {name: said for name, said in found.items() if said != "ok"} == {}
    assert len(found) >= 17


def test_jobs_come_and_go_over_a_layer_that_stays(environments: Path, tmp_path: Path) -> None:
    """Compiled packages are loaded once; a job's own modules are given back each time."""
    found = run("layer_program.py", environments, tmp_path)["checks"]
    assert {name: said for name, said in found.items() if said != "ok"} == {}
    assert len(found) == 5
