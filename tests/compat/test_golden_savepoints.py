"""Savepoints that every version of the format has left are restored for ever, by whole jobs.

The folders were made once, by `write_savepoints`, and are not made again: another version gets its own.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import golden_parts as parts
import pytest

from headgate.checkpoint.opening import open_checkpoint, referenced_ranges, verify_files
from headgate.common.errors import StorageError

FOLDER = Path(__file__).with_name("data") / "savepoints"
EXPECTED = "expected.json"
FORMS = ("canonical", "native")
SAVEPOINTS = sorted(path for path in FOLDER.glob("v*/*") if path.is_dir())
IDS = [f"{path.parent.name}-{path.name}" for path in SAVEPOINTS]
BACKENDS: dict[str, dict[str, Any]] = {
    "heap": {},
    "rocksdb": {"state.backend.type": "rocksdb", "execution.checkpointing.incremental": True},
}


def emitted(savepoint: Path, scratch: Path, backend: str = "heap") -> dict[str, list[str]]:
    """What a job emits that goes on from a savepoint."""
    kind = parts.Kind(parts.basic, (), lambda _: True, tuple(BACKENDS[backend].items()))
    return parts.restored(kind, savepoint, scratch)


@pytest.mark.parametrize("savepoint", SAVEPOINTS, ids=IDS)
@pytest.mark.parametrize("backend", ["heap", pytest.param("rocksdb", marks=pytest.mark.ci)])
def test_a_golden_savepoint_is_restored(savepoint: Path, backend: str, tmp_path: Path) -> None:
    """A job goes on from a copy: what it emits is, line by line, what it did when the savepoint was new."""
    copy = tmp_path / "a copy"
    shutil.copytree(savepoint, copy)
    disk, metadata = open_checkpoint(str(copy))
    verify_files(disk, metadata)
    assert (metadata.kind, metadata.format) == ("savepoint", savepoint.name)
    assert emitted(copy, tmp_path, backend) == json.loads((savepoint.parent / EXPECTED).read_text())


@pytest.mark.parametrize("savepoint", SAVEPOINTS, ids=IDS)
def test_every_version_has_both_forms_and_nothing_else_in_them(savepoint: Path) -> None:
    """Each file is referred to."""
    assert {path.name for path in savepoint.parent.iterdir()} == {*FORMS, EXPECTED}
    _, metadata = open_checkpoint(str(savepoint))
    files = {path.relative_to(savepoint).as_posix() for path in savepoint.rglob("*") if path.is_file()}
    assert files == {"_metadata", *(item.file for item in referenced_ranges(metadata))}


@pytest.mark.ci
@pytest.mark.parametrize("savepoint", SAVEPOINTS, ids=IDS)
def test_damage_anywhere_in_a_savepoint_is_found(savepoint: Path, tmp_path: Path) -> None:
    """A bit of any file is found by reading the savepoint as a restore does; many places of each."""
    copy = tmp_path / "copy"
    shutil.copytree(savepoint, copy)
    for path in [each for each in copy.rglob("*") if each.is_file()]:
        data = path.read_bytes()
        for at in range(0, len(data), 41):
            path.write_bytes(data[:at] + bytes((data[at] ^ 1 << at % 8,)) + data[at + 1 :])
            with pytest.raises(StorageError):
                verify_files(*open_checkpoint(str(copy)))
        path.write_bytes(data)
    verify_files(*open_checkpoint(str(copy)))


def write_savepoints(folder: Path) -> None:
    """Write both forms of the present version; the folder must not exist."""
    folder.mkdir(parents=True)
    for form in FORMS:
        with tempfile.TemporaryDirectory() as scratch:
            shutil.copytree(_stopped(Path(scratch), form), folder / form)
            found = emitted(folder / form, Path(scratch))
        text = json.dumps(found, indent=1)
        assert not (folder / EXPECTED).exists() or (folder / EXPECTED).read_text() == text
        (folder / EXPECTED).write_text(text)


def _stopped(scratch: Path, form: str) -> Path:
    import headgate as hg
    from headgate.testing import MiniCluster

    config = {"execution.step-target": "1ms", "execution.checkpointing.data-inline-threshold": 0}
    env = hg.Environment(parallelism=2, executor=MiniCluster(), config=config)
    parts.basic(env, str(scratch / "before"), parts.HALTS)  # without checkpoints it waits there for ever
    handle = env.execute_async("golden")
    while sum(v.records_in for v in handle.status().vertices if "read" in v.uids) < 2 * parts.HALTS:
        time.sleep(0.01)
    uri = handle.stop(str(scratch / "savepoints"), format=form)
    handle.result()
    return Path(unquote(urlsplit(uri).path))


if __name__ == "__main__":
    write_savepoints(FOLDER / sys.argv[1])
