"""A locked requirements file resolved to wheels: once, on the driver, and never installed.

Every line must be pinned and carry hashes, so that nothing else than what was locked can come; only
wheels are taken, because building a source distribution runs its code.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from headgate.common.files.permissions import OWNER_FOLDER, Permissions, make_folder
from headgate.usercode.bundle.artifacts import abi_of_this
from headgate.usercode.bundle.packing import hash_of_file
from headgate.usercode.loading_errors import UserCodeLoadError

TIMEOUT_S: Final = 900
COMPLETE: Final = "complete"  # file with hashes and names of all wheels of a folder, written last
_OPTIONS: Final = (
    *("--only-binary=:all:", "--require-hashes", "--no-deps", "--disable-pip-version-check", "--no-input"),
    *("--quiet",),
)


def wheels_of(requirements: Path, cache: Path) -> tuple[Path, ...]:
    """Return the wheels that a locked file names, as paths below `cache`; absent ones are downloaded by pip.
    It waits 900 s at most. UserCodeLoadError: no such file, no hashes, no wheel for this interpreter, or
    others may write to `cache`.
    """
    if not requirements.is_file():
        raise UserCodeLoadError(f"requirements file {str(requirements)!r} is not there")
    folder = cache / f"{hash_of_file(requirements)[:32]}-{abi_of_this()}"
    make_folder(cache, Permissions.OWNER, durable=False)
    _owners_alone(cache)
    if not _is_complete(folder):
        making = Path(tempfile.mkdtemp(prefix="fetching-", dir=cache))
        try:
            _fetch(requirements, making)
            (making / COMPLETE).write_text(_listed(making))
            if not _is_complete(folder):
                shutil.rmtree(folder, ignore_errors=True)
            with contextlib.suppress(OSError):  # another process was first: its folder is as good
                making.rename(folder)
        finally:
            shutil.rmtree(making, ignore_errors=True)
    return tuple(sorted(folder.glob("*.whl")))


def _owners_alone(cache: Path) -> None:
    found = cache.stat()
    if found.st_uid != os.geteuid() or found.st_mode & stat.S_IWOTH:
        raise UserCodeLoadError(
            f"the cache of wheels {str(cache)!r} must be its owner's alone, expected user {os.geteuid()} and "
            f"mode 700, got user {found.st_uid} and mode {stat.S_IMODE(found.st_mode):o}; remove it"
        )
    if found.st_mode & stat.S_IWGRP:  # as the masks of many systems leave it
        cache.chmod(OWNER_FOLDER)


def _is_complete(folder: Path) -> bool:
    complete = folder / COMPLETE
    return complete.is_file() and complete.read_text() == _listed(folder)


def _listed(folder: Path) -> str:
    return "".join(f"{hash_of_file(wheel)} {wheel.name}\n" for wheel in sorted(folder.glob("*.whl")))


def _fetch(requirements: Path, folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", *_OPTIONS, "--dest", str(folder)]
    try:
        ended = subprocess.run(  # noqa: S603 - our own interpreter, and a path
            [*command, "--requirement", str(requirements)],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise UserCodeLoadError(
            f"the wheels of {str(requirements)!r} did not arrive within {TIMEOUT_S} s; does the index answer?"
        ) from error
    if ended.returncode:
        lines = [line for line in ended.stderr.splitlines() if line.strip()]
        raise UserCodeLoadError(
            f"the wheels of {str(requirements)!r} cannot be had: {' '.join(lines[-3:])}; every line must be "
            "pinned with hashes, and every package must have a wheel for this interpreter"
        )
