"""What a restore decides about sources, sinks, lines and claims, check-upgrade says before."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from mini_jobs import environment, json_lines
from running_jobs import Valve, wait_until
from test_check_upgrade_jobs import STOP, WORDS, Old

import headgate as hg
from headgate.checkpoint.opening import open_checkpoint
from headgate.offline.judging import Judgement
from headgate.offline.upgrade import UpgradeReport, Verdict, check_upgrade

SETTINGS = {
    "restart-strategy.type": "none",
    "heartbeat.interval": "10ms",
    "pipeline.max-parallelism": 16,
}


def program(folder: Path, out: str = "out", limit: float = float("inf"), **config: Any) -> hg.Environment:
    """Words from two splits, counted, into files."""
    env = environment(2, {**SETTINGS, **config})
    env.checkpoints(every="1h", storage=str(folder / "checkpoints"))
    words = env.from_source(Valve(id(folder), limit, WORDS, WORDS), uid="words")
    words.key_by(lambda word: word).process(Old(), uid="count").write_json(folder / out, uid="out")
    return env


def judged(snapshot: str, env: hg.Environment) -> UpgradeReport:
    """The report on a program of this process, with its settings."""
    disk, metadata = open_checkpoint(snapshot)
    judge = Judgement(disk, metadata, env.program.nodes(), env.plan("words"), False, env._settings)
    return judge.report(snapshot, "words")


@pytest.fixture
def snapshot(tmp_path: Path) -> str:
    """A savepoint of a program that was cancelled then: all of its output is prepared, and none committed."""
    with program(tmp_path, limit=STOP).execute_async("words") as handle:
        wait_until(lambda: _counted(handle) == 2 * STOP, "all words are counted")
        found = handle.savepoint(str(tmp_path / "savepoints"))
        handle.cancel()
        return found


def _counted(handle: hg.JobHandle) -> int:
    return sum(vertex.records_in for vertex in handle.status().vertices if "count" in vertex.uids)


def refused(snapshot: str, changed: Any, said: str) -> None:
    """Both refuse, in the same words, before anything starts."""
    report = judged(snapshot, changed())
    assert report.verdict is Verdict.INCOMPATIBLE
    assert not report.restorable
    with pytest.raises(hg.UsageError, match=said) as error:
        changed().execute("words", restore_from=snapshot)
    assert str(error.value) in report.refusals


def test_a_sink_that_writes_elsewhere(snapshot: str, tmp_path: Path) -> None:
    """What the snapshot holds as prepared is not in the new place; moved along, the output goes on."""
    refused(snapshot, lambda: program(tmp_path, "other"), "holds as output that may not be published yet")
    assert not (tmp_path / "other").exists()
    shutil.copytree(tmp_path / "out", tmp_path / "other")
    assert judged(snapshot, program(tmp_path, "other")).verdict is Verdict.AS_IS
    program(tmp_path, "other").execute("words", restore_from=snapshot)
    assert len(json_lines(tmp_path / "other")) == 2 * len(WORDS)


def test_a_snapshot_older_than_the_output(snapshot: str, tmp_path: Path) -> None:
    """Once another job has gone on from it, the line refuses a second one; the user's choice lets it."""
    program(tmp_path).execute("words", restore_from=snapshot)
    refused(snapshot, lambda: program(tmp_path), "to begin from it would publish that part twice")
    choice = {"execution.sinks.older-snapshot": "take-back"}
    assert judged(snapshot, program(tmp_path, **choice)).verdict is Verdict.AS_IS
    program(tmp_path, **choice).execute("words", restore_from=snapshot)
    assert len(json_lines(tmp_path / "out")) == 2 * len(WORDS)


def test_a_claim_without_checkpoints(snapshot: str, tmp_path: Path) -> None:
    """Nothing would ever replace the snapshot."""

    def changed() -> hg.Environment:
        return _without_checkpoints(program(tmp_path), {"execution.state-recovery.claim-mode": "CLAIM"})

    refused(snapshot, changed, "is CLAIM, but checkpoints are off")


def _without_checkpoints(env: hg.Environment, config: dict[str, Any]) -> hg.Environment:
    from headgate.common.settings import options as o

    bare = environment(2, {**SETTINGS, **config})
    bare.program = env.program
    assert not bare._settings.is_set(o.CHECKPOINTING_INTERVAL)
    return bare


def test_the_key_groups_of_the_snapshot_are_taken_up(snapshot: str, tmp_path: Path) -> None:
    """A program that names no number has the snapshot's, in the check as at the restore."""

    def unnamed(parallelism: int) -> hg.Environment:
        env = environment(parallelism, {"restart-strategy.type": "none"})
        env.checkpoints(every="1h", storage=str(tmp_path / "checkpoints"))
        words = env.from_source(Valve(id(env), float("inf"), WORDS, WORDS), uid="words")
        words.key_by(lambda word: word).process(Old(), uid="count").write_json(tmp_path / "out", uid="out")
        return env

    assert judged(snapshot, unnamed(2)).verdict is Verdict.AS_IS
    refused(snapshot, lambda: unnamed(17), "has 16 key groups, and parallelism 17 needs as many")
    unnamed(2).execute("words", restore_from=snapshot)


def test_a_directory_that_must_be_new(snapshot: str, tmp_path: Path) -> None:
    """What a sink looks at before a start, it looks at before an upgrade."""

    def changed() -> hg.Environment:
        env = environment(2, SETTINGS)
        env.checkpoints(every="1h", storage=str(tmp_path / "checkpoints"))
        words = env.from_source(Valve(id(env), float("inf"), WORDS, WORDS), uid="words")
        counted = words.key_by(lambda word: word).process(Old(), uid="count")
        counted.write_json(tmp_path / "out", uid="out", if_exists="refuse")
        return env

    (tmp_path / "out" / "part-of-another.jsonl").touch()
    report = judged(snapshot, changed())
    assert not report.restorable
    with pytest.raises(hg.UsageError, match="empty it, choose another, or use if_exists"):
        changed().execute("words", restore_from=snapshot)


PROGRAM = """
import sys
import headgate as hg
from headgate.testing.mini_cluster import MiniCluster

class Count(hg.KeyedProcessFunction[str, str, tuple[str, int]]):
    count: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record, ctx):
        self.count.value += 1
        yield record, self.count.value

env = hg.Environment(2, executor=MiniCluster()).checkpoints("5ms", storage=sys.argv[1])
words = env.from_collection([str(n % 7) for n in range(2000)], uid="words")
words.key_by(lambda word: word).process(Count(), uid="count").write_json(sys.argv[2], uid="out")
env.execute("counts")
"""


def test_the_command_says_so_too(tmp_path: Path) -> None:
    """The same through the command's own process, with the settings given to it."""
    from headgate.api.jobs import launch

    (tmp_path / "job.py").write_text(PROGRAM)
    arguments = [str(tmp_path / "checkpoints"), str(tmp_path / "out")]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("sys.argv", ["job.py"])
        launch.run_program(str(tmp_path / "job.py"), arguments)
    newest = str(next((tmp_path / "checkpoints").glob("counts-*")))
    report = check_upgrade(newest, tmp_path / "job.py", arguments)
    assert report.restorable
    moved = check_upgrade(newest, tmp_path / "job.py", [arguments[0], str(tmp_path / "elsewhere")])
    assert not moved.restorable
    assert re.search("writes to '.*elsewhere', and '_pending.*is not there", moved.refusals[0])
    wrong = check_upgrade(
        newest, tmp_path / "job.py", arguments, ["execution.sinks.older-snapshot=take-back"]
    )
    assert wrong.restorable
