"""The interpreters that are on this machine, of the versions that Headgate is for."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import cloudpickle
import packaging
import pytest
import typing_extensions

HERE = Path(__file__).parent
SOURCES = HERE.parents[2] / "src"
VERSIONS = ("3.11", "3.12", "3.13")


def interpreter(version: str) -> str:
    """An interpreter of a version; the test is skipped where there is none."""
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return sys.executable
    places = [*os.environ.get("PATH", "").split(os.pathsep)]
    places += [
        str(path) for path in sorted(Path.home().glob(f".pyenv/versions/{version}*/bin"), reverse=True)
    ]
    for place in places:
        found = Path(place, f"python{version}")
        if found.is_file() and ".pyenv/shims" not in place:
            return str(found)
    pytest.skip(f"there is no Python {version} on this machine")


def run_program(
    name: str, folder: Path, version: str = VERSIONS[0], timeout_s: float = 200.0
) -> dict[str, Any]:
    """What a program of checks prints."""
    ours = folder / "pure-packages-of-ours"
    for package in (cloudpickle, packaging):
        there = Path(str(package.__file__)).parent
        shutil.copytree(there, ours / there.name, dirs_exist_ok=True)
    shutil.copy(str(typing_extensions.__file__), ours)
    path = os.pathsep.join((str(HERE), str(ours)))
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    ended = subprocess.run(
        [interpreter(version), str(HERE / name), str(SOURCES), str(folder)],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        env=environment,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found
