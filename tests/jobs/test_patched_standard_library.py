"""What a program replaces in the standard library is its own affair: what is stored is whole all the same."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from patching_program import PATCHES

from headgate.checkpoint.opening import open_checkpoint

PROGRAM = Path(__file__).with_name("patching_program.py")
QUICK = [("all", "hashmap"), ("freezegun", "hashmap"), ("json.dumps", "hashmap")]
OTHERS = [(what, "hashmap") for what in PATCHES if what != "json.dumps"]
ROCKSDB = [("all", "rocksdb"), ("freezegun", "rocksdb")]


def pairs(cases: list[tuple[str, str]], *marks: pytest.MarkDecorator) -> list[object]:
    """Each as a parameter."""
    return [pytest.param(*case, marks=marks) for case in cases]


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("what", "backend"), [*pairs(QUICK), *pairs([*OTHERS, *ROCKSDB], pytest.mark.ci)])
def test_two_jobs_of_a_program_that_breaks_its_standard_library(
    what: str, backend: str, tmp_path: Path
) -> None:
    """One under way and one that begins then: checkpoints, savepoints, output and who owns it are right."""
    if what == "freezegun":
        pytest.importorskip("freezegun", reason="an environment of before; make setup brings it")
    run = [sys.executable, str(PROGRAM), str(tmp_path), what, backend]
    found = subprocess.run(run, capture_output=True, text=True, timeout=100, check=False)
    assert found.stdout == "both ended\n", found.stderr
    out = tmp_path / "out"
    records = [json.loads(line) for path in out.glob("part-*") for line in path.read_text().splitlines()]
    assert Counter(record["n"] for record in records) == Counter([*range(200), *range(200)])
    assert {record["count"] for record in records if record["key"] == 0} == set(range(1, 30))
    assert not list(out.glob("_pending/*/*"))
    owners = sorted(out.glob("_headgate/*/*"))
    assert [path.name for path in owners] == ["000001.json"] * 2
    for path in owners:
        entry = json.loads(path.read_text())
        assert path.parent.name == f"{entry['job']}+out"
        assert (entry["uid"], entry["lineage"]) == ("out", entry["job"])
    savepoints = sorted((tmp_path / "savepoints").iterdir())
    assert len(savepoints) == 2
    names = {open_checkpoint(str(path), whole=True)[1].job_name for path in savepoints}
    assert names == {"first", "second"}
    assert not list(tmp_path.rglob(".tmp-*"))
