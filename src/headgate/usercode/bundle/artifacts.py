"""What a job brings, by content: made on the driver from what the user names, checked where it is used."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from headgate.common.files.durable import sha256
from headgate.usercode.bundle.bundle_contents import hash_of
from headgate.usercode.bundle.cache import ArtifactCache, Leased
from headgate.usercode.bundle.packed_environments import inside_of_folder, inside_of_names
from headgate.usercode.bundle.packing import packed_folder
from headgate.usercode.bundle.unpacking import is_archive, names_of, unpack
from headgate.usercode.bundle.wheels import check_platform, check_wheel
from headgate.usercode.errors import UserCodeLoadError


@dataclass(frozen=True, slots=True)
class Artifact:
    """One thing on a job's path.

    Attributes:
        inside: folder in it that is the entry of the path: of a packed environment its site-packages.
    """

    name: str
    digest: str
    inside: str = ""


@dataclass(frozen=True, slots=True)
class UserBundle:
    """All of a job's user code, in order of search.

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
        return sha256(text.encode()).hexdigest()[:32]


def abi_of_this() -> str:
    """The interpreter's, as shared objects are tied to it."""
    tag = sys.implementation.cache_tag or sys.implementation.name
    return f"{tag}-{platform.machine()}"


def made_from(paths: Sequence[Path], folder: Path) -> tuple[UserBundle, tuple[Path, ...]]:
    """A bundle of folders, archives and wheels, and the files to ship for it; folders are packed into
    `folder`.
    """
    made = [_made(path, folder) for path in paths]
    artifacts = tuple(Artifact(file.name, hash_of(file), inside) for file, inside in made)
    return UserBundle(artifacts, abi_of_this()), tuple(file for file, _ in made)


def unpacked(bundle: UserBundle, files: Iterable[Path], cache: ArtifactCache) -> list[Leased]:
    """The folders of a bundle's artifacts on this machine, each checked against its hash."""
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
    check_platform(artifact.name)

    def make(folder: Path) -> None:
        got = hash_of(file)
        if got != artifact.digest:
            raise UserCodeLoadError(
                f"user code {str(file)!r} is not what the driver has sent: its SHA-256 is {got}, "
                f"expected {artifact.digest}; see what has changed it on the way"
            )
        unpack(file, folder)

    return cache.lease(key_of_folder(artifact.digest, artifact.inside), make)


def _made(path: Path, folder: Path) -> tuple[Path, str]:
    """The file to ship for what a user names, and the folder in it that is the entry of the path."""
    if path.is_dir():  # of an environment no more than its modules
        return packed_folder(path / inside_of(path), path.name, folder), ""
    if path.is_file() and is_archive(path.name):
        return path, inside_of(path)
    raise UserCodeLoadError(
        f"user code {str(path)!r} is neither a folder nor an archive; name the folder that holds a module, "
        "not its file"
    )


def inside_of(path: Path) -> str:
    """Where modules lie in what the user named: a packed environment has them deep inside."""
    if path.is_dir():
        return inside_of_folder(path)
    check_wheel(path.name)
    found = path.stat()
    return _inside_of_archive(path, found.st_ino, found.st_size, found.st_mtime_ns)


@lru_cache(maxsize=64)  # each begin of a job asks, and a list of a tar's names takes its unpacking
def _inside_of_archive(path: Path, inode: int, size: int, modified_ns: int) -> str:
    del inode, size, modified_ns
    return inside_of_names(names_of(path), path)


def key_of_folder(digest: str, inside: str) -> str:
    """The cache's key: of one environment another Python unpacks another part."""
    return sha256(f"{digest} {inside}".encode()).hexdigest() if inside else digest
