"""Whole jobs whose checkpoints are in S3, with workers that are processes of Spark's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from servers import ROOT, S3Server

from headgate.checkpoint.storage.settings import StorageSettings
from headgate.checkpoint.storage.uris import open_disk

pytestmark = [pytest.mark.ci, pytest.mark.spark]

PROGRAM = """
import json, os, sys
import headgate as hg

FLAG = sys.argv[2]

class Count(hg.KeyedProcessFunction):
    count: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record: int, ctx):
        self.count.value += 1
        if record == 900 and not os.path.exists(FLAG):
            open(FLAG, "w").close()
            raise RuntimeError("once")
        yield [ctx.key, self.count.value]

config = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": 2,
          "restart-strategy.fixed-delay.delay": "1ms", "execution.checkpointing.data-inline-threshold": "0b"}
config.update(json.loads(sys.argv[3]))
env = hg.Environment(parallelism=2, config=config)
env.checkpoints(every="20ms", storage=sys.argv[1])
keyed = env.from_collection(list(range(1000)), uid="numbers").key_by(lambda n: n % 7)
found = keyed.process(Count(), uid="count").collect_later()
env.execute()
print("RESULT", json.dumps(sorted(found.records)))
"""


def counts(storage: str, folder: Path, config: dict[str, str]) -> list[list[int]]:
    """What the program found, in a process of its own."""
    program = folder / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, str(program), storage, str(folder / "crashed"), json.dumps(config)],
        capture_output=True, text=True, check=False, cwd=folder, env=_environment(),
    )  # fmt: skip
    assert (folder / "crashed").exists(), done.stderr
    assert "do-not-show" not in done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert lines, done.stderr
    return json.loads(lines[0].removeprefix("RESULT "))


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return {**kept, "PYTHONPATH": str(ROOT / "src")}


EXPECTED = sorted([key, n + 1] for key in range(7) for n in range(len(range(key, 1000, 7))))


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    """A server for the file."""
    made = S3Server().start()
    yield made
    made.kill()


def test_a_job_on_s3(server: S3Server, tmp_path: Path) -> None:
    """The options reach Spark's workers; the job restarts from the bucket and is exact; no key is shown."""
    keys = {"s3.access-key": "an-id", "s3.secret-key": "do-not-show"}
    found = counts("s3://bucket/jobs", tmp_path, {"s3.endpoint": server.endpoint, **keys})
    assert found == EXPECTED
    settings = StorageSettings(
        s3_endpoint=server.endpoint, s3_access_key="an-id", s3_secret_key="do-not-show"
    )
    names = open_disk("s3://bucket/jobs", settings).list("")
    assert any("/chk-" in name for name in names)


def test_a_job_in_memory(tmp_path: Path) -> None:
    """Spark's workers need no common storage; the job restarts from the driver's memory and is exact."""
    assert counts("memory://job", tmp_path, {}) == EXPECTED
