"""`headgate savepoint migrate` and `headgate check-upgrade` with programs in files, as people use them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import headgate as hg
from headgate.api.jobs.launch import run_program
from headgate.api.jobs.launch_settings import launched
from headgate.checkpoint.opening import open_checkpoint
from headgate.cli.main import app
from headgate.common.errors import UsageError
from headgate.offline.migrating import migrate
from headgate.offline.snapshot_pages import describe_snapshot
from headgate.offline.upgrade import Verdict, check_upgrade

HERE = Path(__file__).parent

OLD = f"""
import sys
sys.path.insert(0, {str(HERE)!r})
from dataclasses import dataclass
import headgate as hg
from headgate.connectors.discard import CountingSink
from mini_jobs import Halting, environment

RECORDS = [("eu" if n % 2 else "us", n % 5) for n in range(200)]

@dataclass
class Stats:
    count: int

class Count(hg.KeyedProcessFunction[tuple[str, int], tuple[str, int], int]):
    stats: hg.ValueState[Stats | None] = hg.value_state(default=None)
    places: hg.ListState[int] = hg.list_state()

    def process(self, record, ctx):
        count = (self.stats.value.count if self.stats.value else 0) + 1
        self.stats.value = Stats(count)
        self.places.add(int(count))
        ctx.timers.register_processing_time(2**50)
        yield count

env = environment(2, {{"restart-strategy.type": "none"}})
env.checkpoints(every="5ms", storage=sys.argv[1])
source = Halting(id(env), int(sys.argv[2]), RECORDS)
counted = env.from_source(source, uid="records").key_by(lambda record: record).process(Count(), uid="count")
counted.sink_to(CountingSink(), uid="out")
env.execute("counts")
"""

NEW = (
    OLD.replace("class Stats:", "class Counted:")
    .replace("@dataclass\n", '@hg.formerly("old.Stats")\n@dataclass\n')
    .replace("Stats | None", "Counted | None")
    .replace("Stats(count)", "Counted(count)")
    .replace("    count: int\n", "    count: float\n    last: str = ''\n")
)

BY_NUMBER = (
    NEW.replace("Function[tuple[str, int], ", "Function[str, ")
    .replace("lambda record: record", "as_text")
    .replace("@hg.formerly", "FUNCTIONS@hg.formerly")
    .replace("FUNCTIONS", "def as_text(key):\n    return f'{key[0]}-{key[1]}'\n\n")
    .replace("@hg.formerly", "def number(key):\n    return key[1]\n\n@hg.formerly")
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The three programs, and the last checkpoint of the old one."""
    folder = tmp_path_factory.mktemp("programs")
    found = {"old": folder / "old.py", "new": folder / "new.py", "text": folder / "by_text.py"}
    for (name, path), text in zip(found.items(), (OLD, NEW, BY_NUMBER), strict=True):
        assert name
        path.write_text(text)
    storage = folder / "checkpoints"
    with pytest.raises(hg.HeadgateError, match="crash in split"):
        run_program(found["old"], [str(storage), "100"])
    metadata = max(storage.rglob("_metadata"), key=lambda file: file.stat().st_mtime)
    return {**found, "snapshot": metadata.parent, "storage": storage}


def goes_on(program: Path, snapshot: str, storage: Path) -> None:
    """The program runs to its end from the snapshot."""
    with launched([], snapshot):
        run_program(program, [str(storage), "200"])


@pytest.mark.ci
def test_migrated_state_is_read_as_it_is(files: dict[str, Path], tmp_path: Path) -> None:
    """What a restore would convert is written so already, and the job goes on from it."""
    arguments = [str(files["storage"]), "200"]
    before = check_upgrade(str(files["snapshot"]), files["new"], arguments)
    assert before.verdict is Verdict.AFTER_MIGRATION
    told: list[str] = []
    made = migrate(
        str(files["snapshot"]),
        str(tmp_path / "new"),
        files["new"],
        arguments,
        progress=lambda what, _done, _of: told.append(what),
    )
    after = check_upgrade(made.uri, files["new"], arguments)
    assert after.verdict is Verdict.AS_IS
    goes_on(files["new"], made.uri, tmp_path / "checkpoints")


def test_g25_keys_change_offline(files: dict[str, Path], tmp_path: Path) -> None:
    """Every state and timer of a key is under its new key, in that key's group; the job goes on."""
    arguments = [str(files["storage"]), "200"]
    snapshot = str(files["snapshot"])
    refused = check_upgrade(snapshot, files["text"], arguments)
    assert refused.verdict is Verdict.INCOMPATIBLE
    new = {"count": "as_text"}
    made = migrate(snapshot, str(tmp_path / "new"), files["text"], arguments, rekey=new, max_parallelism=32)
    assert made.max_parallelism == 32
    after = check_upgrade(made.uri, files["text"], arguments, ["pipeline.max-parallelism=32"])
    assert after.verdict is Verdict.AS_IS
    assert _entries(made.uri) == _entries(snapshot)
    with launched(["pipeline.max-parallelism=32"], made.uri):
        run_program(files["text"], [str(tmp_path / "checkpoints"), "200"])


def _entries(snapshot: str) -> dict[str, Any]:
    operators = {one["uid"]: one for one in describe_snapshot(snapshot)["operators"]}
    return {state["name"]: state["entries"] for state in operators["count"]["states"]}


def test_g25_keys_that_become_one_are_refused(files: dict[str, Path], tmp_path: Path) -> None:
    """Both old keys and the new one are named, and nothing is left behind."""
    arguments = [str(files["storage"]), "200"]
    with pytest.raises(
        UsageError, match=r"the keys \('\w\w', (\d)\) and \('\w\w', \1\) would both become \1"
    ):
        migrate(
            str(files["snapshot"]), str(tmp_path / "new"), files["text"], arguments, rekey={"count": "number"}
        )
    assert not [path for path in (tmp_path / "new").rglob("*") if path.is_file()]


@pytest.mark.ci
@pytest.mark.parametrize(
    ("rekey", "message"),
    [
        ({"cuont": "as_text"}, "'cuont', which is no keyed operator of the program"),
        ({"count": "nothing"}, "the program has no function 'nothing'"),
    ],
)
def test_wrong_new_keys_are_told(
    rekey: dict[str, str], message: str, files: dict[str, Path], tmp_path: Path
) -> None:
    """The operator or the function that is not there."""
    with pytest.raises(UsageError, match=message):
        migrate(
            str(files["snapshot"]),
            str(tmp_path / "new"),
            files["text"],
            [str(files["storage"]), "1"],
            rekey=rekey,
        )


def cli(*arguments: object) -> Any:
    """The command, in this process."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_the_command_tells_and_ends_with_a_code(files: dict[str, Path], tmp_path: Path) -> None:
    """0: it goes on; 1: not; 2: nothing could be judged; 4: with --exact, when values are converted."""
    snapshot, storage = files["snapshot"], files["storage"]
    converted = cli("check-upgrade", snapshot, files["new"], storage, 200)
    assert converted.exit_code == 0, converted.output
    assert "after migration" in converted.output
    assert "last" in converted.output
    assert cli("check-upgrade", "--exact", snapshot, files["new"], storage, 200).exit_code == 4
    wrong = cli("check-upgrade", "--json", snapshot, files["text"], storage, 200)
    assert wrong.exit_code == 1
    facts = json.loads(wrong.output)
    assert (facts["verdict"], facts["restorable"]) == ("incompatible", False)
    assert cli("check-upgrade", tmp_path / "nowhere", files["new"], storage, 200).exit_code == 2


@pytest.mark.ci
def test_the_savepoint_commands(files: dict[str, Path], tmp_path: Path) -> None:
    """Show, reslice as tables, migrate back with other keys; what was written is told."""
    shown = cli("savepoint", "show", files["snapshot"])
    assert shown.exit_code == 0, shown.output
    assert "value[Stats | None]" in shown.output
    form = "--format=canonical"
    sliced = cli("savepoint", "reslice", files["snapshot"], tmp_path / "a", "--max-parallelism", 64, form)
    assert sliced.exit_code == 0, sliced.output
    assert "64 key groups" in sliced.output
    program = files["text"], files["storage"], 200
    migrated = cli(
        "savepoint", "migrate", tmp_path / "a", tmp_path / "b", *program, "--json", "--rekey=count=as_text"
    )
    assert migrated.exit_code == 0, migrated.output
    assert json.loads(migrated.output)["max_parallelism"] == 64
    assert open_checkpoint(str(tmp_path / "b"))[1].format == "canonical"
    assert (
        cli("savepoint", "migrate", tmp_path / "a", tmp_path / "c", files["text"], "--rekey", "x").exit_code
        == 2
    )
