"""A worker's libraries compute with one thread: one slot is one core."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
from headgate.runtime.worker.worker_process import limit_threads
limit_threads()
import polars, pyarrow
print(polars.thread_pool_size(), pyarrow.cpu_count(), pyarrow.io_thread_count())
"""


@pytest.mark.parametrize(("given", "expected"), [(None, "1 1 1"), ("3", "3 1 1")])
def test_libraries_are_limited_to_one_thread(given: str | None, expected: str) -> None:
    """What the user set for Polars in the environment is left as it is."""
    variables = {name: value for name, value in os.environ.items() if name != "POLARS_MAX_THREADS"}
    if given is not None:
        variables["POLARS_MAX_THREADS"] = given
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=variables,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert run.stdout.strip() == expected
