"""The example of changing state: three programs, each restoring what the one before left."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from rich.console import Console

import headgate as hg

FOLDER = Path(__file__).parents[2] / "examples" / "evolve"
FAST = ["--mini", "--events", "3000"]


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The script as a module; its imports are found beside it, as when it is run."""
    monkeypatch.syspath_prepend(str(FOLDER))
    yield importlib.import_module("run")
    for name in ("run", "profiles"):
        del sys.modules[name]


def test_three_versions_go_on_from_each_other(example: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """The result is that of a plain loop; every verdict and every change of a field is shown."""
    assert example.main(FAST) == 0
    shown = capsys.readouterr().out
    for text in (
        "after migration",
        "reconfigured",
        "as is",
        "begins empty",
        "field 'commits' became 'count'",
        "field 'lines': int became float",
        "field 'repo' was added",
        "field 'repo' was removed",
        "field 'count' is as it was",
        "field 'last' was added",
        "all equal",
    ):
        assert text in shown


def test_values_are_found_in_their_new_shape(example: Any, tmp_path: Path) -> None:
    """A restored version knows what the last one left: renamed, widened, with defaults."""
    commits = [
        {"author": f"a{n % 5}", "repo": "r", "author_ms": n, "insertions": n, "deletions": 1, "files": 1}
        for n in range(30)
    ]
    assert example.evolve(tmp_path, commits, mini=True) == 0
    left, found = example.answers(tmp_path, 1, "after"), example.answers(tmp_path, 2, "before")
    assert left["a1"] == {"profile": {"commits": 2, "lines": 7}, "size": "small"}
    assert found["a1"] == {"profile": {"count": 2, "lines": 7.0, "repo": None}, "size": "small"}
    assert isinstance(found["a1"]["profile"]["lines"], float)
    assert example.answers(tmp_path, 2, "after")["a1"]["profile"]["repo"] == "r"
    found = example.answers(tmp_path, 3, "before")
    assert found["a1"]["profile"] == {"count": 4, "lines": 35.0, "last": None}
    assert found["a1"]["most_files"] is None


class Unfit(hg.KeyedProcessFunction[str, Any, Any]):
    """Declares one state as what no stored record can become, and one as another kind."""

    profile: hg.ValueState[list[int] | None] = hg.value_state(default=None)
    size: hg.ListState[Literal["small", "large"]] = hg.list_state()

    def process(self, record: Any, ctx: hg.KeyedContext[str]) -> Iterator[Any]:
        yield self.profile.value


def test_an_incompatible_type_is_shown_before_the_job_refuses_it(example: Any, tmp_path: Path) -> None:
    """Who edits the example reads why in the table, brackets and all."""
    example.write_inputs(tmp_path, [{"author": "a", "insertions": 1}])
    checkpoint = example.run_version(1, tmp_path, None, True)
    table = example.judged(checkpoint, Unfit())
    console = Console(width=200)
    with console.capture() as shown:
        console.print(table)
    assert "incompatible" in shown.get()
    assert "list[int]" in shown.get()
    assert "its kind changed" in shown.get()


def test_a_state_that_is_no_longer_declared_is_shown(example: Any, tmp_path: Path) -> None:
    """Nothing that is stored is left out of the table."""
    example.write_inputs(tmp_path, [{"author": "a", "insertions": 1}])
    checkpoint = example.run_version(1, tmp_path, None, True)
    console = Console(width=200)
    with console.capture() as shown:
        console.print(example.judged(checkpoint, Without()))
    assert shown.get().count("no longer declared") == 2


class Without(hg.KeyedProcessFunction[str, Any, Any]):
    """Declares no state."""

    def process(self, record: Any, ctx: hg.KeyedContext[str]) -> Iterator[Any]:
        yield record


def test_lost_state_is_noticed(
    example: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The script ends with 1 when a version begins from nothing."""
    run = example.run_version
    monkeypatch.setattr(
        example, "run_version", lambda number, folder, _, mini: run(number, folder, None, mini)
    )
    assert example.main(FAST) == 1
    assert "differ, such as" in capsys.readouterr().out
