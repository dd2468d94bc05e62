"""What a job brings, identified by hashes: bundled on the driver from paths, checked on the workers."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from packaging.tags import Tag, platform_tags, sys_tags
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from headgate.common.files.durable import sha256
from headgate.usercode.bundle.cache import ArtifactCache, Leased
from headgate.usercode.bundle.layouts import inside_of_folder, inside_of_names, version_of_this
from headgate.usercode.bundle.packing import hash_of, packed_folder
from headgate.usercode.bundle.unpacking import is_archive, names_of, unpack
from headgate.usercode.loading_errors import UserCodeLoadError


@dataclass(frozen=True, slots=True)
class Artifact:
    """A folder, archive or wheel on a job's path; `digest`: SHA-256; `inside`: folder to search ('': top)."""

    name: str
    digest: str
    inside: str = ""  # folder in it that is the entry of the path: of a packed environment its site-packages


@dataclass(frozen=True, slots=True)
class UserBundle:
    """All artifacts of a job's user code in order of search, and their interpreter; `key` is a hash of all.

    Example:
        >>> UserBundle((Artifact("job.zip", "ab" * 32),), "cpython-311-x86_64").key[:8]
        'e28b4c7c'
    """

    artifacts: tuple[Artifact, ...]
    abi: str

    @property
    def key(self) -> str:
        text = "\n".join([self.abi, *(f"{one.name} {one.digest} {one.inside}" for one in self.artifacts)])
        return sha256(text.encode()).hexdigest()[:32]


def abi_of_this() -> str:
    tag = sys.implementation.cache_tag or sys.implementation.name
    return f"{tag}-{platform.machine()}"


def made_from(paths: Sequence[Path], folder: Path) -> tuple[UserBundle, tuple[Path, ...]]:
    """Return the bundle of `paths` and the files to ship, in that order; folders are zipped into `folder`.
    UserCodeLoadError for a path that is no folder or archive, or is of another Python.
    """
    made = [_made(path, folder) for path in paths]
    artifacts = tuple(Artifact(file.name, hash_of(file), inside) for file, inside in made)
    return UserBundle(artifacts, abi_of_this()), tuple(file for file, _ in made)


def unpacked(bundle: UserBundle, files: Iterable[Path], cache: ArtifactCache) -> list[Leased]:
    """Lease, in a worker, the folders of a bundle's artifacts, in their order; `files` are the shipped ones.
    UserCodeLoadError, and nothing stays leased: a changed file, another Python, or another system.
    """
    if bundle.abi != abi_of_this():
        raise UserCodeLoadError(
            f"user code was bundled for {bundle.abi}, and this worker runs {abi_of_this()}; use one minor "
            "version of Python on the driver and the workers"
        )
    with released_on_error() as leased:
        for artifact, file in zip(bundle.artifacts, files, strict=True):
            leased.append(_leased(artifact, file, cache))
    return leased


@contextmanager
def released_on_error() -> Iterator[list[Leased]]:
    """Yield a list to which leased folders are added; all of them are released if the block raises."""
    leased: list[Leased] = []
    try:
        yield leased
    except BaseException:
        for one in leased:
            one.release()
        raise


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
    inside = inside_of(path)
    if path.is_dir():  # of an environment no more than its modules
        return packed_folder(path / inside, path.name, folder), ""
    return path, inside


def inside_of(path: Path) -> str:
    """Return the modules' folder in a folder or archive, '' for its top; UserCodeLoadError for all else."""
    if path.is_dir():
        return inside_of_folder(path)
    if not (path.is_file() and is_archive(path.name)):
        raise UserCodeLoadError(
            f"user code {str(path)!r} is neither a folder nor an archive; name the folder that holds a "
            "module, not its file"
        )
    check_wheel(path.name)
    found = path.stat()
    return _inside_of_archive(path, found.st_ino, found.st_size, found.st_mtime_ns)


@lru_cache(maxsize=64)  # asked whenever a job begins, and a list of a tar's names takes its unpacking
def _inside_of_archive(path: Path, inode: int, size: int, modified_ns: int) -> str:
    del inode, size, modified_ns
    return inside_of_names(names_of(path), path)


def key_of_folder(digest: str, inside: str) -> str:
    return sha256(f"{digest} {inside}".encode()).hexdigest() if inside else digest


def check_wheel(name: str) -> None:
    """Raise UserCodeLoadError for a wheel of another Python; a file not named as a wheel is accepted.

    Platforms are not compared: it is the workers' that counts, see :func:`check_platform`.

    Example:
        >>> check_wheel("attrs-24.2.0-py3-none-any.whl"), check_wheel("env.tar.gz")
        (None, None)
        >>> check_wheel("x-1.0-cp27-cp27mu-linux_x86_64.whl")
        Traceback (most recent call last):
        ...
        headgate.usercode.loading_errors.UserCodeLoadError: wheel 'x-1.0-cp27-cp27mu-linux_x86_64.whl' is ...
    """
    tags = _tags_of(name)
    if tags and not any((tag.interpreter, tag.abi) in _interpreters() for tag in tags):
        raise UserCodeLoadError(
            f"wheel {name!r} is for {_listed(f'{tag.interpreter}-{tag.abi}' for tag in tags)}, and this is "
            f"Python {version_of_this()}; bring the wheel for the Python that the driver and the workers run"
        )


def check_platform(name: str) -> None:
    """Raise UserCodeLoadError for a wheel of another system; a file not named as a wheel is accepted.

    Example:
        >>> check_platform("attrs-24.2.0-py3-none-any.whl")
        >>> check_platform("x-1.0-py3-none-cray_x1.whl")
        Traceback (most recent call last):
        ...
        headgate.usercode.loading_errors.UserCodeLoadError: wheel 'x-1.0-py3-none-cray_x1.whl' is for ...
    """
    tags = _tags_of(name)
    if tags and not any(tag in _here() for tag in tags):
        raise UserCodeLoadError(
            f"wheel {name!r} is for {_listed(tag.platform for tag in tags)}, and this machine takes "
            f"{next(platform_tags())} and what is older; bring the wheel for the system that workers run on"
        )


def _tags_of(name: str) -> frozenset[Tag]:
    try:
        return parse_wheel_filename(name)[3]
    except InvalidWheelFilename:
        return frozenset()


def _listed(those: Iterable[str]) -> str:
    return ", ".join(sorted(set(those)))


@cache
def _here() -> frozenset[Tag]:
    return frozenset(sys_tags())


@cache
def _interpreters() -> frozenset[tuple[str, str]]:
    return frozenset((tag.interpreter, tag.abi) for tag in _here())
