"""Environments of the other engines: one folder each in the cache, from pinned versions.

A peer that cannot be installed here is reported as absent, with the reason.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.cache import cache_folder, made_once

INSTALL_TIMEOUT_S: Final = 900
_COPY_JAR: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"


@dataclass(frozen=True, slots=True)
class Pinned:
    """What a peer needs.

    Attributes:
        requirements: exact versions of what is asked for; pip chooses what these need in turn.
        beside: install beside the project's own packages instead of into an environment of its own.
        built: whether pip may build packages that have no wheel.
        jars: "group:artifact:version" of what Maven Central has for it.
        jars_folder: where in its environment the jars go.
        newest_python: the newest Python that it runs on; None for any.
    """

    requirements: tuple[str, ...]
    beside: bool = False
    built: bool = False
    jars: tuple[str, ...] = ()
    jars_folder: str = ""
    newest_python: tuple[int, int] | None = None


BYTEWAX: Final = "bytewax"
PATHWAY: Final = "pathway"
SPARK: Final = "spark"
SPARK_ALONE: Final = "spark-alone"
FLINK: Final = "flink"
PILLOW: Final = "pillow"

PINNED: Final = {
    BYTEWAX: Pinned(("bytewax==0.21.1", "orjson==3.13.0", "pyarrow==26.0.1")),
    PATHWAY: Pinned(("pathway==0.33.0",)),
    # PySpark is the project's own; its stateful operators in Python need this besides.
    SPARK: Pinned(("protobuf==6.33.6",), beside=True),
    SPARK_ALONE: Pinned(
        ("pyspark==4.3.0", "protobuf==6.33.6", "pandas==2.3.3", "pyarrow==26.0.1"), built=True
    ),
    # PyFlink has no Parquet: the format is a jar of its own, which needs Hadoop's classes.
    FLINK: Pinned(
        ("apache-flink==2.3.0",),
        built=True,
        jars=(
            "org.apache.flink:flink-sql-parquet:2.3.0",
            "org.apache.hadoop:hadoop-client-api:3.4.1",
            "org.apache.hadoop:hadoop-client-runtime:3.4.1",
        ),
        jars_folder="lib/python{python}/site-packages/pyflink/lib",
        newest_python=(3, 12),
    ),
    # No peer: it turns the chart into a PNG.
    PILLOW: Pinned(("pillow==13.0.0",)),
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
    pinned = PINNED[peer]
    python, version = _base_python(peer, pinned)
    folder = _folder(pinned, version)
    if not folder.is_dir():
        if not install:
            raise AbsentError(f"{peer} is not installed (a run without --smoke installs it)")
        try:
            made_once(folder, lambda target: _install(pinned, target, python, version))
        except (subprocess.SubprocessError, OSError) as error:
            raise AbsentError(f"{peer} could not be installed: {_reason(error)}") from error
    if pinned.beside:
        return sys.executable, {"PYTHONPATH": str(folder)}
    return str(folder / "bin" / "python"), {}


def _base_python(peer: str, pinned: Pinned) -> tuple[str, str]:
    """The Python that a peer's environment is made of, and its version as in "3.11"."""
    own, newest = sys.version_info[:2], pinned.newest_python
    if newest is None or own <= newest:
        return sys.executable, f"{own[0]}.{own[1]}"
    for minor in range(newest[1], 10, -1):
        found = shutil.which(f"python3.{minor}")
        if found is not None:
            return found, f"3.{minor}"
    raise AbsentError(
        f"{peer} needs Python {newest[0]}.{newest[1]} or older, and no such Python is on the PATH"
    )


def _folder(pinned: Pinned, version: str) -> Path:
    parts = [requirement.replace("==", "-") for requirement in pinned.requirements]
    parts += ["-".join(jar.split(":")[1:]) for jar in pinned.jars]
    return cache_folder() / "peers" / f"py{version.replace('.', '')}-{'-'.join(parts)}"


def _install(pinned: Pinned, target: Path, python: str, version: str) -> None:
    where = ["--target", str(target)]
    if not pinned.beside:
        _run([python, "-m", "venv", str(target)])
        python, where = str(target / "bin" / "python"), []
    wheels = [] if pinned.built else ["--only-binary", ":all:"]
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *wheels]
    _run([*pip, *where, *pinned.requirements])
    folder = target / pinned.jars_folder.format(python=version)
    for jar in pinned.jars:
        _run(["mvn", "-q", "-B", _COPY_JAR, f"-Dartifact={jar}", f"-DoutputDirectory={folder}"])


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S)


def _reason(error: Exception) -> str:
    text = getattr(error, "stderr", None) or str(error)
    lines = [line for line in str(text).strip().splitlines() if line.strip()]
    return lines[-1].strip() if lines else type(error).__name__
