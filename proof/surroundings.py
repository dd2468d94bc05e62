"""Settings that Spark and all processes of a proof inherit: where their files go, and how long they live."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from proof.faults import SPARK_KILLS_S
from proof.record import ROOT


def prepare(root: Path) -> Path:
    """Set them in this process; gives the folder of its temporary files, in `root`."""
    temporary = root / "tmp"
    temporary.mkdir()
    os.environ |= {
        "TMPDIR": str(temporary),
        "SPARK_LOCAL_DIRS": str(temporary),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src"))),
        # A worker that was replaced must end by itself, not because Spark kills it.
        "PYSPARK_SUBMIT_ARGS": f"--conf spark.python.task.killTimeout={SPARK_KILLS_S:.0f}s pyspark-shell",
    }
    tempfile.tempdir = None  # read TMPDIR anew
    sys.path[:0] = [str(ROOT)]
    return temporary
