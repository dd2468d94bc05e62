"""With high availability, the next driver goes on in the rows that a killed one has staged."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("dataframe_program.py")
SOURCE = Path(__file__).parents[3] / "src"
PATIENCE_S = 600
RECORDS = 4000


def driver(mode: str, scratch: Path) -> subprocess.CompletedProcess[str]:
    """One driver, to its end."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "SPARK_LOCAL_IP": "127.0.0.1"}
    return subprocess.run(
        [sys.executable, str(PROGRAM), mode, str(scratch)],
        stdout=subprocess.PIPE, text=True, env=environment, timeout=PATIENCE_S, check=False,
    )  # fmt: skip


@pytest.mark.proof
@pytest.mark.spark
@pytest.mark.timeout(2 * PATIENCE_S)
def test_the_next_driver_reads_the_rest_and_computes_nothing_again(tmp_path: Path) -> None:
    """Every row is in the output once; its staged rows live as long as the job, not as the driver."""
    assert driver("first", tmp_path).returncode == -signal.SIGKILL
    staging = tmp_path / "checkpoints" / ".headgate-staging"
    assert list(staging.glob("*/rows/*/*.arrow"))
    second = driver("second", tmp_path)
    assert second.returncode == 0
    lines = [line for file in (tmp_path / "out").glob("*.jsonl") for line in file.read_text().splitlines()]
    assert sorted(json.loads(line)["id"] for line in lines) == list(range(RECORDS))
    assert not staging.exists()
