"""Expansion of the paths given to a file source: files, directories, globs and lists become one sorted list.

Missing, unreadable and misnamed files are refused here, before a job starts. Reads no more of a file than its
first four bytes.
"""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from headgate.common.errors import StrayPathError, UsageError
from headgate.common.plain_data import Plain

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

GZIP_MAGIC: Final = b"\x1f\x8b"
ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
PARQUET_MAGIC: Final = b"PAR1"
_COMPRESSED: Final = {".gz": GZIP_MAGIC, ".gzip": GZIP_MAGIC, ".zst": ZSTD_MAGIC, ".zstd": ZSTD_MAGIC}
_FORMATS: Final = {
    ".json": "JSON",
    ".jsonl": "JSON",
    ".ndjson": "JSON",
    ".csv": "CSV",
    ".tsv": "CSV",
    ".parquet": "Parquet",
    ".pq": "Parquet",
}


def expand(paths: Paths, file_format: str) -> list[str]:
    """Return the absolute paths of all files that `paths` names, sorted, each once.

    Directories are searched recursively; names that begin with ``_`` or ``.`` are skipped there and after the
    wildcards of a glob, as Spark does, so that unfinished files are never read. ``file:`` URIs are accepted.
    UsageError for a path without files, an unreadable file, or one that by its name or first bytes is not of
    `file_format` ("JSON", "CSV" or "Parquet") or not compressed as it is called.
    """
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not given:
        raise UsageError(f"the {file_format} source got an empty list of paths; expected at least one")
    found: set[str] = set()
    for path in given:
        files = list(_files_of(local_path(path)))
        if not files:
            raise UsageError(
                f"{os.fspath(path)!r} has no file to read; expected a directory or glob with at least one "
                "file whose name does not begin with '_' or '.'"
            )
        found.update(files)
    ordered = sorted(found)
    for file in ordered:
        _check_file(file, file_format)
    return ordered


def local_path(path: str | os.PathLike[str]) -> str:
    """Return the absolute local path of a path, its ``~`` expanded, or ``file:`` URI; UsageError: other URIs.

    Example:
        >>> local_path("file:///data/in%20put")
        '/data/in put'
    """
    text = os.fspath(path)
    if not text:
        raise UsageError("a path is empty; expected a local path or a file: URI")
    scheme, separator, _ = text.partition(":/")
    if not separator or "/" in scheme:
        return os.path.normpath(Path(text).expanduser().absolute())
    uri = urlsplit(text)
    if uri.scheme != "file" or uri.netloc not in ("", "localhost"):
        raise UsageError(f"{text!r} is not a local file; expected a local path or a file:/// URI")
    return os.path.normpath(unquote(uri.path))


def tops(paths: Paths) -> tuple[str, ...]:
    """Return the files and folders that contain all files of a source, also files added later.

    Example:
        >>> tops(["/data/in/*.json", "/more/a.json"])
        ('/data/in', '/more/a.json')
    """
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    return tuple(
        _fixed_part(path) if glob.has_magic(path) and not os.path.lexists(path) else path
        for path in map(local_path, given)
    )


def check_meant(stored: Plain, below: Sequence[str], source: str) -> str:
    """Return the path of a file that a snapshot names, if it is in the files and folders of its source.
    These are `below`, the result of :func:`tops`; StrayPathError, naming `source`, for any other file.

    Example:
        >>> check_meant("/data/in/a.json", ["/data/in"], "JSON files /data/in")
        '/data/in/a.json'
    """
    if isinstance(stored, str) and "\0" not in stored and stored == os.path.normpath(stored):
        real = os.path.realpath(stored)
        for top in below:
            if _is_below(stored, top) or _is_below(real, os.path.realpath(top)):
                return stored
    raise StrayPathError(
        f"the snapshot has a position in file {stored!r:.500}, which is none of {source}; it was not opened: "
        "give the source the paths that it had, or begin from another snapshot"
    )


def _is_below(path: str, top: str) -> bool:
    return path == top or path.startswith(top.rstrip(os.sep) + os.sep)


def _files_of(path: str) -> Iterator[str]:
    if Path(path).is_dir():
        yield from _walk(path)
    elif os.path.lexists(path):
        yield path
    elif glob.has_magic(path):
        fixed = _fixed_part(path)
        for match in glob.iglob(path, recursive=True):  # noqa: PTH207 - takes an absolute pattern
            if _hidden(os.path.relpath(match, fixed)):
                continue
            if Path(match).is_dir():
                yield from _walk(match)
            else:
                yield match
    else:
        raise UsageError(f"no such file: {path!r}; expected a file, a directory or a glob that matches files")


def _fixed_part(pattern: str) -> str:
    # Below these directories hidden names are skipped.
    parts = Path(pattern).parts
    wild = next(i for i, part in enumerate(parts) if glob.has_magic(part))
    return str(Path(*parts[:wild]))


def _hidden(relative: str) -> bool:
    return any(part[0] in "_." and part not in (".", "..") for part in Path(relative).parts)


def _walk(top: str) -> Iterator[str]:
    def refuse(problem: OSError) -> None:
        raise UsageError(f"cannot list directory {problem.filename!r}: {problem.strerror}; allow reading it")

    for folder, folders, names in os.walk(top, onerror=refuse):
        folders[:] = [name for name in folders if name[0] not in "_."]
        yield from (str(Path(folder, name)) for name in names if name[0] not in "_.")


def _check_file(path: str, file_format: str) -> None:
    suffixes = ["", "", *Path(path.lower()).suffixes]
    suffix = suffixes[-1]
    inner = suffixes[-2] if suffix in _COMPRESSED else suffix
    other = _FORMATS.get(inner, file_format)
    if other != file_format:
        raise UsageError(
            f"{path!r} looks like {other}, among the files of a {file_format} source; read it apart"
        )
    head = head_of(path)
    if file_format == "Parquet" and head != PARQUET_MAGIC:
        raise UsageError(
            f"{path!r} is not a Parquet file: it begins with {head!r}; expected {PARQUET_MAGIC!r}"
        )
    magic = _COMPRESSED.get(suffix, b"")
    if head and not head.startswith(magic):
        raise UsageError(
            f"{path!r} is not compressed as its name says: it begins with {head!r}; expected {magic!r}; "
            "rename it"
        )


def head_of(path: str) -> bytes:
    """Return the first four bytes of a file; UsageError if it is not readable or not a regular file."""
    try:
        # A named pipe would block at open, so its kind is asked first.
        if not stat.S_ISREG(Path(path).stat().st_mode):
            raise UsageError(f"{path!r} is not a regular file; expected a file that can be read again")
        with open(path, "rb") as file:
            return file.read(4)
    except OSError as problem:
        raise UsageError(
            f"cannot read {path!r}: {problem.strerror}; check the path and its rights"
        ) from problem
