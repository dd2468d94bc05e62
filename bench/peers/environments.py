"""Environments of the other engines: one folder each in the cache, from pinned versions.

A peer that cannot be installed here is reported as absent, with the reason.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.cache import cache_folder, made_once

INSTALL_TIMEOUT_S: Final = 900


@dataclass(frozen=True, slots=True)
class Pinned:
    """What a peer needs.

    Attributes:
        requirements: exact versions of what is asked for; pip chooses what these need in turn.
        beside: install beside the project's own packages instead of into an environment of its own.
    """

    requirements: tuple[str, ...]
    beside: bool = False


BYTEWAX: Final = "bytewax"
PATHWAY: Final = "pathway"
SPARK: Final = "spark"

PINNED: Final = {
    BYTEWAX: Pinned(("bytewax==0.21.1", "orjson==3.13.0", "pyarrow==26.0.1")),
    PATHWAY: Pinned(("pathway==0.33.0",)),
    # PySpark is the project's own; its stateful operators in Python need this besides.
    SPARK: Pinned(("protobuf==6.33.6",), beside=True),
}


class AbsentError(Exception):
    """A peer that is not installed, or cannot be; its text says why."""


def interpreter(peer: str, install: bool) -> tuple[str, dict[str, str]]:
    """The Python of a peer, and the environment variables that it needs.

    Args:
        peer: a key of :data:`PINNED`.
        install: whether to install what is absent.

    Raises:
        AbsentError: it is not there.
    """
    folder = _folder(peer)
    if not folder.is_dir():
        if not install:
            raise AbsentError(f"{peer} is not installed (a run without --smoke installs it)")
        try:
            made_once(folder, lambda target: _install(PINNED[peer], target))
        except (subprocess.SubprocessError, OSError) as error:
            raise AbsentError(f"{peer} could not be installed: {_reason(error)}") from error
    if PINNED[peer].beside:
        return sys.executable, {"PYTHONPATH": str(folder)}
    return str(folder / "bin" / "python"), {}


def _folder(peer: str) -> Path:
    name = "-".join(requirement.replace("==", "-") for requirement in PINNED[peer].requirements)
    return cache_folder() / "peers" / f"py{sys.version_info[0]}{sys.version_info[1]}-{name}"


def _install(pinned: Pinned, target: Path) -> None:
    python, where = sys.executable, ["--target", str(target)]
    if not pinned.beside:
        venv.create(target, with_pip=True)
        python, where = str(target / "bin" / "python"), []
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--only-binary", ":all:"]
    subprocess.run(
        [*pip, *where, *pinned.requirements],
        check=True,
        capture_output=True,
        text=True,
        timeout=INSTALL_TIMEOUT_S,
    )


def _reason(error: Exception) -> str:
    text = getattr(error, "stderr", None) or str(error)
    lines = [line for line in str(text).strip().splitlines() if line.strip()]
    return lines[-1].strip() if lines else type(error).__name__
