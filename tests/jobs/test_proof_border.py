"""What the proof asks of jobs with Spark at both ends finds what it is there to find."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headgate.checkpoint.service import CheckpointService
from headgate.checkpoint.storage.local import LocalDisk
from headgate.common.format_config import fingerprint
from headgate.common.ids import CheckpointId, JobId
from headgate.connectors.dataframe import to_spark_journal as j
from headgate.connectors.dataframe.stream_position import Position, QueryEpoch
from headgate.connectors.dataframe.to_spark_log import Log
from headgate.state.snapshots import CheckpointMetadata
from proof import border_checks as border
from proof import plans
from proof.border import DRIVER, EXECUTOR, FEEDER, KILLS, ON_CLUSTER, WORKER, Border, _executor_of
from proof.job import Place, batch_answer
from proof.modes import MODES
from proof.record import FaultResult, RunResult, summary
from proof.relays import look
from proof.standalone import EXECUTOR_CLASS

COMMITS = [
    {"author": "ann", "author_ms": 1, "insertions": 5},
    {"author": "ann", "author_ms": 2, "insertions": 7},
    {"author": "bob", "author_ms": 3, "insertions": 1},
]
ANSWER = border.counts_of(batch_answer(COMMITS))
EPOCHS = {6: [("ann", 1)], 9: [("ann", 2), ("bob", 1)]}
"""What a job writes that did everything right; some numbers are left out."""

LINE = "border-1"
ORIGIN = j.Origin(LINE, 1, 1, 6)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """An empty run."""
    return Place(tmp_path, tmp_path / "data")


def publish(
    place: Place, epochs: dict[int, list[tuple[str, int]]], line: str = LINE, sink: str = "table"
) -> None:
    """Write a table as the writer of Parquet does."""
    for number, rows in epochs.items():
        folder = place.out / f"_lineage={line}" / f"_sink={sink}" / f"_epoch={number}"
        folder.mkdir(parents=True)
        authors, counts = zip(*rows, strict=True) if rows else ((), ())
        table = pa.table({"author": pa.array(authors, pa.string()), "count": pa.array(counts, pa.int64())})
        pq.write_table(table, folder / "part-0.parquet")


def said(place: Place) -> list[str]:
    """What the checks of a finished table find."""
    table = border.published(place.out)
    return [*border.compare(ANSWER, table.rows, "the table"), *border.check_epochs(table.epochs)]


def test_the_right_table_passes(place: Place) -> None:
    """Whatever the epochs are called; what tries have left is not in the table."""
    publish(place, EPOCHS)
    attempt = place.out / "_attempts" / f"{LINE}+table" / "9-1-3f"
    attempt.mkdir(parents=True)
    (attempt / "part-0.parquet").write_bytes(b"half written")
    assert border.published(place.out).numbers == {6, 9}
    assert said(place) == []


@pytest.mark.parametrize(
    ("epochs", "wrong"),
    [
        ({}, ["3 lines missing", "0 lines instead of one"]),
        ({6: EPOCHS[6]}, ["2 lines missing"]),
        ({6: EPOCHS[6], 9: EPOCHS[9], 11: EPOCHS[9]}, ["2 lines too many"]),
        ({6: EPOCHS[6], 9: [("ann", 2), ("ann", 2)]}, ["1 lines missing", "1 lines too many"]),
        ({6: EPOCHS[6], 9: [("ann", 2), ("bob", 2)]}, ["1 lines missing", "1 lines too many"]),
    ],
    ids=["nothing", "lost", "an epoch twice", "as many rows", "another count"],
)
def test_a_wrong_table_is_found(place: Place, epochs: Any, wrong: list[str]) -> None:
    """Also where the number of rows is right."""
    publish(place, epochs)
    found = said(place)
    assert len(found) == len(wrong)
    assert all(text in sentence for text, sentence in zip(wrong, found, strict=True))


def test_an_epoch_of_another_line_is_found(place: Place) -> None:
    """A driver that did not find its job has begun another one, which counts from the beginning."""
    publish(place, {6: EPOCHS[6]})
    publish(place, {9: EPOCHS[9]}, line="border-2")
    assert "2 lines instead of one" in str(said(place))


def test_an_epoch_that_is_there_twice_is_found(place: Place) -> None:
    """By its number, although each has other rows."""
    publish(place, {9: EPOCHS[6]}, sink="other")
    publish(place, {9: EPOCHS[9]})
    assert said(place) == ["epochs were published twice: [9]"]


def test_a_table_that_grows_may_lack_rows_and_have_none_too_many(place: Place) -> None:
    """So it is looked at behind each kill."""
    publish(place, {6: EPOCHS[6]})
    assert list(border.not_too_many(ANSWER, border.published(place.out).rows, "it")) == []
    publish(place, {7: EPOCHS[6]})
    assert "1 lines too many" in str(
        list(border.not_too_many(ANSWER, border.published(place.out).rows, "it"))
    )


def write_journal(place: Place, *epochs: int, open_epoch: int | None = None, line: str = LINE) -> None:
    """As the committer does."""
    log = Log(place.storage / border.TO_SPARK / "journal" / f"{line}+table")
    assert log.append(j.Owner(LINE, 1))
    for number in (*epochs, *([] if open_epoch is None else [open_epoch])):
        origin = msgspec.structs.replace(ORIGIN, checkpoint=number)
        assert log.append(j.Begun(number, origin, [f"part-{number}"], []))
        if number != open_epoch:
            assert log.append(j.Written(number))


@pytest.mark.parametrize(
    ("before", "open_epoch", "there", "over", "wrong"),
    [
        ([6], None, {6, 9}, True, ""),
        ([], 11, {6, 9}, False, ""),
        ([], 11, {6, 9, 11}, False, ""),
        ([], None, {6}, False, r"\[9\] were committed and are not in the table"),
        (
            [3],
            None,
            {6, 9},
            False,
            r"\[3\] were committed and are not in the table.*does not know them any more",
        ),
        ([], None, {6, 9, 11}, False, r"\[11\] are in the table and the journal does not know them"),
        ([], 11, {6, 9, 11}, True, "11 was begun and never finished"),
    ],
    ids=["all", "about to write", "may be written", "lost", "lost by both", "stray", "open at the end"],
)
def test_committed_epochs_are_in_the_table(
    place: Place, before: list[int], open_epoch: int | None, there: set[int], over: bool, wrong: str
) -> None:
    """And nothing is in it that was not begun."""
    write_journal(place, 6, 9, open_epoch=open_epoch)
    kept, unreadable = border.journal(place.storage)
    assert (unreadable, border.committed(kept)) == ([], {6, 9})
    found = str(list(border.check_journal(before, kept, there, over=over)))
    assert (found == "[]") == (not wrong)
    assert re.search(wrong, found)


def test_a_journal_that_cannot_be_told_is_found(place: Place) -> None:
    """None at all is no fault: nothing was begun yet."""
    assert border.journal(place.storage) == (j.State(), [])
    write_journal(place, 6)
    write_journal(place, 6, line="border-2")
    assert "2 journals instead of one" in str(border.journal(place.storage)[1])
    entries = place.storage.glob(f"{border.TO_SPARK}/journal/*/0000000002.json")
    for entry in entries:
        entry.write_bytes(entry.read_bytes().replace(b"6", b"7"))
    assert "cannot be read" in str(border.journal(place.storage)[1])


def complete(storage: Path, epoch: int) -> None:
    """A checkpoint that holds a query at an epoch."""
    service = CheckpointService(LocalDisk(storage), JobId(LINE))
    permit = service.claim()
    position = Position(QueryEpoch("line", "query", epoch), {"metadata": b""})
    content = CheckpointMetadata(
        job=LINE,
        job_name="border",
        checkpoint=CheckpointId(7),
        generation=permit.generation,
        attempt=1,
        trigger_ms=0,
        max_parallelism=128,
        format_fingerprint=fingerprint(),
        parallelism={},
        operators={},
        enumerators={"commits": position.to_plain()},
        state_types={},
    )
    service.store(permit, content)


def test_the_source_is_where_the_newest_checkpoint_says(place: Place) -> None:
    """Without a checkpoint it is nowhere."""
    wrong: list[str] = []
    assert border.source_epoch(place.storage, look(place.storage, wrong)) is None
    complete(place.storage, 23)
    assert border.source_epoch(place.storage, look(place.storage, wrong)) == 23
    assert wrong == []


@pytest.mark.parametrize(
    ("before", "now", "wrong"),
    [
        (None, None, ""),
        (None, 0, ""),
        (4, 4, ""),
        (4, 23, ""),
        (4, 3, "before held the source at epoch 4"),
        (4, None, "the newest holds it at None"),
        (4, 24, "its last one is 23 at most"),
    ],
)
def test_a_source_that_goes_back_or_too_far_is_found(before: int | None, now: int | None, wrong: str) -> None:
    """An epoch of Spark's that no checkpoint holds any more is lost."""
    found = list(border.check_source(before, now, 23))
    assert len(found) == bool(wrong)
    assert wrong in str(found)


@pytest.mark.parametrize(
    "left",
    [
        "out/_attempts/a+table/9-1-3f",
        "checkpoints/.headgate-to-spark/_pending/a/part-0",
        "checkpoints/.headgate-staging",
    ],
)
def test_leftovers_are_found(place: Place, left: str) -> None:
    """Tries of epochs, and rows that still wait at one of the ends."""
    assert list(border.check_tidy(place)) == []
    path = place.root / left
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    assert path.name in str(list(border.check_tidy(place)))


def test_the_executor_of_a_worker_is_the_jvm_above_it() -> None:
    """One that has none, and one that is gone."""
    child = "import time; print(flush=True); time.sleep(60)"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    with subprocess.Popen([sys.executable, "-c", code, EXECUTOR_CLASS], stdout=subprocess.PIPE) as executor:
        assert executor.stdout is not None
        executor.stdout.readline()
        (worker,) = psutil.Process(executor.pid).children()
        assert _executor_of(worker.pid) == executor.pid
        worker.kill()
        executor.kill()
    assert _executor_of(worker.pid) is None
    assert _executor_of(psutil.Process().pid) is None


def borders(runs: list[plans.AnyPlan]) -> list[Border]:
    """Those of a plan."""
    return [run for run in runs if isinstance(run, Border)]


@pytest.mark.parametrize("seed", range(3))
def test_every_kind_is_killed_at_every_place(seed: int) -> None:
    """In each mode on local Spark, and executors on a cluster."""
    runs = borders(plans.full(seed))
    here = [run for run in runs if not run.on_cluster]
    assert sum(len(run.kills) for run in here) >= 33
    assert {run.mode for run in here} == set(MODES)
    assert all(Counter(run.kills) == Counter(KILLS) for run in here)
    assert [Counter(run.kills) for run in runs if run.on_cluster] == [Counter(ON_CLUSTER)]
    assert {kill.what for kill in ON_CLUSTER} == {WORKER, EXECUTOR, FEEDER, DRIVER}
    # Each kill takes up to two epochs, and the last one must find some left.
    assert all(run.epochs > 2 * len(run.kills) for run in [*runs, *borders(plans.smoke(seed))])
    alone = plans.full(seed, "i")
    assert borders(alone) == alone != []
    assert borders(plans.full(seed, "a")) == []


@pytest.mark.parametrize("seed", range(3))
def test_the_smoke_form_kills_one_of_each_kind(seed: int) -> None:
    """The seed says where the driver dies."""
    kills = [kill.what for run in borders(plans.smoke(seed)) for kill in run.kills]
    assert sorted(kills) == sorted([WORKER, FEEDER, DRIVER, EXECUTOR])
    assert all(run.on_cluster for run in borders(plans.smoke(seed)) if run.kills[0].what == EXECUTOR)


def test_a_kill_that_did_not_strike_is_missed() -> None:
    """A run that ended early proves less than it claims; it is no fault that could be repeated alone."""
    planned = borders(plans.smoke(1))
    told = str(plans.shortfall(planned, []))
    assert all(name in told for plan in planned for name in plan.fault_names)
    assert plans.repeat(planned, [], 1) == []
    struck = [
        RunResult(
            plan.name, 1, [2], 0, plan.mode.name, [FaultResult(name, "i", True) for name in plan.fault_names]
        )
        for plan in planned
    ]
    assert plans.shortfall(planned, struck) == []


def test_recoveries_at_the_border_are_none_of_workers() -> None:
    """Some begin a JVM anew: they would hide what a restart takes."""
    run = RunResult("border 1", 1, [2], 0, "aligned", [FaultResult("x", "i", True, 1.0, 20.0)])
    times = summary([run])["recovery"]
    assert times["border"]["max_s"] == 20.0
    assert times["workers"] == {}
