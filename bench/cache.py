"""Where data sets and the peers' environments are kept between runs: the user's cache directory.

`HEADGATE_BENCH_CACHE` names another place. Everything in it can be deleted at any time.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path


def cache_folder() -> Path:
    """The folder, made if it is absent."""
    chosen = os.environ.get("HEADGATE_BENCH_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(chosen) if chosen else Path(base) / "headgate-bench"
    folder.mkdir(parents=True, exist_ok=True)
    return folder.resolve()


def made_once(folder: Path, make: Callable[[Path], None]) -> Path:
    """`folder`, made by `make` unless it is there already.

    It is made under another name and renamed when it is whole, so an interrupted run leaves nothing
    that a later one would take for complete.
    """
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = folder.with_name(f"{folder.name}.{os.getpid()}.unfinished")
    try:
        unfinished.mkdir()
        make(unfinished)
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return folder
