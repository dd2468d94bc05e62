"""The modules beside a program: all that Python imports from its folder, and nothing that only lies there."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.usercode.bundle import packing as under_test
from headgate.usercode.bundle.packing import packed_program, program_files
from headgate.usercode.bundle.unpacking import names_of
from headgate.usercode.loading_errors import UserCodeLoadError

OTHER_USER = 65534


def placed(folder: Path, *names: str, size: int = 0) -> Path:
    """Empty files, or of some size, in a folder."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(bytes(size))
    return folder


def found_in(folder: Path, bytes_max: int = 1 << 20) -> list[str]:
    """What is taken, by relative names."""
    return [path.relative_to(folder).as_posix() for path in program_files(folder, bytes_max)]


def test_namespace_packages_go_with_a_program(tmp_path: Path) -> None:
    """Their modules at any depth; the data beside them do not, those of regular packages do."""
    placed(tmp_path, "job.py", "tools/help.py", "tools/data.csv", "acme/cloud/api/call.py", "acme/fast.so")
    placed(tmp_path, "acme/models/__init__.py", "acme/models/schema.json")
    assert found_in(tmp_path) == [
        "acme/cloud/api/call.py",
        "acme/fast.so",
        "acme/models/__init__.py",
        "acme/models/schema.json",
        "job.py",
        "tools/help.py",
    ]
    packed = packed_program(tmp_path / "job.py", tmp_path)
    assert "tools/help.py" in names_of(packed)


@pytest.mark.parametrize(
    "name",
    [
        "year=2024/x.py",
        "my-tools/x.py",
        ".hidden/x.py",
        ".hidden/__init__.py",
        "tools/.hidden/x.py",
        "tools/__pycache__/x.py",
        "tools/node_modules/gyp/x.py",
        "node_modules/gyp/x.py",
        "venv/tools/x.py",
        "tools/venv/lib/x.py",
        "conda/bin/x.py",
    ],
)
def test_what_is_no_package_stays(name: str, tmp_path: Path) -> None:
    """Folders that no import statement can name, that are hidden, or that other tools have made."""
    placed(tmp_path, "job.py", "venv/pyvenv.cfg", "tools/venv/pyvenv.cfg", "conda/conda-meta/history", name)
    assert found_in(tmp_path) == ["job.py"]


def test_links_that_lead_back_are_followed_once(tmp_path: Path) -> None:
    """A folder that is linked from elsewhere is a package as well."""
    placed(tmp_path, "job/job.py", "shared/tools/help.py")
    (tmp_path / "job" / "linked").symlink_to(tmp_path / "shared")
    (tmp_path / "job" / "self").symlink_to(tmp_path / "job")
    (tmp_path / "shared" / "back").symlink_to(tmp_path / "shared")
    (tmp_path / "job" / "broken").symlink_to(tmp_path / "nowhere")
    (tmp_path / "job" / "circle.py").symlink_to("circle.py")
    assert found_in(tmp_path / "job") == ["job.py", "linked/tools/help.py"]


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that everybody may read, as `/tmp` is."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        yield Path(made)


def test_what_cannot_be_read_stays(shared: Path) -> None:
    """Folders and files of other users, as beside a program in `/tmp`."""
    placed(
        shared,
        "job.py",
        "theirs.py",
        "mine/__init__.py",
        "mine/key.pem",
        "private/x.py",
        "closed/__init__.py",
    )
    for name in ("theirs.py", "mine/key.pem", "private", "closed"):
        (shared / name).chmod(0)
    user = os.geteuid()
    if user == 0:  # who may read everything
        os.seteuid(OTHER_USER)
    try:
        assert found_in(shared) == ["job.py", "mine/__init__.py"]
    finally:
        os.seteuid(user)
        (shared / "private").chmod(0o700)
        (shared / "closed").chmod(0o700)


def test_a_folder_of_data_is_not_looked_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nearest entries first, a bounded number of them; who loses modules by that is told."""
    monkeypatch.setattr(under_test, "ENTRIES_MAX", 20)
    placed(tmp_path, "job.py", *(f"data/d{number}/e/f/part" for number in range(30)), "data/d0/e/f/late.py")
    assert (found_in(tmp_path), caplog.records) == (["job.py"], [])
    placed(tmp_path, "data/load.py")
    with caplog.at_level(logging.WARNING):
        assert found_in(tmp_path) == ["data/load.py", "job.py"]
    assert "only the first 31 entries were looked at" in caplog.text


def test_namespace_packages_are_left_out_where_all_would_be_too_much(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A program in a home folder runs on; who misses modules is told how to bring them."""
    placed(tmp_path, "job.py", "small/x.py", "tiny/x.py", size=400_000)
    placed(tmp_path, "large/x.py", size=900_000)
    assert found_in(tmp_path, 1_300_000) == ["job.py", "small/x.py", "tiny/x.py"]
    assert "bring what the job imports of them with --with" in caplog.text
    assert str(tmp_path / "large") in caplog.text


def test_packages_that_are_too_much_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest file is named; what cannot be read on the way is one sentence, too."""
    placed(tmp_path, "job.py")
    with (placed(tmp_path, "models/__init__.py") / "models" / "weights.bin").open("wb") as file:
        file.truncate(65 << 20)
    with pytest.raises(UserCodeLoadError, match=r"have 65 MB, .*weights\.bin' most"):
        packed_program(tmp_path / "job.py", tmp_path)
    (tmp_path / "models" / "weights.bin").unlink()

    def unreadable(self: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "read_bytes", unreadable)
    with pytest.raises(UserCodeLoadError, match=r"cannot be packed: .*Permission denied"):
        packed_program(tmp_path / "job.py", tmp_path)
    assert not list(tmp_path.glob("*.zip*"))
