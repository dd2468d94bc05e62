"""The code of an isolated program on the machine where it runs: its folder, and unpacked archives."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Final

from headgate.common.settings.config import Config
from headgate.common.settings.loader_options import USER_CODE_PATH, USER_CODE_REQUIREMENTS
from headgate.usercode.bundle.artifacts import inside_of, key_of_folder, released_on_error
from headgate.usercode.bundle.cache import ArtifactCache, Leased
from headgate.usercode.bundle.layouts import searched
from headgate.usercode.bundle.packing import hash_of, packed_program
from headgate.usercode.bundle.requirements import wheels_of
from headgate.usercode.bundle.unpacking import unpack

UNUSED_S: Final = 7 * 24 * 3600.0  # that an unused unpacked archive stays on the driver's machine


class ProgramArtifacts:
    """The code of an isolated program on this machine: `folders` of its modules in order of search.

    Whoever has it must call `release` at the program's end, which gives up the leases on unpacked archives.
    """

    def __init__(
        self, program: Path, others: Sequence[Path], folders: Sequence[str], leased: Sequence[Leased]
    ) -> None:
        self.program, self.folders = program, tuple(folders)
        self._others, self._leased = tuple(others), list(leased)
        self._scratch: tempfile.TemporaryDirectory[str] | None = None

    @cached_property
    def paths(self) -> tuple[Path, ...]:
        self._scratch = tempfile.TemporaryDirectory(prefix="headgate-program-")
        return (packed_program(self.program, Path(self._scratch.name)), *self._others)

    def keep(self, folders: Sequence[str]) -> list[Leased]:
        """Hand over and return the leases on these folders: the caller must release them, not this object."""
        kept = [one for one in self._leased if any(Path(path).is_relative_to(one.folder) for path in folders)]
        self._leased = [one for one in self._leased if one not in kept]
        return kept

    def release(self) -> None:
        for one in self._leased:
            one.release()
        if self._scratch is not None:
            self._scratch.cleanup()


def artifacts_of(program: Path, config: Config) -> ProgramArtifacts:
    """Return a program's code on the driver: its own folder, then the paths and wheels that options name.
    Archives are unpacked, wheels downloaded first; or UserCodeLoadError. The caller must release the code.
    """
    program = program.resolve()
    locked = config.get(USER_CODE_REQUIREMENTS)
    wheels = () if locked is None else wheels_of(Path(locked), Path.home() / ".cache" / "headgate-wheels")
    others = [*(Path(text) for text in config.get(USER_CODE_PATH)), *wheels]
    cache = _cache()
    cache.sweep(UNUSED_S)
    places, leased = _unpacked(others, cache)
    return ProgramArtifacts(program, others, [str(program.parent), *places], leased)


def artifacts_sent(program: str, paths: Sequence[Path]) -> ProgramArtifacts:
    """Return a program's code in a worker, from the `paths` that its process sent; or UserCodeLoadError."""
    places, leased = _unpacked(paths, _cache())
    return ProgramArtifacts(Path(program), paths, places, leased)


def _cache() -> ArtifactCache:
    return ArtifactCache(Path(tempfile.gettempdir()) / f"headgate-user-code-{os.getuid()}")


def _unpacked(paths: Sequence[Path], cache: ArtifactCache) -> tuple[list[str], list[Leased]]:
    with released_on_error() as leased:
        return [entry for path in paths for entry in searched(_folder(path, cache, leased))], leased


def _folder(path: Path, cache: ArtifactCache, leased: list[Leased]) -> Path:
    inside = inside_of(path)
    if path.is_dir():
        return (path / inside).resolve()
    leased.append(cache.lease(key_of_folder(hash_of(path), inside), lambda folder: unpack(path, folder)))
    return (leased[-1].folder / inside).resolve()
