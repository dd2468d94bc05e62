"""Whole jobs that restore from copies on the local disk: what is read from where, and always one result."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from mini_jobs import RESTART_AT_ONCE, TINY, Halting, json_lines, running_counts

import headgate as hg
from headgate.runtime.job.listener import JobListener
from headgate.testing import MiniCluster

WORDS = [f"w{n % 7}" for n in range(120)]
MUCH = 2_000
"""Bytes that a slot restores at least; RocksDB's are compressed."""
RESTORED = re.compile(r"slot (\d) restored checkpoint \d+: (\d+) bytes from local copies, (\d+) bytes from")


class Padded(hg.KeyedProcessFunction[str, str, Any]):
    """Counts, with so much beside each count that state is stored in files."""

    count: hg.ValueState[int] = hg.value_state(default=0)
    beside: hg.ValueState[str] = hg.value_state(default="")
    notes: hg.OperatorListState[str] = hg.operator_list_state()

    def process(self, record: str, ctx: hg.KeyedContext[str]) -> Iterator[Any]:
        self.count.value += 1
        self.beside.value = f"{ctx.key}{self.count.value:06}" * 1_500
        if len(self.notes.get()) < 30:
            self.notes.add(record * 500)
        yield {"word": ctx.key, "n": self.count.value}


class Straying(Padded):
    """Leaves a thread behind in its first attempt, so that the gang is replaced."""

    over = threading.Event()

    def open(self, context: hg.RuntimeContext) -> None:
        if context.attempt == 1:
            threading.Thread(target=self.over.wait, args=(60,), name="stray", daemon=True).start()


class Harm(JobListener):
    """Does something to the copies between a failure and the restart, when workers are idle."""

    def __init__(self, local: Path, harm: Callable[[Path], None]) -> None:
        self._local, self._harm = local, harm
        self.gangs = self.files = 0

    def gang_submitted(self, gang: int, slots: int) -> None:
        self.gangs += 1

    def deploying(self, attempt: int, checkpoint: int | None) -> None:
        if checkpoint is None:
            return
        for top, _, files in os.walk(self._local):
            for name in files:
                if "/chk-" in top and not name.startswith("."):
                    with suppress(FileNotFoundError):  # an old one, which is removed beside the loops
                        self._harm(Path(top, name))
                        self.files += 1


def sound(copy: Path) -> None:
    """Leave it as it is."""


def damaged(copy: Path) -> None:
    """Other bytes, by way of a new file, as a linked one is RocksDB's as well."""
    data = copy.read_bytes()
    copy.unlink()
    copy.write_bytes(bytes(byte ^ 1 for byte in data))


def deleted(copy: Path) -> None:
    """Gone."""
    copy.unlink()


def of_another_attempt(copy: Path) -> None:
    """As long, with what another file holds."""
    size, data = copy.stat().st_size, b"".join(sorted(p.read_bytes() for p in copy.parent.glob("[!.]*")))
    copy.unlink()
    copy.write_bytes((data[1:] * 2)[:size])


def deleted_in_slot_1(copy: Path) -> None:
    """Gone on one of two machines."""
    if "slot-1" in copy.parts:
        copy.unlink()


def run(
    folder: Path, name: int, harm: Callable[[Path], None], function: type[Padded] = Padded, **config: Any
) -> tuple[Any, Harm]:
    """A job that crashes once, with copies; its output is as if nothing had happened, and no copy is left."""
    harmed = Harm(folder / "local", harm)
    settings = {
        **TINY,
        **RESTART_AT_ONCE,
        "execution.state-recovery.from-local": True,
        "execution.checkpointing.local-backup.dirs": str(folder / "local"),
        "state.backend.rocksdb.localdir": str(folder / "rocks"),
        "state.backend.rocksdb.memory.fixed-per-slot": "16mb",
        **config,
    }
    env = hg.Environment(parallelism=2, executor=MiniCluster(harmed), config=settings)
    env.checkpoints(every="15ms", storage=str(folder / "checkpoints"))
    source = Halting(name, len(WORDS) // 2, WORDS)
    counted = env.from_source(source, uid="words").key_by(lambda word: word).process(function(), uid="counts")
    counted.write_json(str(folder / "out"), uid="out")
    result = env.execute("counts")
    assert result.restarts == 1
    assert sorted((line["word"], line["n"]) for line in json_lines(folder / "out")) == running_counts(WORDS)
    assert list((folder / "local").glob("*")) == []
    return result, harmed


def restored_bytes(caplog: pytest.LogCaptureFixture) -> dict[int, tuple[int, int]]:
    """Slot -> bytes from copies and from the storage, as the log says at the restore."""
    found = [match for line in caplog.messages if (match := RESTORED.match(line))]
    return {int(slot): (int(local), int(remote)) for slot, local, remote in (each.groups() for each in found)}


ROCKS = {"state.backend.type": "rocksdb", "execution.checkpointing.incremental": True}


@pytest.mark.parametrize(("name", "config"), [(1360, {}), (1361, ROCKS)])
def test_a_restore_reads_nothing_but_sound_copies(
    tmp_path: Path, name: int, config: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Keyed state as blobs or as RocksDB's files, and operator state: all of it is at hand."""
    caplog.set_level(logging.INFO, "headgate")
    run(tmp_path, name, sound, **config)
    found = restored_bytes(caplog)
    assert found.keys() == {0, 1}
    assert all(local > MUCH and remote == 0 for local, remote in found.values()), found


@pytest.mark.parametrize(
    ("name", "harm", "config"),
    [
        (1362, damaged, {}),
        pytest.param(1363, damaged, ROCKS, marks=pytest.mark.ci),
        pytest.param(1364, deleted, {}, marks=pytest.mark.ci),
        pytest.param(1365, of_another_attempt, {}, marks=pytest.mark.ci),
        pytest.param(1366, of_another_attempt, ROCKS, marks=pytest.mark.ci),
    ],
)
def test_copies_that_are_not_sound_lead_to_the_storage(
    tmp_path: Path,
    name: int,
    harm: Callable[[Path], None],
    config: dict[str, Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The result is the same; the log names each copy that was not used."""
    caplog.set_level(logging.INFO, "headgate")
    _, harmed = run(tmp_path, name, harm, **config)
    assert harmed.files > 0
    found = restored_bytes(caplog)
    assert found.keys() == {0, 1}
    assert all(remote > MUCH for _, remote in found.values()), found
    unused = [line for line in caplog.messages if line.startswith("a local copy is not used")]
    assert bool(unused) is (harm is not deleted)
    if harm is damaged:
        assert all(local == 0 for local, _ in found.values()), found


def test_local_and_remote_may_be_mixed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One slot has its copies, the other has lost them."""
    caplog.set_level(logging.INFO, "headgate")
    run(tmp_path, 1367, deleted_in_slot_1)
    found = restored_bytes(caplog)
    assert found[0][0] > MUCH, found
    assert found[0][1] == found[1][0] == 0, found
    assert found[1][1] > MUCH, found


def test_a_new_gang_finds_what_the_old_one_left(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Workers that could not be used again are replaced; those in their slots take the copies over."""
    caplog.set_level(logging.INFO, "headgate")
    try:
        _, harmed = run(tmp_path, 1368, sound, Straying)
    finally:
        Straying.over.set()
    assert harmed.gangs == 2
    assert all(local > MUCH and remote == 0 for local, remote in restored_bytes(caplog).values())


@pytest.mark.ci
def test_a_local_folder_that_cannot_be_used_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The job runs without copies, and says so once per worker."""
    blocked = tmp_path / "blocked"
    blocked.write_text("a file")
    caplog.set_level(logging.INFO, "headgate")
    config: dict[str, Any] = {"execution.checkpointing.local-backup.dirs": str(blocked)}
    run(tmp_path, 1369, sound, **config)
    assert restored_bytes(caplog) == {}
    assert sum(line.startswith(f"no local copies can be kept in {blocked}") for line in caplog.messages) >= 2


@pytest.mark.ci
def test_copies_are_made_for_the_asking(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """With copies but without their use a restore reads the storage, as with neither."""
    caplog.set_level(logging.INFO, "headgate")
    config: dict[str, Any] = {
        "execution.checkpointing.local-backup.enabled": True,
        "execution.state-recovery.from-local": False,
    }
    _, harmed = run(tmp_path, 1370, damaged, **config)
    assert harmed.files > 0
    assert restored_bytes(caplog) == {}
