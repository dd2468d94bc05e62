"""What `docs/extending.md` and `docs/concepts.md` show: a program, source, sink, serializer and command."""

from __future__ import annotations

import importlib
import json
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.testing import CliRunner

import headgate as hg
from headgate.cli.main import app
from headgate.testing import MiniCluster
from headgate.testing.suites import SerializerSuite

DOCS = Path(__file__).resolve().parents[2] / "docs"
FAILED: list[int] = []


def code_of(name: str) -> str:
    """An example of the page."""
    page = (DOCS / "extending.md").read_text(encoding="utf-8")
    code = page.partition(f"```python {name}\n")[2].partition("```")[0]
    assert code, name
    return code


def shown(name: str) -> dict[str, Any]:
    """The names that an example of the page makes."""
    code = code_of(name)
    scope: dict[str, Any] = {"__name__": "docs_extending"}
    exec(compile(code, f"docs/extending.md, {name}", "exec", dont_inherit=True), scope)
    return scope


def failing_once(number: int) -> int:
    """Raises in the middle of the first attempt."""
    time.sleep(0.0005)
    if number == 500 and not FAILED:
        FAILED.append(number)
        raise ValueError("in the middle")
    return number


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_source_of_ones_own(parallelism: int, tmp_path: Path) -> None:
    """Each number comes once, also when the job goes on from a checkpoint."""
    FAILED.clear()
    env = hg.Environment(parallelism=parallelism, executor=MiniCluster())
    env.config("restart-strategy.type", "fixed-delay").config("restart-strategy.fixed-delay.delay", "1ms")
    env.checkpoints("20ms", storage=tmp_path / "checkpoints")
    numbers = env.from_source(shown("source")["Countdown"](2_000), uid="countdown")
    out = numbers.map(failing_once).rebalance().collect_later()
    result = env.execute()
    assert sorted(out.records) == list(range(1, 2_001))
    assert result.restarts == 1


def test_a_sink_of_ones_own(tmp_path: Path) -> None:
    """Every line is there, in a file for each subtask."""
    env = hg.Environment(parallelism=2, executor=MiniCluster())
    words = env.from_collection([f"word{n}" for n in range(50)])
    words.sink_to(shown("sink")["Lines"](str(tmp_path / "out")), uid="lines")
    env.execute()
    lines = [line for file in tmp_path.glob("out-*") for line in file.read_text().splitlines()]
    assert sorted(lines) == sorted(f"word{n}" for n in range(50))


@pytest.fixture(scope="module")
def serializers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """The page's serializer in a file on the import path, where the page says that it must be."""
    folder = tmp_path_factory.mktemp("importable")
    (folder / "docs_serializer.py").write_text(code_of("serializer"))
    sys.path.insert(0, str(folder))
    yield importlib.import_module("docs_serializer")
    sys.path.remove(str(folder))
    del sys.modules["docs_serializer"]


class TestText(SerializerSuite):
    """The serializer of the page passes the suite that every serializer should pass."""

    @pytest.fixture(autouse=True)
    def _page(self, serializers: ModuleType) -> None:
        self.page = serializers

    def serializer(self) -> Any:
        """A new one each time."""
        return self.page.Text()

    def values(self) -> list[str]:
        """Short, long, and beyond two bytes a character."""
        return ["", "tea", "x" * 300, "\N{HOT BEVERAGE}\N{GRINNING FACE}"]


def test_a_serializer_of_ones_own(serializers: ModuleType) -> None:
    """State goes through it."""
    env = hg.Environment(parallelism=1, executor=MiniCluster())
    words = env.from_collection(["tea", "milk", "tea"]).key_by(lambda word: 1)
    assert words.process(serializers.Last(), uid="last").collect() == ["", "tea", "milk"]


def test_a_command_of_ones_own() -> None:
    """It is there, with its help and its limits."""
    commands = list(app.registered_commands)
    try:
        shown("command")
        ran = CliRunner().invoke(app, ["subtasks", "--parallelism", "3"])
        assert (ran.exit_code, ran.output) == (0, "3 subtasks\n")
        assert CliRunner().invoke(app, ["subtasks", "--parallelism", "0"]).exit_code == 2
        assert "Print how many subtasks an operator has" in CliRunner().invoke(app, ["--help"]).output
    finally:
        app.registered_commands[:] = commands


def test_the_program_of_the_concepts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Word by word, on the mini cluster."""
    page = (DOCS / "concepts.md").read_text(encoding="utf-8")
    found = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    assert found is not None
    monkeypatch.chdir(tmp_path)
    code = found[1].replace("parallelism=2", "parallelism=2, executor='mini-cluster'")
    exec(compile(code, "docs/concepts.md", "exec", dont_inherit=True), {"__name__": "docs_concepts"})
    rows = [json.loads(line) for file in Path("out").glob("part-*") for line in file.read_text().splitlines()]
    told = sorted((row["word"], row["seen"]) for row in rows)
    assert told == [("milk", 1), ("tea", 1), ("tea", 2)]
