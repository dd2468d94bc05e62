"""Unpacks archives that are not trusted: nothing outside of the folder, and no more than the bounds allow.

Refused by name: absolute paths, `..`, links that lead out, devices and pipes, two entries of one name, more
files or bytes than the bounds say, and bytes that do not match their checksum. Of a packed environment only
the modules are written, no links to the interpreter that it was made with.
"""

from __future__ import annotations

import lzma
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Final

from headgate.usercode.bundle.bounds import (
    FOLDERS_DEEP_MAX,
    PATH_BYTES_MAX,
    STANDARD,
    Bounds,
    Tar,
    open_tar,
    open_zip,
    refused,
    too_many_bytes,
    zipped_link,
)
from headgate.usercode.bundle.layouts import inside_of_names, parts_of
from headgate.usercode.loading_errors import UserCodeLoadError

ZIPS: Final = (".zip", ".whl", ".egg", ".pyz")
TARS: Final = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
_CHUNK: Final = 1 << 20
_DAMAGED: Final = (
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, OSError, ValueError),
    RuntimeError,  # an encrypted zip, a compression that is not known, links in a circle
)


def is_archive(name: str) -> bool:
    """Return whether a name ends as that of an archive which :func:`unpack` takes; no file is looked at.

    Example:
        >>> is_archive("env.tar.gz"), is_archive("attrs-24.2.0-py3-none-any.whl"), is_archive("job.py")
        (True, True, False)
    """
    return name.lower().endswith((*ZIPS, *TARS))


def unpack(archive: Path, folder: Path, bounds: Bounds = STANDARD) -> None:
    """Unpack an archive into the empty folder `folder`; of a packed environment only its site-packages.

    UserCodeLoadError: it is refused, damaged or beyond `bounds`; parts of it may be in `folder` then.
    """
    with _named_in_errors(archive):
        if _is_zip(archive):
            _unpack_zip(archive, folder, bounds)
        else:
            _unpack_tar(archive, folder, bounds)


def names_of(archive: Path, bounds: Bounds = STANDARD) -> list[str]:
    """Return the names of an archive's entries, those of folders with a `/` at the end, without unpacking it.
    UserCodeLoadError: it is no archive, damaged, or beyond `bounds`.
    """
    with _named_in_errors(archive):
        if _is_zip(archive):
            with open_zip(archive, bounds) as zipped:
                return zipped.namelist()
        with open_tar(archive) as tarred:
            return _names(tarred.entries(bounds))


def _is_zip(archive: Path) -> bool:
    name = archive.name.lower()
    if not is_archive(name):
        raise UserCodeLoadError(
            f"{str(archive)!r} is no archive that is known; expected a name that ends in "
            f"{', '.join(ZIPS + TARS)}"
        )
    return name.endswith(ZIPS)


@contextmanager
def _named_in_errors(archive: Path) -> Iterator[None]:
    try:
        yield
    except _DAMAGED as error:
        raise UserCodeLoadError(f"archive {str(archive)!r} cannot be unpacked: {error}") from error


class _Writer:
    """Writes entries of an archive below a folder and counts them; only entries below `inside`."""

    def __init__(self, archive: Path, folder: Path, bounds: Bounds, inside: str) -> None:
        self._archive, self._bounds = archive, bounds
        self._folder = (folder / inside).resolve()
        self._folder.mkdir(parents=True, exist_ok=True)
        self._inside, self._outside = parts_of(inside), f"outside of {inside or 'the archive'}"
        self._files: dict[tuple[str, ...], Path] = {}
        self._links: list[tuple[str, str, Path]] = []
        self._seen: set[str] = set()
        self._made: set[PurePosixPath] = set()
        self._bytes = 0

    def wants(self, name: str) -> bool:
        count, parts = len(self._inside), parts_of(name)
        return count == 0 or (parts[:count] == self._inside and len(parts) > count)

    def place(self, name: str) -> Path:
        path = PurePosixPath(*parts_of(name))
        if path.is_absolute() or ".." in path.parts or not path.parts or ":" in path.parts[0]:
            raise self.refused(name, "its name leads out of the archive")
        if str(path) in self._seen:
            raise self.refused(name, "there are two of this name")
        self._seen.add(str(path))
        self._count(name, path)
        if len(self._made) > self._bounds.files:
            raise self.refused(name, f"there are more than {self._bounds.files} entries and folders")
        target = self._folder.joinpath(*path.parts[len(self._inside) :])
        if not target.parent.resolve().is_relative_to(self._folder):
            raise self.refused(name, "it lies below a link that leads out")
        return target

    def _count(self, name: str, path: PurePosixPath) -> None:
        if len(path.parts) > FOLDERS_DEEP_MAX:
            raise self.refused(name, f"it lies below more than {FOLDERS_DEEP_MAX} folders")
        while path.parts and path not in self._made:
            self._made.add(path)
            path = path.parent

    def folder(self, name: str) -> None:
        if parts_of(name):  # the top itself is one in many tars
            self.place(name).mkdir(parents=True, exist_ok=True)

    def file(self, name: str, source: IO[bytes], executable: bool) -> None:
        target = self.place(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as file:
            while chunk := source.read(_CHUNK):
                self._bytes += len(chunk)
                if self._bytes > self._bounds.bytes:
                    raise self.refused(name, too_many_bytes(self._bounds))
                file.write(chunk)
        target.chmod(0o700 if executable else 0o600)
        self._files[parts_of(name)] = target

    def copy(self, name: str, of: str) -> None:
        original = self._files.get(parts_of(of))
        if original is None:
            raise self.refused(name, f"it is a hard link to {of!r}, which is no file that comes before it")
        with original.open("rb") as source:
            self.file(name, source, bool(original.stat().st_mode & stat.S_IXUSR))

    def link(self, name: str, to: str | None) -> None:
        if to is None:
            raise self.refused(name, f"it links to a name of more than {PATH_BYTES_MAX} bytes")
        target = self.place(name)
        self._check_link(name, to, target)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(to)
        self._links.append((name, to, target))

    def finish(self) -> None:
        for name, to, target in self._links:
            self._check_link(name, to, target)

    def refused(self, name: str, why: str) -> UserCodeLoadError:
        return refused(self._archive, name, why)

    def _check_link(self, name: str, to: str, target: Path) -> None:
        destination = (target.parent / to).resolve()
        if PurePosixPath(to).is_absolute() or not destination.is_relative_to(self._folder):
            raise self.refused(name, f"it links to {to!r}, {self._outside}")


def _unpack_zip(archive: Path, folder: Path, bounds: Bounds) -> None:
    with open_zip(archive, bounds) as opened:
        writer = _Writer(archive, folder, bounds, inside_of_names(opened.namelist(), archive))
        for entry in opened.infolist():
            if writer.wants(entry.filename):
                _write_zipped(opened, entry, writer)
    writer.finish()


def _write_zipped(opened: zipfile.ZipFile, entry: zipfile.ZipInfo, writer: _Writer) -> None:
    mode = entry.external_attr >> 16
    if entry.is_dir():
        writer.folder(entry.filename)
    elif stat.S_ISLNK(mode):
        to = zipped_link(opened, entry)
        writer.link(entry.filename, None if to is None else to.decode())
    elif mode and stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        raise writer.refused(entry.filename, "it is no file, folder or link")
    else:
        with opened.open(entry) as source:
            writer.file(entry.filename, source, bool(mode & stat.S_IXUSR))


def _unpack_tar(archive: Path, folder: Path, bounds: Bounds) -> None:
    with open_tar(archive) as opened:
        entries = opened.entries(bounds)
        writer = _Writer(archive, folder, bounds, inside_of_names(_names(entries), archive))
        for entry in entries:
            if writer.wants(entry.name):
                _write_tarred(opened, entry, writer)
    writer.finish()


def _write_tarred(opened: Tar, entry: tarfile.TarInfo, writer: _Writer) -> None:
    if entry.isdir():
        writer.folder(entry.name)
    elif entry.issym():
        writer.link(entry.name, entry.linkname)
    elif entry.islnk():
        writer.copy(entry.name, entry.linkname)
    elif entry.isfile():
        source = opened.opened.extractfile(entry)
        assert source is not None
        writer.file(entry.name, source, bool(entry.mode & stat.S_IXUSR))
    else:
        raise writer.refused(entry.name, "it is no file, folder or link")


def _names(entries: list[tarfile.TarInfo]) -> list[str]:
    return [f"{entry.name}/" if entry.isdir() else entry.name for entry in entries]


def remove(folder: Path) -> None:
    """Delete a folder and all in it as far as that is possible; errors are ignored."""
    shutil.rmtree(folder, ignore_errors=True)
