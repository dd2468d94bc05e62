"""Files of user code that Spark may be sending: they are never written to again."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headgate.deploy.spark.user_code.shipped_files import ship_files
from headgate.usercode.bundle.artifacts import made_from


class RecordingContext(SimpleNamespace):
    """A SparkContext that keeps what it was given."""

    def addFile(self, path: str) -> None:  # noqa: N802 - Spark's name
        """Spark's."""
        self.added.append(Path(path))


def a_context(folder: Path) -> Any:
    """One of an application of its own."""
    folder.mkdir()
    return RecordingContext(applicationId=str(folder), _temp_dir=str(folder), added=[])


def a_job(folder: Path) -> Path:
    """A folder with a module."""
    folder.mkdir()
    (folder / "a.py").write_text("x = 1")
    return folder


def test_a_second_begin_leaves_the_file_that_was_shipped(tmp_path: Path) -> None:
    """Its bytes and its time: an executor may be fetching it."""
    context, job = a_context(tmp_path / "application"), a_job(tmp_path / "job")
    bundle, files = made_from([job], tmp_path)
    ship_files(context, bundle, files)
    (added,) = context.added
    os.utime(added, (1, 1))
    again, same = made_from([job], tmp_path)
    assert (again, same) == (bundle, files)
    ship_files(context, again, same)
    assert (context.added, added.stat().st_mtime, added.stat().st_nlink) == ([added], 1, 2)


def test_a_copy_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no link can be, and the disk is full half-way."""
    context = a_context(tmp_path / "application")
    bundle, files = made_from([a_job(tmp_path / "job")], tmp_path)

    def no_link(source: Path, target: Path) -> None:
        raise OSError("another device")

    def half(source: Path, target: Path) -> None:
        Path(target).write_bytes(b"half")
        raise OSError("no space left")

    monkeypatch.setattr(os, "link", no_link)
    with monkeypatch.context() as full:
        full.setattr(shutil, "copyfile", half)
        with pytest.raises(OSError, match="no space left"):
            ship_files(context, bundle, files)
    assert [path for path in (tmp_path / "application").rglob("*") if path.is_file()] == []
    (name,) = ship_files(context, bundle, files)
    assert context.added[0].name == name
    assert context.added[0].read_bytes() == files[0].read_bytes()
