"""Gives files of user code to Spark, named by their content, once for each application.

`addFile` and never `addPyFile`: the latter puts files on the import path of every worker of the application,
where they are the framework's and all other jobs'.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headgate.common.files.durable_file import made_beside
from headgate.usercode.bundle.artifacts import UserBundle
from headgate.usercode.bundle.unpacking import TARS, ZIPS

if TYPE_CHECKING:
    from pyspark import SparkContext

_lock: Final = threading.Lock()
_added: Final[set[tuple[str, str]]] = set()


def shipped_name(name: str, digest: str) -> str:
    """Return the name under which a file is shipped: its hash, with the ending by which it is unpacked.

    Example:
        >>> shipped_name("Job.tar.gz", "ab" * 32)
        'headgate-user-abababababababababababababababab.tar.gz'
    """
    ending = max((end for end in (*ZIPS, *TARS) if name.lower().endswith(end)), key=len, default="")
    return f"headgate-user-{digest[:32]}{ending}"


def ship_files(context: SparkContext, bundle: UserBundle, files: Sequence[Path]) -> tuple[str, ...]:
    """Give a bundle's files to Spark for every executor, once each; return the names for `SparkFiles.get`."""
    names = tuple(shipped_name(one.name, one.digest) for one in bundle.artifacts)
    folder = folder_of(context)
    for name, file in zip(names, files, strict=True):
        with _lock:
            if (context.applicationId, name) not in _added:
                context.addFile(str(_named(file, folder / name)))
                _added.add((context.applicationId, name))
    return names


def folder_of(context: SparkContext) -> Path:
    """Return the driver's folder of shipped files, from which executors that come later fetch them too."""
    folder = Path(context._temp_dir) / "headgate-user-code"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _named(file: Path, target: Path) -> Path:
    if not target.exists():
        with contextlib.suppress(OSError):
            os.link(file, target)
    if not target.exists():
        with made_beside(target) as made:
            shutil.copyfile(file, made)
    return target
