"""The proof's runs of Nexmark: which there are, and that a wrong output is told apart from a right one."""

from __future__ import annotations

import doctest
import itertools
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("duckdb", reason="the answers are DuckDB's")

from headgate.nexmark import Dataset, NexmarkSettings, generate_files
from headgate.nexmark.queries import QUERIES
from proof import nexmark, nexmark_plans, nexmark_runs, pairwise
from proof.nexmark_answers import Answers, differences
from proof.watcher import Listener, Watcher


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """A few events."""
    return generate_files(tmp_path_factory.mktemp("events") / "d", NexmarkSettings(seed=3), 5_000, files=2)


@pytest.fixture
def answer(dataset: Dataset, tmp_path: Path) -> Path:
    """The file with the answer of q2."""
    (tmp_path / "answers").mkdir()
    return Answers(dataset, tmp_path / "answers").of("q2")


def told(answer: Path, rows: pa.Table, folder: Path) -> list[str]:
    """What is said of an output in two files."""
    out, scratch = folder / "out", folder / "scratch"
    out.mkdir()
    scratch.mkdir()
    half = rows.num_rows // 2
    for number, part in enumerate((rows.slice(half), rows.slice(0, half))):
        pq.write_table(part, out / f"part-{number}.parquet")
    (out / "_pending").mkdir()
    pq.write_table(rows, out / "_pending" / "part-9.parquet")
    return list(differences("q2", answer, out, scratch))


def test_the_answer_in_another_order_is_right(answer: Path, tmp_path: Path) -> None:
    """Files that are not published do not count."""
    assert told(answer, pq.read_table(answer), tmp_path) == []


def test_a_row_that_is_there_twice_is_told(answer: Path, tmp_path: Path) -> None:
    """Rows are counted, not only looked for."""
    right = pq.read_table(answer)
    doubled = pa.concat_tables([right, right.slice(0, 1)])
    assert [text.partition(",")[0] for text in told(answer, doubled, tmp_path)] == ["1 rows too many"]


def test_missing_rows_are_told(answer: Path, tmp_path: Path) -> None:
    """With some of them."""
    right = pq.read_table(answer)
    first = right.slice(0, 1).to_pylist()[0]
    (text,) = told(answer, right.slice(1), tmp_path)
    assert text.startswith("1 rows missing, such as")
    assert str(first["auction"]) in text


def test_another_value_is_a_row_missing_and_one_too_many(answer: Path, tmp_path: Path) -> None:
    """Though the number of rows is right."""
    right = pq.read_table(answer)
    prices = right["price"].to_pylist()
    wrong = right.set_column(1, "price", pa.array([prices[0] + 1, *prices[1:]]))
    assert [text.partition(",")[0] for text in told(answer, wrong, tmp_path)] == [
        "1 rows missing",
        "1 rows too many",
    ]


def test_no_output_at_all_is_told(answer: Path, tmp_path: Path) -> None:
    """Every row is missing."""
    (tmp_path / "out").mkdir()
    (text,) = differences("q2", answer, tmp_path / "out", tmp_path)
    assert text.startswith(f"{pq.read_metadata(answer).num_rows:,} rows missing")


@pytest.mark.parametrize("seed", [0, 7])
def test_every_two_values_meet(seed: int) -> None:
    """In about three runs for each query, each with a kill at some share of the input."""
    runs = nexmark.plans(seed)
    factors: dict[str, Sequence[object]] = {
        "query": list(QUERIES),
        "parallelism": [1, 2, 4],
        "backend": ["hashmap", "rocksdb", "rocksdb, incremental"],
        "mode": ["aligned", "unaligned"],
        "rescale": ["none", "up", "down"],
    }
    values = [{name: getattr(run, name) for name in factors} for run in runs]
    sizes = map(len, factors.values())
    wanted = sum(one * other for one, other in itertools.combinations(sizes, 2))
    assert len(set().union(*map(pairwise.pairs_of, values))) == wanted
    assert len(runs) <= 3 * len(QUERIES) + 6
    assert all(run.kills[0].share is not None for run in runs)
    assert nexmark.plans(seed) == runs


@pytest.mark.parametrize("seed", range(5))
def test_the_smoke_form_has_runs_of_the_whole(seed: int) -> None:
    """So that a name and a seed mean the same run in both; one writes a changelog while it is rescaled."""
    smoke = nexmark.plans(seed, smoke=True)
    assert set(smoke) <= set(nexmark.plans(seed))
    assert {"q9": "up"}.items() <= {run.query: run.rescale for run in smoke}.items()


def test_a_rescaled_run_begins_at_one_width_and_goes_on_at_the_other() -> None:
    """Its parallelism is the smaller of the two; its settings are those of its kind of checkpoint."""
    plan = nexmark_plans.NexmarkPlan("run 1", 5, "q9", 4, "rocksdb, incremental", "unaligned", ())
    assert plan.widths == [4]
    assert replace(plan, rescale="up").widths == [4, 6]
    assert replace(plan, rescale="down").widths == [6, 4]
    assert plan.config["execution.checkpointing.incremental"] is True
    assert "parallelism 6 -> 4 at " in replace(plan, rescale="down").text


def test_workers_that_a_rescale_dismisses_need_not_end() -> None:
    """Those beside a lost one must, also if it was lost during a rescale."""
    watcher = Watcher()
    listener = Listener(watcher.note, lambda checkpoint: None)
    for gang, pids, then in [(1, [10, 11], "rescaled"), (2, [11, 12], "failed"), (3, [13], "rescaled")]:
        listener.gang_submitted(gang, len(pids))
        for slot, pid in enumerate(pids):
            listener.worker_registered(slot, pid, "here")
        watcher.note(then)
    watcher.note("failed")
    watcher.note("rescaled")
    listener.gang_submitted(4, 1)
    assert nexmark_runs.replaced_workers(watcher.events) == {11, 12, 13}


def test_a_design_of_one_factor_has_no_pairs() -> None:
    """And one of two has all combinations."""
    assert pairwise.covering({"a": [1, 2]}, random.Random(0)) == []
    assert len(pairwise.covering({"a": [1, 2], "b": [3, 4, 5]}, random.Random(0))) == 6


@pytest.mark.parametrize("module", [pairwise, nexmark, nexmark_plans])
def test_examples_are_true(module: object) -> None:
    """Those of the docstrings."""
    assert doctest.testmod(module).failed == 0  # type: ignore[arg-type]
