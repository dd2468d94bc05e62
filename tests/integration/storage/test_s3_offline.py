"""What is done to snapshots while no job runs, with snapshots in S3."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from servers import S3Server
from typer.testing import CliRunner

from headgate.api.jobs.launch import run_program
from headgate.api.jobs.launch_settings import launched
from headgate.cli.main import app

pytestmark = pytest.mark.ci

PROGRAM = """
import sys
import headgate as hg
from headgate.testing.mini_cluster import MiniCluster

class Count(hg.KeyedProcessFunction):
    count: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record: int, ctx):
        self.count.value += 1
        yield [ctx.key, self.count.value]

env = hg.Environment(parallelism=2, executor=MiniCluster())
env.checkpoints(every="20ms", storage=sys.argv[1])
keyed = env.from_collection(list(range(1000)), uid="numbers").key_by(lambda n: n % 7)
keyed.process(Count(), uid="count").write_json(sys.argv[2], uid="out")
env.execute("counts")
"""


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    """A server for the file."""
    made = S3Server().start()
    yield made
    made.kill()


def test_every_command_on_s3(server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shown, judged, rewritten, verified, pruned, deleted: with settings behind -D and no variables."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    keys = [f"s3.endpoint={server.endpoint}", "s3.access-key=an-id", "s3.secret-key=do-not-show"]
    defined = [part for key in keys for part in ("-D", key)]
    program = tmp_path / "job.py"
    program.write_text(PROGRAM)
    arguments = ["s3://bucket/offline", str(tmp_path / "out")]
    with launched([*keys, "execution.checkpointing.data-inline-threshold=0b"]):
        run_program(program, arguments)

    def cli(*asked: Any) -> str:
        group = 1 if asked[0] == "checkpoints" else 2
        ended = CliRunner().invoke(app, [*map(str, asked[:group]), *defined, *map(str, asked[group:])])
        assert ended.exit_code == 0, ended.output
        assert "do-not-show" not in ended.output
        return ended.output

    from headgate.checkpoint.storage.uris import open_disk
    from headgate.offline.storages import storage_options

    with storage_options(keys):
        (job,) = {name.split("/")[0] for name in open_disk(arguments[0]).list("")}
    snapshot = f"{arguments[0]}/{job}"
    assert "value[int]" in cli("savepoint", "show", snapshot)
    assert "goes on from the snapshot" in cli("check-upgrade", snapshot, program, *arguments)
    sliced = "s3://bucket/sliced"
    assert "7 entries" in cli("savepoint", "reslice", snapshot, sliced, "--max-parallelism", 32)
    moved = "s3://bucket/moved"
    assert "7 entries" in cli("savepoint", "migrate", sliced, moved, program, *arguments)
    assert "64 key groups" in cli(
        "savepoint", "reslice", moved, "s3://bucket/again", program, *arguments, "--max-parallelism", 64
    )
    assert "intact" in cli("checkpoint", "verify", arguments[0])
    assert "intact" in cli("checkpoint", "verify", sliced)
    with storage_options(keys):
        orphan = f"{job}/chk-1/left-behind"
        open_disk(arguments[0]).create(orphan, [b"x"])
    assert orphan in cli("checkpoint", "prune", arguments[0])
    assert "1 files deleted" in cli("checkpoint", "prune", arguments[0], "--yes")
    assert "nothing is left over" in cli("checkpoint", "prune", arguments[0])
    for place in (arguments[0], snapshot, f"{snapshot}/chk-1"):
        assert f"({job})" in cli("checkpoints", place).splitlines()[0]
    assert cli("savepoint", "delete", moved, "--yes").startswith(f"deleted {moved}: ")
    with storage_options(keys):
        assert list(open_disk(moved).list("")) == []
        assert list(open_disk(sliced).list("")) != []
