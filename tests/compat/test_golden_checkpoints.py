"""Checkpoints that every version of the formats has left are restored for ever, by whole jobs.

`write_golden.py` makes the folders below `data`; none is ever changed or deleted.
"""

from __future__ import annotations

import ast
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import golden_parts as parts
import pytest
import write_golden as golden

from headgate.checkpoint.opening import open_checkpoint, referenced_ranges, verify_files
from headgate.common.errors import StorageError
from headgate.common.format_config import CURRENT, FormatConfig

FOLDERS = sorted(golden.DATA.glob(f"job-*/*/{golden.FORMATS}"))
NAMES = [f"{file.parents[1].name}/{file.parent.name}" for file in FOLDERS]
RESTORED_OFTEN = ("job-basic", "job-in-flight")
NOT_AT_REST = frozenset[tuple[str, int]]()
"""Numbers that no release has written yet and whose bytes may still change. Must be empty for a release."""
ELSEWHERE = {
    "tables of state": golden.DATA / "canonical",
    "metadata of savepoints": golden.DATA / "savepoints",
}
"""Formats that no job writes; their folders are named after the number alone."""
NUMBERED = {
    "VERSION", "FORMAT_VERSION", "FORM_VERSION", "OF_CHECKPOINTS", "OF_SAVEPOINTS", "VERSIONED_VALUES",
    "MAP_ENTRIES", "TIMERS",
}  # fmt: skip
"""What modules call the number of a format of theirs."""
SOURCE = golden.ROOT / "src" / "headgate"


def kind_of(folder: Path) -> parts.Kind:
    """The program that wrote a golden checkpoint."""
    return parts.kinds()[folder.parent.name]


def job_in(folder: Path, scratch: Path) -> Path:
    """A copy of the job's folder, so that nothing can happen to the golden one."""
    storage = scratch / "golden"
    shutil.copytree(folder / golden.STORAGE, storage)
    (job,) = storage.iterdir()
    return job


def expected(folder: Path) -> dict[str, list[str]]:
    """What the restored job must emit."""
    found: dict[str, list[str]] = json.loads((folder / golden.EXPECTED).read_text())
    return found


@pytest.mark.parametrize("file", FOLDERS, ids=NAMES)
def test_a_golden_checkpoint_is_restored(file: Path, tmp_path: Path) -> None:
    """The job goes on: what it emits is, line by line, what it did when the checkpoint was new."""
    job = job_in(file.parent, tmp_path)
    disk, metadata = open_checkpoint(str(job))
    verify_files(disk, metadata)
    assert kind_of(file.parent).holds(metadata)
    assert parts.restored(kind_of(file.parent), job, tmp_path) == expected(file.parent)


@pytest.mark.ci
@pytest.mark.parametrize("file", FOLDERS, ids=NAMES)
def test_a_golden_checkpoint_is_restored_another_way(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At another parallelism, what RocksDB wrote into memory, and what has a log without one."""
    kind = kind_of(file.parent)
    needless = ("rocksdb", "incremental", "changelog")
    kept = tuple(each for each in kind.config if not any(word in str(each) for word in needless))
    environment = parts.environment

    def wider(storage: Path, config: dict[str, Any]) -> Any:
        env = environment(storage, config)
        env.parallelism = 3
        return env

    monkeypatch.setattr(parts, "environment", wider)
    emitted = parts.restored(replace(kind, config=kept), job_in(file.parent, tmp_path), tmp_path)
    # What each subtask says once comes as often as there are subtasks.
    assert {name: set(lines) for name, lines in emitted.items()} == {
        name: set(lines) for name, lines in expected(file.parent).items()
    }


# -- nothing is missing, nothing changes


@pytest.mark.parametrize("name", parts.kinds())
def test_every_kind_has_a_golden_checkpoint_of_the_current_formats(name: str) -> None:
    """A number that was raised needs a checkpoint of its own: run tests/compat/write_golden.py."""
    kind = parts.kinds()[name]
    moving = NOT_AT_REST & golden.formats_of(kind).items()
    assert golden.missing(name, kind) == bool(moving)


def test_every_format_is_in_a_golden_checkpoint() -> None:
    """By its current number, but for those that are still moving."""
    kept = {pair for file in FOLDERS for pair in json.loads(file.read_text())["formats"].items()}
    kept |= {
        (name, int(path.name.removeprefix("v")))
        for name, folder in ELSEWHERE.items()
        for path in folder.iterdir()
    }
    assert parts.current_formats().items() - NOT_AT_REST <= kept
    assert not NOT_AT_REST & kept, "a format that is at rest is no longer listed as moving"


def test_every_numbered_format_is_known_here() -> None:
    """A module that numbers stored bytes is listed in golden_parts, or here with the reason why not."""
    exempt = {
        "headgate.checkpoint.history_file": "no job depends on the history",
    }
    listed = {module for module, _ in parts.FORMATS.values()}
    found = set()
    for package in ("checkpoint", "state", "serde", "runtime/worker/in_flight"):
        for path in (SOURCE / package).rglob("*.py"):
            names = [
                node.target.id
                for node in ast.parse(path.read_text()).body
                if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
            ]
            if NUMBERED.intersection(names):
                found.add(".".join(path.relative_to(SOURCE.parent).with_suffix("").parts))
    assert found == listed | exempt.keys()
    assert parts.current_formats().keys() == parts.FORMATS.keys(), "a number has another name now"


def test_what_is_baked_into_all_bytes_has_not_changed() -> None:
    """Another value reads every golden checkpoint wrong, so it needs readers for both, and goldens."""
    assert FormatConfig("headgate-1", "murmur-modulo-1", 1, 1, "crc32") == CURRENT


def test_goldens_are_small_and_whole() -> None:
    """Together under a megabyte; each with its expectation; nothing of the machine that wrote them."""
    files = [path for path in golden.DATA.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 1_000_000
    assert all((file.parent / golden.EXPECTED).exists() for file in FOLDERS)
    assert [path for path in files if b"/tmp/" in path.read_bytes() or b"/home/" in path.read_bytes()] == []


def test_a_golden_checkpoint_is_never_written_again() -> None:
    """The script refuses a folder that exists."""
    name, folder = "job-basic", FOLDERS[0].parent
    kind = parts.kinds()[name]
    before = digest(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(golden, "folder_of", lambda *_: folder)
        with pytest.raises(SystemExit, match="never written again"):
            golden.write(name, kind)
    assert digest(folder) == before


def digest(folder: Path) -> str:
    """Of all files and their names."""
    found = sha256()
    for path in sorted(folder.rglob("*")):
        found.update(str(path.relative_to(folder)).encode() + (path.read_bytes() if path.is_file() else b""))
    return found.hexdigest()


# -- damage


@pytest.mark.ci
@pytest.mark.parametrize("file", FOLDERS, ids=NAMES)
def test_damage_anywhere_in_a_checkpoint_is_found(file: Path, tmp_path: Path) -> None:
    """A bit of any file is found by reading the checkpoint as a restore does; many places of each."""
    job = job_in(file.parent, tmp_path)
    for path, places in needed_places(job):
        data = path.read_bytes()
        for at in places[::DAMAGED_EVERY]:
            path.write_bytes(data[:at] + bytes((data[at] ^ 1 << at % 8,)) + data[at + 1 :])
            with pytest.raises(StorageError):
                verify_files(*open_checkpoint(str(job)))
        path.write_bytes(data)
    verify_files(*open_checkpoint(str(job)))


DAMAGED_EVERY = 61


def needed_places(job: Path) -> Iterator[tuple[Path, list[int]]]:
    """The files that a restore reads, and which bytes of them; an older file may hold more than is needed."""
    _, metadata = open_checkpoint(str(job))
    for path in (job / f"chk-{metadata.checkpoint}" / "_metadata", max((job / "log").iterdir())):
        yield path, list(range(path.stat().st_size))
    places: dict[str, set[int]] = {}
    for item in referenced_ranges(metadata):
        places.setdefault(item.file, set()).update(range(item.offset, item.offset + item.length))
    for name, found in places.items():
        yield job.parent / name, sorted(found)
