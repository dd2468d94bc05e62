"""Savepoints of running jobs with everything in them: judged, resliced and migrated, and gone on from."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from everything_job import (
    BACKENDS,
    Everything,
    Lacking,
    OtherKind,
    Plain,
    Wider,
    WiderLists,
    WithCustom,
    came,
    demand_exact,
    stopped,
)
from running_jobs import wait_until

import headgate as hg
from headgate.checkpoint.opening import open_checkpoint
from headgate.common.errors import UsageError
from headgate.offline import migrating
from headgate.offline.judging import Judgement
from headgate.offline.migrating import reslice
from headgate.offline.rewriting import Rewritten, rewrite
from headgate.offline.upgrade import UpgradeReport, Verdict
from headgate.offline.writing import FORMATS
from headgate.restore.in_flight_shares import records_of
from headgate.state.rocksdb.migration import Migration
from headgate.state.stored import regroup

EACH = [
    ("heap", "canonical", "incremental"),
    ("heap", "native", "changelog"),
    ("rocksdb", "native", "heap"),
    ("incremental", "native", "incremental"),
    ("changelog", "native", "rocksdb"),
    ("incremental", "canonical", "changelog"),
    ("rocksdb", "canonical", "rocksdb"),
    ("changelog", "canonical", "heap"),
]
"""Backend and form of the savepoint, and the backend that goes on from it."""


def slower(cases: list[tuple[str, str, str]], quick: int) -> list[Any]:
    """The first ones, and the others for who has more time."""
    return [*cases[:quick], *(pytest.param(*case, marks=pytest.mark.ci) for case in cases[quick:])]


def judged(snapshot: str, job: Everything, allow: bool = False) -> UpgradeReport:
    """The report on a program of this process."""
    disk, metadata = open_checkpoint(snapshot)
    env = job.env
    return Judgement(disk, metadata, env.program.nodes(), env.plan("p"), allow).report(snapshot, "p")


def migrated(
    snapshot: str, target: Path, job: Everything, form: str | None = None, drop: bool = False
) -> Rewritten:
    """What `headgate savepoint migrate` does, with a program of this process."""
    plan = job.env.plan("p")
    change = migrating.Migration(open_checkpoint(snapshot)[1], plan, {}, plan.max_parallelism, drop)
    return rewrite(snapshot, str(target), change, form)


def goes_on(snapshot: str, job: Everything) -> None:
    """The job runs to its end from the snapshot."""
    job.env.execute("everything", restore_from=snapshot)


@pytest.mark.parametrize(("backend", "form", "after"), slower(EACH, 4))
def test_every_record_counts_once_across_two_rewritings(
    backend: str, form: str, after: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drawn by a running job, resliced without its program, migrated to wider types, and restored."""
    monkeypatch.setattr(regroup, "BUCKET_BYTES", 4_000)
    snapshot = stopped(tmp_path, backend, form)
    assert judged(snapshot, Everything(tmp_path, backend)).verdict is Verdict.AS_IS
    other = "native" if form == "canonical" else "canonical"
    sliced = reslice(snapshot, str(tmp_path / "sliced"), 32, other).uri
    assert judged(sliced, Everything(tmp_path, after, groups=32)).verdict is Verdict.AS_IS

    def wider() -> Everything:
        return Everything(tmp_path, after, 3, Wider, WiderLists, groups=512)

    assert judged(sliced, wider()).verdict is Verdict.INCOMPATIBLE  # the number of key groups
    new = migrated(sliced, tmp_path / "new", wider(), form).uri
    report = judged(new, wider())
    assert report.verdict is Verdict.AS_IS, report
    goes_on(new, wider())
    demand_exact(tmp_path)


@pytest.mark.parametrize(("backend", "form", "after"), slower(EACH[2:], 2))
def test_values_of_a_serializer_of_the_programs_own(
    backend: str, form: str, after: str, tmp_path: Path
) -> None:
    """With the program they go everywhere; without it each value has to have bytes of its own."""
    snapshot = stopped(tmp_path, backend, form, function=WithCustom, groups=4)
    if form == "native":
        with pytest.raises(UsageError, match=r"'own' was written by a serializer .* give the program"):
            reslice(snapshot, str(tmp_path / "refused"), 32)
    else:
        snapshot = reslice(snapshot, str(tmp_path / "sliced"), 64).uri

    def program() -> Everything:
        return Everything(tmp_path, after, 1, WithCustom, groups=32)

    new = migrated(snapshot, tmp_path / "new", program()).uri
    assert judged(new, program()).verdict is Verdict.AS_IS
    goes_on(new, program())
    demand_exact(tmp_path)


def test_values_of_older_types_in_rocksdb_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A restore leaves them as they are; only the program has the way from them to the newest type."""
    first = stopped(tmp_path, "incremental", "native")
    job = Everything(tmp_path, "incremental", 2, Wider, WiderLists, limit=21)
    with monkeypatch.context() as held:
        # State as small as this is rewritten before anybody can look.
        held.setattr(Migration, "step", lambda *_: False)
        handle = job.env.execute_async("everything", restore_from=first)
        came(handle, 2 + 3)
        snapshot = handle.stop(str(tmp_path / "savepoints"), format="native")
        handle.result()
    with pytest.raises(UsageError, match=r"holds values of older types, .* give the program"):
        reslice(snapshot, str(tmp_path / "refused"), 32)

    def wider() -> Everything:
        return Everything(tmp_path, "incremental", 1, Wider, WiderLists, groups=32)

    assert judged(snapshot, Everything(tmp_path, "incremental", 2, Wider, WiderLists)).restorable
    new = migrated(snapshot, tmp_path / "new", wider()).uri
    assert judged(new, wider()).verdict is Verdict.AS_IS
    goes_on(new, wider())
    demand_exact(tmp_path)


@pytest.mark.parametrize(
    ("backend", "form"),
    [("incremental", "native"), *(pytest.param("heap", f, marks=pytest.mark.ci) for f in FORMATS)],
)
def test_values_of_a_serializer_that_is_gone_are_left_behind(backend: str, form: str, tmp_path: Path) -> None:
    """Nobody can take them apart any more, and nobody has to; all else is as it was."""
    snapshot = stopped(tmp_path, backend, form, function=WithCustom, groups=4)
    with pytest.raises(UsageError, match="'own'"):
        migrated(snapshot, tmp_path / "refused", Everything(tmp_path, groups=32))
    new = migrated(snapshot, tmp_path / "new", Everything(tmp_path, groups=32), drop=True).uri
    goes_on(new, Everything(tmp_path, groups=32))
    demand_exact(tmp_path)


@pytest.mark.parametrize("uid", ["words", "lists", "keep", "out"])
def test_what_was_left_behind_is_not_asked_for_again(uid: str, kept: str, tmp_path: Path) -> None:
    """Without leave an operator that is gone is refused; with leave a job begins from what is written."""
    place = tmp_path / "job"
    shutil.copytree(Path(kept).parents[1] / "out", place / "out")

    def program() -> Everything:
        return Everything(place, uids={uid: f"new-{uid}"})

    with pytest.raises(UsageError, match=rf"holds .* of '{uid}'.*--allow-non-restored-state"):
        migrated(kept, tmp_path / "refused", program())
    new = migrated(kept, tmp_path / "new", program(), drop=True).uri
    assert judged(new, program()).verdict is Verdict.AS_IS
    goes_on(new, program())


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A savepoint on the heap."""
    return stopped(tmp_path_factory.mktemp("kept"), "heap", "native")


PAIRS: dict[str, tuple[dict[str, Any], Verdict]] = {
    "wider types": ({"function": Wider, "lists": WiderLists}, Verdict.AFTER_MIGRATION),
    "a state is gone": ({"function": Lacking}, Verdict.ONLY_IN_SNAPSHOT),
    "another kind of state": ({"function": OtherKind}, Verdict.INCOMPATIBLE),
    "the keyed operator has another uid": ({"uids": {"keep": "kept"}}, Verdict.ONLY_IN_SNAPSHOT),
    "the source has another uid": ({"uids": {"words": "input"}}, Verdict.ONLY_IN_SNAPSHOT),
    "the sink has another uid": ({"uids": {"out": "results"}}, Verdict.ONLY_IN_SNAPSHOT),
    "the lists have another uid": ({"uids": {"lists": "more"}}, Verdict.ONLY_IN_SNAPSHOT),
}


@pytest.mark.parametrize(
    ("backend", "form"),
    [
        ("heap", "canonical"),
        *(
            pytest.param(backend, form, marks=pytest.mark.ci)
            for backend in BACKENDS
            for form in ("canonical", "native")
            if (backend, form) != ("heap", "canonical")
        ),
    ],
)
def test_the_verdict_on_a_savepoint_is_what_a_restore_does(backend: str, form: str, tmp_path: Path) -> None:
    """A job begins from it exactly when the check says that it can, with and without leave to lose state."""
    snapshot = stopped(tmp_path, backend, form)
    for name, (changes, expected) in PAIRS.items():
        for allow in (False, True):
            case = f"{name}, allowed: {allow}"
            shutil.copytree(tmp_path / "out", tmp_path / case / "out")

            def program(
                changes: dict[str, Any] = changes, allow: bool = allow, place: Path = tmp_path / case
            ) -> Everything:
                leave = {"execution.state-recovery.ignore-unclaimed-state": allow}
                return Everything(place, backend, **changes, **leave)

            report = judged(snapshot, program(), allow)
            if expected is Verdict.ONLY_IN_SNAPSHOT and allow:
                assert report.restorable, case
            elif not allow or expected is Verdict.INCOMPATIBLE:
                assert report.verdict is expected, case
            if report.restorable:
                goes_on(snapshot, program())
                continue
            with pytest.raises(hg.HeadgateError, match=r"savepoint|checkpoint"):
                goes_on(snapshot, program())


class Slow(Plain):
    """Takes its time, so that records wait before it."""

    def process(self, record: str, ctx: Any) -> Iterator[Any]:
        time.sleep(0.003)
        yield from super().process(record, ctx)


UNALIGNED = {"execution.checkpointing.unaligned.enabled": True, "taskmanager.network.credit-initial": 4}


def overtaken(folder: Path) -> str:
    """A checkpoint whose barriers overtook records on their way to the keyed operator."""
    job = Everything(folder, function=Slow, limit=59, **UNALIGNED)
    with job.env.execute_async("everything") as handle:
        # The first records may come before the last task has told that it runs.
        wait_until(lambda: handle.done or handle.status().state == "running", "the job runs")
        wait_until(lambda: handle.done or any(v.records_in for v in handle.status().vertices), "records came")
        for _ in range(10):
            snapshot = handle.checkpoint()
            streams = open_checkpoint(snapshot)[1].in_flight
            if any(records_of(stream) for stream in streams if stream.receiver == "keep"):
                handle.cancel()
                return snapshot
        raise AssertionError("no checkpoint held records in flight")


@pytest.mark.parametrize("allow", [False, True])
def test_the_verdict_on_records_in_flight_is_what_a_restore_does(allow: bool, tmp_path: Path) -> None:
    """They find their receivers at another parallelism; where these are gone, no leave lets them be lost."""
    snapshot = overtaken(tmp_path)
    cases: dict[str, dict[str, Any]] = {
        "another parallelism": {"parallelism": 3},
        "other types": {"function": Wider, "lists": WiderLists},
        "the receiver has another uid": {"uids": {"keep": "kept"}},
    }
    for name, changes in cases.items():
        shutil.copytree(tmp_path / "out", tmp_path / name / "out")
        leave = {"execution.state-recovery.ignore-unclaimed-state": allow}

        def program(changes: dict[str, Any] = changes, place: Path = tmp_path / name) -> Everything:
            return Everything(place, **changes, **UNALIGNED, **leave)  # noqa: B023 - called in its turn

        report = judged(snapshot, program(), allow)
        assert any(item.part == "records in flight" for one in report.operators for item in one.items)
        assert report.restorable is ("uids" not in changes), (name, report)
        if report.restorable:
            goes_on(snapshot, program())
            demand_exact(tmp_path / name)
        else:
            with pytest.raises(hg.HeadgateError, match="'keep'"):
                goes_on(snapshot, program())
