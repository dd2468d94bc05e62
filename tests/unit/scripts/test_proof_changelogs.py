"""The proof's look at changelogs: what they add up to, and rows that are taken back without being there."""

from __future__ import annotations

import doctest
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("duckdb", reason="the proof compares with DuckDB")

from headgate.nexmark import ANSWERS
from proof import nexmark_changes
from proof.nexmark_answers import differences

Change = tuple[str, int, int]
"""Sign, seller and mean: a line of q6's changelog."""
File = tuple[int, int, int]
"""Subtask, its number among those of the subtask, and checkpoint."""


@pytest.fixture
def answer(tmp_path: Path) -> Path:
    """A file that says that q6's answer is two rows of one seller and one of another."""
    path = tmp_path / "q6.parquet"
    pq.write_table(pa.table({"seller": [1, 1, 2], "avg": [5, 5, 7]}, ANSWERS["q6"][1]), path)
    return path


def told(answer: Path, files: dict[File, list[Change]]) -> list[str]:
    """What is said of a changelog in some files."""
    out = answer.parent / "out"
    out.mkdir(exist_ok=True)
    for (subtask, sequence, checkpoint), changes in files.items():
        name = f"part-job+out+{subtask:05d}-1.{checkpoint}-{sequence}-c{checkpoint}.jsonl"
        write(out / name, ({"op": op, "seller": seller, "avg": avg} for op, seller, avg in changes))
    return list(differences("q6", answer, out, answer.parent, changes=True))


def write(path: Path, lines: Iterable[dict[str, Any]]) -> None:
    """A file of JSON lines."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


FIRST: list[Change] = [("+I", 1, 5), ("+I", 2, 6)]
TOO_OFTEN = "1 changes take back a row that is not there, first in what checkpoint"
SECOND: list[Change] = [("+I", 1, 5), ("-U", 2, 6), ("+U", 2, 7)]


def test_changes_that_add_up_to_the_answer_are_right(answer: Path) -> None:
    """Files are read in the order of their checkpoints, not of their names: 10 comes after 9."""
    assert told(answer, {(0, 0, 9): FIRST, (0, 0, 10): SECOND}) == []


def test_pending_files_do_not_count(answer: Path) -> None:
    """As with files of rows."""
    (answer.parent / "out" / "_pending").mkdir(parents=True)
    write(answer.parent / "out" / "_pending" / "part-9.jsonl", [{"op": "+I", "seller": 9, "avg": 9}])
    assert told(answer, {(0, 0, 1): FIRST, (0, 0, 2): SECOND}) == []


def test_a_lost_and_a_repeated_change_are_told(answer: Path) -> None:
    """A row that should have gone is one too many; one that came twice is, too."""
    (lost,) = told(answer, {(0, 0, 1): FIRST, (0, 0, 2): [SECOND[0], SECOND[2]]})
    assert lost == "1 rows too many, such as (2, 6)"
    (twice,) = told(answer, {(0, 0, 2): [*SECOND, ("+I", 1, 5)]})
    assert twice == "1 rows too many, such as (1, 5)"


def test_a_row_that_went_twice_is_told_twice(answer: Path) -> None:
    """It is there less than no time, and was taken back without being there."""
    found = told(answer, {(0, 0, 1): FIRST, (0, 0, 2): [*SECOND, ("-D", 2, 6)]})
    assert found == [
        "1 rows missing, such as (2, 6)",
        f"{TOO_OFTEN} 2 published of subtask 0: (2, 6)",
    ]


def test_a_row_that_goes_before_it_comes_is_told(answer: Path) -> None:
    """In one file, and in two of a subtask, though all adds up."""
    early: list[Change] = [("-D", 1, 5), ("+I", 1, 5)]
    (text,) = told(answer, {(0, 0, 1): [*early, *FIRST], (0, 0, 2): SECOND})
    assert text.startswith(f"{TOO_OFTEN} 1 published")
    (text,) = told(answer, {(0, 0, 1): early[:1], (0, 1, 1): [*early[1:], *FIRST]})
    assert text.endswith("of subtask 0: (1, 5)")


def test_files_of_several_subtasks_have_an_order_by_checkpoints_alone(answer: Path) -> None:
    """What one takes back another may add, in the same checkpoint but not in a later one."""
    moved: list[Change] = [("-U", 2, 6), ("+U", 2, 7), ("+I", 1, 5), ("+I", 1, 5)]
    assert told(answer, {(0, 0, 1): moved, (1, 0, 1): [("+I", 2, 6)]}) == []
    (answer.parent / "out" / "part-job+out+00001-1.1-0-c1.jsonl").unlink()
    (text,) = told(answer, {(1, 0, 2): [("+I", 2, 6)]})
    assert text.startswith(f"{TOO_OFTEN} 1 published")


def test_lines_that_are_no_changes_are_told(answer: Path) -> None:
    """Nothing is made of them."""
    (text,) = told(answer, {(0, 0, 1): [("?", 1, 5)]})
    assert text.startswith("the output cannot be compared: ")
    assert "has the op ?" in text


def test_no_changelog_at_all_is_told(answer: Path) -> None:
    """Every row is missing."""
    (text,) = told(answer, {})
    assert text.startswith("3 rows missing")


def test_types_are_those_of_the_answer(tmp_path: Path) -> None:
    """Times are text in JSON, and numbers with a fraction keep all their bits."""
    row = {"auction": 1, "day": "2015-07-15", "avg_price": 0.1 + 0.2, "min_price": None}
    schema = ANSWERS["q17"][1]
    pq.write_table(pa.Table.from_pylist([row], schema), tmp_path / "q17.parquet")
    out = tmp_path / "out"
    out.mkdir()
    write(out / "part-job+out+00000-1.1-0-c1.jsonl", [{"op": "+I", **row}])
    assert list(differences("q17", tmp_path / "q17.parquet", out, tmp_path, changes=True)) == []


def test_examples_are_true() -> None:
    """Those of the docstrings."""
    assert doctest.testmod(nexmark_changes).failed == 0
