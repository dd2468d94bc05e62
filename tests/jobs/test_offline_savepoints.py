"""Savepoints of running jobs with everything in them: judged, resliced and migrated, and gone on from."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from everything_job import (
    BACKENDS,
    Everything,
    Lacking,
    OtherKind,
    Wider,
    WiderLists,
    WithCustom,
    demand_exact,
    stopped,
)

import headgate as hg
from headgate.checkpoint.opening import open_checkpoint
from headgate.common.errors import UsageError
from headgate.offline import sorting
from headgate.offline.judging import Judgement
from headgate.offline.migrating import Migration
from headgate.offline.report import UpgradeReport, Verdict
from headgate.offline.reslicing import reslice
from headgate.offline.rewriting import Rewritten, rewrite

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
    change = Migration(open_checkpoint(snapshot)[1], plan, {}, plan.max_parallelism, drop)
    return rewrite(snapshot, str(target), change, form)


def goes_on(snapshot: str, job: Everything) -> None:
    """The job runs to its end from the snapshot."""
    job.env.execute("everything", restore_from=snapshot)


@pytest.mark.parametrize(("backend", "form", "after"), slower(EACH, 4))
def test_every_record_counts_once_across_two_rewritings(
    backend: str, form: str, after: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drawn by a running job, resliced without its program, migrated to wider types, and restored."""
    monkeypatch.setattr(sorting, "BUCKET_BYTES", 4_000)
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
            with pytest.raises(hg.HeadgateError, match="savepoint|checkpoint"):
                goes_on(snapshot, program())
