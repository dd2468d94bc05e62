"""``headgate types`` of state that is stored in a format by name: which, why, and what it risks."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from headgate.cli.main import app

PROGRAM = """
from typing import Annotated
import headgate as hg

class Model:
    pass

class Count(hg.KeyedProcessFunction):
    text: hg.ValueState[Annotated[dict, hg.json]] = hg.value_state()
    avro: hg.ListState[Annotated[dict, hg.avro({"type": "map", "values": "long"})]] = hg.list_state()
    model: hg.ValueState[Annotated[Model, hg.pickled] | None] = hg.value_state()
    odd: hg.ValueState[Model] = hg.value_state()

    def process(self, record, ctx):
        yield 1

env = hg.Environment()
env.from_collection(["a"]).key_by(lambda x: x).process(Count(), uid="c").write_json("out", uid="out")
env.execute("formats")
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A program with a state of each format, and one that will be refused."""
    file = tmp_path_factory.mktemp("types") / "formats.py"
    file.write_text(PROGRAM)
    return str(file)


def types(*arguments: str) -> str:
    """What the command prints."""
    ended = CliRunner().invoke(app, ["types", *arguments])
    assert ended.exit_code == 0, ended.output
    return ended.output


def test_formats_are_shown_with_reasons_and_risks(program: str) -> None:
    """The mark as the program writes it, the risk of pickle, and why a type is refused."""
    out = types(program)
    assert "value[Annotated[dict, hg.json]]" in out
    assert "list[Annotated[dict, hg.avro('map')]]" in out
    assert "risk: state 'model' is pickled, so it cannot change its type, runs code when it is read" in out
    assert "refused: state 'odd' is declared as Model: no serializer is known for Model" in out
    states = {row["state"]: row for row in json.loads(types(program, "--json"))["states"]}
    assert {name: row["serializer"] for name, row in states.items()} == {
        "text": ["json"], "avro": ["avro"], "model": ["union"], "odd": None,
    }  # fmt: skip
    assert [name for name, row in states.items() if row["risk"]] == ["model"]
