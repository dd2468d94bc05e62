"""The process cluster of the matrix: as any other, and it notes that workers have begun.

By that one can tell a job that was refused before the start from one that failed. As a program it is the
command ``headgate`` whose jobs run on it where they would run on Spark.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from headgate.testing import JobListener, ProcessCluster

FOLDER = "TYPES_FOLDER"
"""Variable: where a program of the matrix finds its input and leaves what it found."""


class _Noting(JobListener):
    def gang_submitted(self, gang: int, slots: int) -> None:
        with Path(os.environ[FOLDER], "begun").open("a") as file:
            file.write(f"{slots}\n")


def noting_cluster() -> ProcessCluster:
    """An executor for one job."""
    return ProcessCluster(_Noting())


def main() -> None:
    """The command, with this executor in place of Spark's."""
    from headgate.cli.main import main as headgate
    from headgate.common import registry

    named = dict(registry.BUILT_IN[registry.Kind.EXECUTOR])
    named["spark"] = "proof.types.cluster:noting_cluster"
    registry.BUILT_IN[registry.Kind.EXECUTOR] = named  # type: ignore[index]
    sys.argv[0] = "headgate"
    headgate()


if __name__ == "__main__":
    main()
