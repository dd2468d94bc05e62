"""Folders packed for their way to workers: equal files give equal zips, byte by byte."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from headgate.common.files.durable_file import made_beside
from headgate.usercode.bundle.bundle_contents import files_of, hash_of
from headgate.usercode.bundle.bundled_program import PROGRAM_BYTES_MAX, program_files
from headgate.usercode.errors import UserCodeLoadError

PACKED: Final = ".zip"


def packed_folder(source: Path, name: str, folder: Path) -> Path:
    """A zip of a folder, under a name that says its content: the one that is there already, if one is.

    Spark may be sending that one to an executor at this moment.
    """
    target = folder / f"{name or 'code'}-{hash_of(source)[:16]}{PACKED}"
    return target if target.exists() else _zipped(source, files_of(source), target)


def packed_program(program: Path, folder: Path) -> Path:
    """A zip of a program's own modules: what can be imported from its folder, and nothing else of it."""
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
    return _zipped(program.parent, files, folder / f"program{PACKED}")


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
