"""What a job brings, by content: made on the driver from what the user names, checked where it is used."""

from __future__ import annotations

import hashlib
import platform
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headgate.usercode.bundle.cache import ArtifactCache, Leased
from headgate.usercode.bundle.contents import files_of, hash_of, program_files
from headgate.usercode.bundle.unpacking import Bounds, is_archive, unpack
from headgate.usercode.errors import UserCodeLoadError

PACKED: Final = ".zip"
PROGRAM_BYTES_MAX: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class Artifact:
    """One thing on a job's path.

    Attributes:
        name: of its file, as it is shipped.
        digest: SHA-256 of that file, in hexadecimal digits.
        inside: folder in it that is the entry of the path: of a packed environment its site-packages.
    """

    name: str
    digest: str
    inside: str = ""


@dataclass(frozen=True, slots=True)
class UserBundle:
    """All of a job's user code, in order of search.

    Attributes:
        artifacts: what is on the path.
        abi: of the interpreter that it was made for.

    Example:
        >>> UserBundle((Artifact("job.zip", "ab" * 32),), "cpython-311-x86_64").key[:8]
        'e28b4c7c'
    """

    artifacts: tuple[Artifact, ...]
    abi: str

    @property
    def key(self) -> str:
        """The hash that names this bundle: equal bundles have equal loaders and layers."""
        text = "\n".join([self.abi, *(f"{one.name} {one.digest} {one.inside}" for one in self.artifacts)])
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def abi_of_this() -> str:
    """The interpreter's, as shared objects are tied to it."""
    tag = sys.implementation.cache_tag or sys.implementation.name
    return f"{tag}-{platform.machine()}"


def made_from(paths: Sequence[Path], folder: Path) -> tuple[UserBundle, tuple[Path, ...]]:
    """A bundle of folders, archives and wheels, and the files to ship for it.

    Args:
        paths: in order of search; a folder is packed, an archive is taken as it is.
        folder: where packed folders go.

    Raises:
        UserCodeLoadError: one is not there, or is neither a folder nor an archive.
    """
    files = tuple(_packed(path, folder) for path in paths)
    artifacts = tuple(
        Artifact(file.name, hash_of(file), inside_of(path)) for path, file in zip(paths, files, strict=True)
    )
    return UserBundle(artifacts, abi_of_this()), files


def unpacked(bundle: UserBundle, files: Iterable[Path], cache: ArtifactCache) -> list[Leased]:
    """The folders of a bundle's artifacts on this machine, each checked against its hash.

    Args:
        bundle: what the driver said.
        files: what has arrived, in the bundle's order.
        cache: where folders are.

    Raises:
        UserCodeLoadError: a file is another than the driver's, or was made for another interpreter.
    """
    if bundle.abi != abi_of_this():
        raise UserCodeLoadError(
            f"user code was bundled for {bundle.abi}, and this worker runs {abi_of_this()}; use one minor "
            "version of Python on the driver and the workers"
        )
    leased: list[Leased] = []
    try:
        for artifact, file in zip(bundle.artifacts, files, strict=True):
            leased.append(_leased(artifact, file, cache))
    except BaseException:
        for one in leased:
            one.release()
        raise
    return leased


def _leased(artifact: Artifact, file: Path, cache: ArtifactCache) -> Leased:
    def make(folder: Path) -> None:
        got = hash_of(file)
        if got != artifact.digest:
            raise UserCodeLoadError(
                f"user code {str(file)!r} is not what the driver has sent: its SHA-256 is {got}, "
                f"expected {artifact.digest}; see what has changed it on the way"
            )
        unpack(file, folder, Bounds())

    return cache.lease(artifact.digest, make)


def _packed(path: Path, folder: Path) -> Path:
    if path.is_dir():
        return _pack(path, folder)
    if path.is_file() and is_archive(path.name):
        return path
    raise UserCodeLoadError(
        f"user code {str(path)!r} is neither a folder nor an archive; name the folder that holds a module, "
        "not its file"
    )


def _pack(source: Path, folder: Path) -> Path:
    target = folder / f"{source.name or 'code'}-{hash_of(source)[:16]}{PACKED}"
    return _zipped(source, files_of(source), target)


def packed_program(program: Path, folder: Path) -> Path:
    """A zip of a program's own modules: what can be imported from its folder, and nothing else of it.

    Args:
        program: the file, in the folder.
        folder: where the zip goes.

    Raises:
        UserCodeLoadError: that is too much to be modules.
    """
    files = program_files(program.parent)
    size = sum(file.stat().st_size for file in files)
    if size > PROGRAM_BYTES_MAX:
        largest = max(files, key=lambda file: file.stat().st_size)
        raise UserCodeLoadError(
            f"the modules beside {str(program)!r} have {size >> 20} MB, {str(largest)!r} most, and at most "
            f"{PROGRAM_BYTES_MAX >> 20} MB are sent to workers; move data out of the packages, or bring them "
            "as an archive (headgate run --with)"
        )
    return _zipped(program.parent, files, folder / f"program{PACKED}")


def _zipped(source: Path, files: Sequence[Path], target: Path) -> Path:
    """The same for the same files, byte by byte."""
    import zipfile

    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as made:
        for file in files:
            entry = zipfile.ZipInfo(file.relative_to(source).as_posix())  # without the file's time
            entry.external_attr = (0o700 if file.stat().st_mode & 0o100 else 0o600) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            made.writestr(entry, file.read_bytes())
    return target


def inside_of(path: Path) -> str:
    """Where modules lie in what the user named: a packed environment has them deep inside."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    inside = f"lib/{version}/site-packages"
    if path.is_dir():
        return inside if (path / inside).is_dir() else ""
    return inside if ".tar" in path.name or path.name.endswith(".tgz") else ""
