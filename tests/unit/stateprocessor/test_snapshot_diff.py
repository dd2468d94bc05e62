"""What differs between two snapshots is told by key, whatever form, backend and key groups they have."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from savepoint_bench import SavepointBench

from headgate.cli.main import app
from headgate.common.errors import UsageError
from headgate.offline.migrating import reslice
from headgate.stateprocessor.diff import Sample, StateDifference, compare

typer_testing = pytest.importorskip("typer.testing")

CHANGED = {"changed": 2, "added": 3, "removed": 1}


def two_savepoints(root: Path, kind: str, first: str, second: str) -> tuple[str, str]:
    """Of keys 1 to 20; then two have another count, three are new, and the state of one is gone."""
    bench = SavepointBench(root, kind)
    bench.fill(range(1, 21))
    before = bench.savepoint(first, 1, "before")
    for key in (3, 4):
        of_key = bench.of(key)
        of_key.handles["count"].value = -key
        of_key.store()
    for key in (101, 102, 103):
        of_key = bench.of(key)
        of_key.handles["count"].value = key
        of_key.store()
    gone = bench.of(20)
    gone.handles["count"].clear()
    gone.store()
    gone.event_timers.register(777, 20)
    after = bench.savepoint(second, 2, "after")
    bench.close()
    return str(before), str(after)


def by_state(found: list[StateDifference]) -> dict[str, StateDifference]:
    """Differences by name of the state."""
    return {one.state: one for one in found}


def counts(one: StateDifference) -> dict[str, int]:
    """How many keys of each kind of change."""
    return {"changed": one.changed, "added": one.added, "removed": one.removed}


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [
        ("heap", "canonical", "native"),
        ("rocksdb", "native", "canonical"),
        ("changelog-heap", "native", "native"),
    ],
)
def test_keys_are_told_by_what_became_of_them(tmp_path: Path, kind: str, first: str, second: str) -> None:
    """Both forms and backends hold the same; nothing else differs, and samples are as many as asked for."""
    before, after = two_savepoints(tmp_path, kind, first, second)
    found = by_state(compare(before, after, samples=2))
    assert counts(found["count"]) == CHANGED
    assert found["count"].same == 17
    samples = found["count"].samples
    assert {(one.key, one.before, one.after) for one in samples if one.change == "changed"} == {
        ("3", 3, -3),
        ("4", 4, -4),
    }
    assert [one for one in samples if one.change == "removed"] == [Sample("removed", "20", 20, None)]
    assert sum(one.change == "added" for one in samples) == 2
    assert found["timers:event"].added == 1
    assert found["timers:event"].samples == [Sample("added", "(20, 777)", None, None)]
    others = [one for name, one in found.items() if name not in ("count", "timers:event")]
    assert {one.state for one in others} >= {"seen", "sizes", "most", "short", "timers:processing"}
    assert not any(one.differs for one in others)
    assert not any("#" in name for name in found)


def test_another_number_of_key_groups_is_no_difference(tmp_path: Path) -> None:
    """The same state with other key groups is the same; the other direction of a change is its mirror."""
    before, after = two_savepoints(tmp_path, "heap", "canonical", "canonical")
    wider = reslice(before, str(tmp_path / "wider"), 40).uri
    assert not any(one.differs for one in compare(before, wider))
    mirrored = by_state(compare(after, wider, "op/count"))
    assert counts(mirrored["count"]) == {"changed": 2, "added": 1, "removed": 3}
    assert list(mirrored) == ["count"]


def test_what_neither_has_is_refused(tmp_path: Path) -> None:
    """A state that was misspelt is no state without differences."""
    before, after = two_savepoints(tmp_path, "heap", "canonical", "canonical")
    with pytest.raises(
        UsageError, match="neither snapshot has keyed state 'op/cuont'; they have operators op"
    ):
        compare(before, after, "op/cuont")


def test_the_command_tells_people_and_machines(tmp_path: Path) -> None:
    """A line for each state with samples below it; JSON says the same."""
    before, after = two_savepoints(tmp_path, "heap", "canonical", "canonical")
    run = typer_testing.CliRunner().invoke
    shown = run(app, ["savepoint", "diff", before, after, "--samples", "1"])
    assert shown.exit_code == 0, shown.output
    assert "op/count  value[int]: 2 changed, 3 added, 1 removed, 17 the same" in shown.output
    assert "  - 20: 20\n" in shown.output
    assert "op/seen  list[str]: 0 changed, 0 added, 0 removed, 20 the same" in shown.output
    facts = json.loads(run(app, ["savepoint", "diff", before, after, "--json", "--state", "op"]).stdout)
    assert facts["same"] is False
    (count,) = [one for one in facts["states"] if one["state"] == "count"]
    assert {name: count[name] for name in CHANGED} == CHANGED
    same = run(app, ["savepoint", "diff", before, before])
    assert same.output.splitlines()[-1] == "the keyed state of both is the same"
