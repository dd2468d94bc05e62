"""Packs code for workers, a folder or the modules of a program, into zips that are equal for equal files.

Equal files give equal hashes and equal zips, whatever machine, time or order they come from.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headgate.common.files.durable import sha256
from headgate.common.files.durable_file import made_beside
from headgate.usercode.loading_errors import UserCodeLoadError

PROGRAM_BYTES_MAX: Final = 64 << 20
ENTRIES_MAX: Final = 20_000
"""How many entries below one folder without `__init__.py` are looked at: a data folder has more."""
MODULE_ENDINGS: Final = (".py", ".so", ".pyd")
SKIPPED: Final = frozenset({"__pycache__", ".git", ".DS_Store"})
_NEVER: Final = SKIPPED | {"node_modules"}
_MARKS_OF_ENVIRONMENTS: Final = frozenset({"pyvenv.cfg", "conda-meta"})
_CHUNK: Final = 1 << 20

_log = logging.getLogger("headgate.usercode")


def hash_of(path: Path) -> str:
    """Return the SHA-256 of a file, or of a folder's file names and contents; UserCodeLoadError: unreadable.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> (folder / "a.py").write_text("x = 1")
        5
        >>> before = hash_of(folder); (folder / "b.py").touch(); hash_of(folder) == before
        False
    """
    try:
        if not path.is_dir():
            return hash_of_file(path)
        found = sha256()
        for file in files_of(path):
            name = file.relative_to(path).as_posix()
            found.update(f"{len(name)} {name} {hash_of_file(file)}\n".encode())
        return found.hexdigest()
    except OSError as error:
        raise UserCodeLoadError(f"user code {str(path)!r} cannot be read: {error}") from error


def hash_of_file(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal digits; OSError if it cannot be read."""
    found = sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            found.update(chunk)
    return found.hexdigest()


def files_of(folder: Path) -> list[Path]:
    """Return a folder's files, at any depth, in a fixed order and without caches such as `__pycache__`."""
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file() and SKIPPED.isdisjoint(path.relative_to(folder).parts)
    )


def packed_folder(source: Path, name: str, folder: Path) -> Path:
    """Return a zip of `source` in `folder`, named `name` and hash, made if absent; or UserCodeLoadError."""
    target = folder / f"{name or 'code'}-{hash_of(source)[:16]}.zip"
    return target if target.exists() else _zipped(source, files_of(source), target)


def packed_program(program: Path, folder: Path) -> Path:
    """Zip the modules beside `program`, as of :func:`program_files`, to program.zip in `folder`.

    UserCodeLoadError if they have more than 64 MiB, or cannot be read or packed.
    """
    try:
        files = program_files(program.parent)
        sizes = {file: file.stat().st_size for file in files}
    except OSError as error:
        raise UserCodeLoadError(f"the modules beside {str(program)!r} cannot be read: {error}") from error
    size = sum(sizes.values())
    if size > PROGRAM_BYTES_MAX:
        raise UserCodeLoadError(
            f"the modules beside {str(program)!r} have {size >> 20} MB, "
            f"{str(max(files, key=sizes.__getitem__))!r} most, and at most {PROGRAM_BYTES_MAX >> 20} MB are "
            "sent to workers; move data out of the packages, or bring them as an archive (headgate run "
            "--with)"
        )
    return _zipped(program.parent, files, folder / "program.zip")


def _zipped(source: Path, files: Sequence[Path], target: Path) -> Path:
    import zipfile

    try:
        with made_beside(target) as making, zipfile.ZipFile(making, "w", zipfile.ZIP_DEFLATED) as made:
            for file in files:
                entry = zipfile.ZipInfo(file.relative_to(source).as_posix())  # without the file's time
                entry.external_attr = (0o700 if file.stat().st_mode & 0o100 else 0o600) << 16
                entry.compress_type = zipfile.ZIP_DEFLATED
                made.writestr(entry, file.read_bytes())
    except OSError as error:
        raise UserCodeLoadError(f"user code {str(source)!r} cannot be packed: {error}") from error
    return target


@dataclass(frozen=True, slots=True)
class _Folder:
    """What is directly in one folder, sorted by name; empty if it cannot be read."""

    entries: int
    is_environment: bool
    is_package: bool
    modules: tuple[Path, ...]
    folders: tuple[Path, ...]


def program_files(folder: Path, bytes_max: int = PROGRAM_BYTES_MAX) -> list[Path]:
    """Return the files to ship with a program: modules, packages and namespace packages in its folder.

    A folder without `__init__.py` can be imported, too, and is more often data. Of it the modules are taken,
    and the packages, at any depth below folders whose names are identifiers; nearest first, until
    `ENTRIES_MAX` entries have been looked at. Hidden folders, environments and `node_modules` are left
    out, so is what this user cannot read, and so, with a warning, is a folder without `__init__.py` with
    which the total would exceed `bytes_max`.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> for name in ("job.py", "data.csv", "models/__init__.py", "models/schema.json", "out/part.json"):
        ...     (folder / name).parent.mkdir(exist_ok=True); (folder / name).touch()
        >>> (folder / "tools").mkdir(); (folder / "tools" / "help.py").touch()
        >>> [path.relative_to(folder).as_posix() for path in program_files(folder)]
        ['job.py', 'models/__init__.py', 'models/schema.json', 'tools/help.py']
    """
    own = _looked_at(folder)
    found, others = _readable(own.modules), []
    for path in own.folders:
        inside = _looked_at(path)
        if inside.is_package and not inside.is_environment:
            found += _readable(files_of(path))
        elif path.name.isidentifier():
            others.append(path)
    namespaces = {path: _readable(_of_namespace(path, {folder.resolve()})) for path in others}
    return sorted([*found, *_that_fit(namespaces, bytes_max - _bytes(found), bytes_max)])


def _that_fit(namespaces: Mapping[Path, list[Path]], left: int, bytes_max: int) -> list[Path]:
    found: list[Path] = []
    for size, path in sorted((_bytes(files), path) for path, files in namespaces.items()):
        left -= size
        if left >= 0 or size == 0:
            found += namespaces[path]
            continue
        _log.warning(
            "the modules below %s have %d MB and are not sent to workers: what stands beside a program may "
            "have %d MB all together; bring what the job imports of them with --with",
            path,
            size >> 20,
            bytes_max >> 20,
        )
    return found


def _of_namespace(top: Path, seen: set[Path]) -> Iterator[Path]:
    waiting, entries, found = deque([top]), 0, 0
    while waiting:
        if entries > ENTRIES_MAX:
            if found:
                _log.warning(
                    "below %s only the first %d entries were looked at for modules to send to workers; give "
                    "folders of packages an __init__.py, or bring them with --with",
                    top,
                    entries,
                )
            return
        path = waiting.popleft()
        if path.resolve() in seen:  # a link that leads back
            continue
        seen.add(path.resolve())
        here = _looked_at(path)
        entries += here.entries
        if here.is_environment:
            continue
        files = files_of(path) if here.is_package else here.modules
        found += len(files)
        yield from files
        if not here.is_package:
            waiting.extend(below for below in here.folders if below.name.isidentifier())


def _looked_at(folder: Path) -> _Folder:
    try:
        with os.scandir(folder) as opened:
            entries = sorted(opened, key=lambda entry: entry.name)
    except OSError:  # another user's; Python finds nothing in it, either
        entries = []
    names = {entry.name for entry in entries}
    return _Folder(
        len(entries),
        not _MARKS_OF_ENVIRONMENTS.isdisjoint(names),
        "__init__.py" in names,
        tuple(Path(entry) for entry in entries if _is_module(entry)),
        tuple(Path(entry) for entry in entries if _is_candidate(entry)),
    )


def _is_module(entry: os.DirEntry[str]) -> bool:
    if not entry.name.endswith(MODULE_ENDINGS) or entry.name in MODULE_ENDINGS:
        return False
    return os.path.isfile(entry)  # noqa: PTH113 - False for a link to what cannot be looked at


def _is_candidate(entry: os.DirEntry[str]) -> bool:
    if entry.name.startswith(".") or entry.name in _NEVER:
        return False
    if entry.is_symlink():
        return os.path.isdir(entry)  # noqa: PTH112 - as above
    return entry.is_dir(follow_symlinks=False)


def _readable(files: Iterable[Path]) -> list[Path]:
    effective = os.access in os.supports_effective_ids
    return [path for path in files if os.access(path, os.R_OK, effective_ids=effective)]


def _bytes(files: Iterable[Path]) -> int:
    return sum(path.stat().st_size for path in files)
