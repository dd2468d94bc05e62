"""A program's annotations are what its own file says they are, whoever runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

import headgate as hg

PROGRAM = """
count: int = 0
print(__annotations__["count"])

import headgate as hg

hg.Environment(executor="mini-cluster").from_collection([1]).collect()
"""


@pytest.mark.parametrize(
    ("head", "printed"), [("", "<class 'int'>"), ("from __future__ import annotations\n", "int")]
)
@pytest.mark.parametrize("apart", ["true", "false"])
def test_annotations_are_as_the_program_says(
    head: str, printed: str, apart: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What our own files have from `__future__` does not reach programs."""
    program = tmp_path / "job.py"
    program.write_text(head + PROGRAM)
    hg.run_program(program, options=[f"headgate.user-code.apart={apart}"])
    assert capsys.readouterr().out.splitlines()[0] == printed
