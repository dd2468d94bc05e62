"""Archives that are not trusted: nothing is written outside the folder, and nothing without bound.

Refused by name: absolute paths, `..`, links that lead out, devices and pipes, two entries of one name, more
files or bytes than the bounds say, and bytes that do not match their checksum.
"""

from __future__ import annotations

import shutil
import stat
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Final

from headgate.usercode.errors import UserCodeLoadError

ZIPS: Final = (".zip", ".whl", ".egg", ".pyz")
TARS: Final = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
_CHUNK: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much an archive may hold.

    Attributes:
        files: entries.
        bytes: unpacked, all together.
    """

    files: int = 200_000
    bytes: int = 8 << 30


def is_archive(name: str) -> bool:
    """Whether a file of this name is unpacked.

    Example:
        >>> is_archive("env.tar.gz"), is_archive("attrs-24.2.0-py3-none-any.whl"), is_archive("job.py")
        (True, True, False)
    """
    return name.lower().endswith((*ZIPS, *TARS))


def unpack(archive: Path, folder: Path, bounds: Bounds = Bounds()) -> None:
    """Unpack an archive into an empty folder.

    Raises:
        UserCodeLoadError: it is damaged, holds what is refused, or is of no known kind.
    """
    name = archive.name.lower()
    try:
        if name.endswith(ZIPS):
            _unpack_zip(archive, folder, bounds)
        elif name.endswith(TARS):
            _unpack_tar(archive, folder, bounds)
        else:
            raise UserCodeLoadError(
                f"{str(archive)!r} is no archive that is known; expected a name that ends in "
                f"{', '.join(ZIPS + TARS)}"
            )
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, OSError, ValueError) as error:
        raise UserCodeLoadError(f"archive {str(archive)!r} cannot be unpacked: {error}") from error


class _Writer:
    """Writes entries below a folder, and counts."""

    def __init__(self, archive: Path, folder: Path, bounds: Bounds) -> None:
        self._archive, self._folder, self._bounds = archive, folder.resolve(), bounds
        self._seen: set[str] = set()
        self._bytes = 0

    def place(self, name: str) -> Path:
        """Where an entry goes."""
        path = PurePosixPath(name.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts or not path.parts or ":" in path.parts[0]:
            raise self.refused(name, "its name leads out of the archive")
        if str(path) in self._seen:
            raise self.refused(name, "there are two of this name")
        self._seen.add(str(path))
        if len(self._seen) > self._bounds.files:
            raise self.refused(name, f"there are more than {self._bounds.files} entries")
        target = self._folder.joinpath(*path.parts)
        if not target.parent.resolve().is_relative_to(self._folder):
            raise self.refused(name, "it lies behind a link that leads out")
        return target

    def folder(self, name: str) -> None:
        """An entry that is a folder."""
        self.place(name.rstrip("/")).mkdir(parents=True, exist_ok=True)

    def file(self, name: str, source: IO[bytes], executable: bool) -> None:
        """An entry that is a file."""
        target = self.place(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as file:
            while chunk := source.read(_CHUNK):
                self._bytes += len(chunk)
                if self._bytes > self._bounds.bytes:
                    raise self.refused(name, f"all together unpacks to more than {self._bounds.bytes} bytes")
                file.write(chunk)
        target.chmod(0o700 if executable else 0o600)

    def link(self, name: str, to: str) -> None:
        """An entry that is a symbolic link."""
        target = self.place(name)
        destination = (target.parent / to).resolve()
        if PurePosixPath(to).is_absolute() or not destination.is_relative_to(self._folder):
            raise self.refused(name, f"it links to {to!r}, outside of the archive")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(to)

    def refused(self, name: str, why: str) -> UserCodeLoadError:
        """The error for an entry."""
        return UserCodeLoadError(f"archive {str(self._archive)!r} is refused at entry {name!r}: {why}")


def _unpack_zip(archive: Path, folder: Path, bounds: Bounds) -> None:
    writer = _Writer(archive, folder, bounds)
    with zipfile.ZipFile(archive) as opened:
        for entry in opened.infolist():
            mode = entry.external_attr >> 16
            if entry.is_dir():
                writer.folder(entry.filename)
            elif stat.S_ISLNK(mode):
                writer.link(entry.filename, opened.read(entry).decode())
            elif mode and stat.S_IFMT(mode) not in (0, stat.S_IFREG):
                raise writer.refused(entry.filename, "it is no file, folder or link")
            else:
                with opened.open(entry) as source:
                    writer.file(entry.filename, source, bool(mode & stat.S_IXUSR))


def _unpack_tar(archive: Path, folder: Path, bounds: Bounds) -> None:
    writer = _Writer(archive, folder, bounds)
    with tarfile.open(archive) as opened:
        for entry in _entries(opened):
            if entry.isdir():
                if entry.name not in (".", "./"):
                    writer.folder(entry.name)
            elif entry.issym():
                writer.link(entry.name, entry.linkname)
            elif entry.isfile():
                source = opened.extractfile(entry)
                assert source is not None
                writer.file(entry.name, source, bool(entry.mode & stat.S_IXUSR))
            else:
                raise writer.refused(entry.name, "it is no file, folder or symbolic link")


def _entries(opened: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    while (entry := opened.next()) is not None:
        yield entry


def remove(folder: Path) -> None:
    """Delete a folder that was unpacked, or a part of it; what is gone already is none of our concern."""
    shutil.rmtree(folder, ignore_errors=True)
