"""Hashes of files and folders: equal for equal contents, whatever machine, time or order they come from."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from headgate.common.files.durable import sha256
from headgate.usercode.errors import UserCodeLoadError

SKIPPED: Final = frozenset({"__pycache__", ".git", ".DS_Store"})
_CHUNK: Final = 1 << 20


def hash_of(path: Path) -> str:
    """The hash of a file's bytes, or of a folder's names and files.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> (folder / "a.py").write_text("x = 1")
        5
        >>> before = hash_of(folder); (folder / "b.py").touch(); hash_of(folder) == before
        False
    """
    try:
        return hash_of_folder(path) if path.is_dir() else hash_of_file(path)
    except OSError as error:
        raise UserCodeLoadError(f"user code {str(path)!r} cannot be read: {error}") from error


def hash_of_file(path: Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal digits."""
    found = sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            found.update(chunk)
    return found.hexdigest()


def hash_of_folder(folder: Path) -> str:
    """SHA-256 over the relative names of a folder's files and their own hashes."""
    found = sha256()
    for path in files_of(folder):
        name = path.relative_to(folder).as_posix()
        found.update(f"{len(name)} {name} {hash_of_file(path)}\n".encode())
    return found.hexdigest()


def files_of(folder: Path) -> list[Path]:
    """A folder's files in a fixed order, without what tools leave behind."""
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file() and SKIPPED.isdisjoint(path.relative_to(folder).parts)
    )
