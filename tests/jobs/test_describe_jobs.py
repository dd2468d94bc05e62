"""`headgate savepoint describe`: types of keys, and some keys of each state, of each kind of snapshot."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from key_programs import HALF, Program, silent, stopped, without_types
from typer.testing import CliRunner

import headgate as hg
from headgate.cli.main import app
from headgate.state.stored import heads


class Everything(hg.KeyedProcessFunction[Any, Any, Any]):
    """A value for some keys, a map with many entries for all, one state without entries, and timers."""

    odd: hg.ValueState[int] = hg.value_state(default=0)
    seen: hg.MapState[int, int] = hg.map_state()
    never: hg.ListState[int] = hg.list_state()

    def process(self, record: Any, ctx: Any) -> Iterator[Any]:
        if record % 2:
            self.odd.value = record
            ctx.timers.register_processing_time(2**50)
        for n in range(30):
            self.seen.put(n, record)
        yield record


def by_twelve(n: int) -> str:
    """Twelve keys, all of which the first half has."""
    return f"user {n % 12:02}"


def told(snapshot: str, *options: str) -> dict[str, Any]:
    """What the command says of the operator."""
    done = CliRunner().invoke(app, ["savepoint", "describe", snapshot, "--json", *options])
    assert done.exit_code == 0, done.output
    facts = json.loads(done.output)
    (operator,) = [operator for operator in facts["operators"] if operator["uid"] == "count"]
    return dict(operator)


ALL = {repr(by_twelve(n)) for n in range(12)}
ODD = {repr(by_twelve(n)) for n in range(1, 12, 2)}
EACH = [
    ("heap", "canonical"),
    ("incremental", "native"),
    pytest.param("heap", "native", marks=pytest.mark.ci),
    pytest.param("rocksdb", "canonical", marks=pytest.mark.ci),
    pytest.param("changelog", "native", marks=pytest.mark.ci),
]


@pytest.mark.parametrize(("backend", "form"), EACH)
def test_the_keys_of_each_state_are_shown(backend: str, form: str, tmp_path: Path) -> None:
    """Up to ten of each, each once, of all subtasks; those of timers, too."""
    snapshot = stopped(Program(Everything, by_twelve, backend=backend), tmp_path, form)
    operator = told(snapshot, "--keys", str(HALF))
    keys = {state["name"]: state["keys"] for state in operator["states"] if "keys" in state}
    assert operator["key_types"] == ["str"]
    assert operator["keys_read"]
    assert sorted(keys["seen"]) == sorted(ALL)
    assert sorted(keys["odd"]) == sorted(keys["timers:processing"]) == sorted(ODD)
    assert not keys.get("never")
    few = {state["name"]: state.get("keys") for state in told(without_types(snapshot))["states"]}
    assert len(few["seen"] or []) == len(set(few["seen"] or ())) == 10


def test_the_page_for_people_names_types_and_keys(tmp_path: Path) -> None:
    """A line for each state, below what `show` says."""
    snapshot = stopped(Program(Everything, silent(lambda n: (n % 3, "x"))), tmp_path)
    done = CliRunner().invoke(app, ["savepoint", "describe", snapshot, "--keys", "2"])
    assert done.exit_code == 0, done.output
    assert "keys of 'count': tuple[int, str]\n" in done.output
    (line,) = [line for line in done.output.splitlines() if line.startswith("  seen: ")]
    assert line.count("'x')") == 2
    assert "savepoint (canonical)" in done.output


def test_files_that_are_too_large_are_not_fetched_for_their_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The types are known all the same, and the page says what is missing."""
    snapshot = stopped(Program(Everything, by_twelve, backend="incremental"), tmp_path, "native")
    monkeypatch.setattr(heads, "NATIVE_BYTES_READ", 10)
    operator = told(snapshot)
    assert (operator["keys_read"], operator["key_types"]) == (False, ["str"])
    done = CliRunner().invoke(app, ["savepoint", "describe", snapshot])
    assert "too large to be fetched" in done.output
