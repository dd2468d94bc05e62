"""Real packages in several versions, and a Spark for tasks that open user code."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headgate.deploy.spark.user_code.running_jobs import UserCodeJobs, jobs_of
from headgate.usercode.bundle.requirements import wheels_of
from headgate.usercode.loading_errors import UserCodeLoadError

ROOT = Path(__file__).parents[3]
OWNERS = ("framework", "a", "b")
FETCH_TIMEOUT_S = 400


@pytest.fixture(scope="session")
def environments() -> Path:
    """A folder with the packages of each owner, fetched once into the folder `build`."""
    _check_machine()
    pins = {owner: _pins(owner) for owner in OWNERS}
    key = hashlib.sha256(b"".join(file.read_bytes() for file in pins.values())).hexdigest()[:16]
    folder = ROOT / "build" / f"usercode-{key}"
    if not folder.is_dir():
        making = folder.with_name(f"{folder.name}-making-{os.getpid()}")
        shutil.rmtree(making, ignore_errors=True)
        for owner, file in pins.items():
            _install(file, making / owner)
        try:
            making.rename(folder)
        except OSError:  # another process of the tests has made it meanwhile
            if not folder.is_dir():
                raise
            shutil.rmtree(making)
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


@pytest.fixture(scope="module")
def context(open_spark: Any) -> Any:
    """Of a local Spark of two slots."""
    return open_spark("local[2]").sparkContext


@pytest.fixture
def jobs(context: Any) -> Iterator[UserCodeJobs]:
    """Those of the application; what a test begins is over behind it."""
    found = jobs_of(context)
    yield found
    for job, _ in found.live().begun:
        found.end(job)


Wheels = dict[str, Path]


@pytest.fixture(scope="session")
def wheels() -> Wheels:
    """Wheels by name and version, "attrs-24.2.0"; fetched once into the folder `build`."""
    _check_machine()
    try:
        found = [
            wheel
            for owner in OWNERS[1:]
            for wheel in wheels_of(_pins(owner), ROOT / "build" / "usercode-wheels")
        ]
    except UserCodeLoadError as error:
        pytest.skip(f"the wheels cannot be had: {error}")
    return {"-".join(wheel.name.split("-")[:2]): wheel for wheel in found}


def _pins(owner: str) -> Path:
    return ROOT / "requirements" / f"usercode-{owner}.txt"


def _check_machine() -> None:
    if sys.version_info[:2] != (3, 11) or (sys.platform, platform.machine()) != ("linux", "x86_64"):
        pytest.skip("the packages are pinned for CPython 3.11 on Linux, x86-64")
