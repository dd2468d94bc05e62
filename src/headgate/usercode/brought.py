"""A program's own code in the process that runs the program: the driver's, and that of a look at its plan.

Here all of it is in this process, native packages as well: no records pass through the driver's functions, so
objects of two copies of a package do not meet. Packages with compiled parts lie in a layer that stays, as the
next program that brings the same ones needs the same files, and no file can be loaded twice.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from headgate.common.config import Config
from headgate.common.loader_options import USER_CODE_PATH, USER_CODE_REQUIREMENTS
from headgate.common.search_path import framework_path
from headgate.usercode.bundle.artifacts import inside_of, packed_program
from headgate.usercode.bundle.cache import ArtifactCache, Leased
from headgate.usercode.bundle.contents import hash_of
from headgate.usercode.bundle.requirements import wheels_of
from headgate.usercode.bundle.unpacking import is_archive, unpack
from headgate.usercode.errors import UserCodeLoadError
from headgate.usercode.native.distributions import installed_in
from headgate.usercode.native.policy import Place, plan
from headgate.usercode.realm import context
from headgate.usercode.realm.code import RealmCode
from headgate.usercode.realm.loader import Realm, RealmSettings
from headgate.usercode.realm.purging import StandardLibrary, purge
from headgate.usercode.settings import UserCodeSettings

UNUSED_S: Final = 7 * 24 * 3600.0
"""How long an unpacked archive that nobody has asked for stays on the driver's machine."""
_programs: Final[weakref.WeakValueDictionary[int, ProgramCode]] = weakref.WeakValueDictionary()
"""Those that run, by the identity of their realm."""
_layers: Final[dict[tuple[str, ...], tuple[Realm, list[Leased]]]] = {}
"""Of this process, by their paths; they and their folders stay."""


class ProgramCode(RealmCode):
    """Implements `common.ports.BroughtCode`.

    Args:
        program: its file.
        others: folders, archives and wheels that it brings beside the modules of its folder.
        data_plane: packages whose objects must not leave the realm, where it has copies of its own.
        realm: where they are loaded.
        leased: folders of the archives among them.

    Attributes:
        realm: as given.
        main: the module that the program runs as.
    """

    def __init__(
        self,
        program: Path,
        others: Sequence[Path],
        realm: Realm,
        leased: Sequence[Leased],
        data_plane: Sequence[str],
    ) -> None:
        super().__init__(realm, data_plane)
        self._program, self._others = program, tuple(others)
        self.main = realm.modules["__main__"]
        self._leased = leased
        self._library = StandardLibrary()
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        _programs[id(realm)] = self

    @cached_property
    def paths(self) -> tuple[Path, ...]:
        """See the protocol; the modules beside the program are packed when somebody asks."""
        self._scratch = tempfile.TemporaryDirectory(prefix="headgate-program-")
        return (packed_program(self._program, Path(self._scratch.name)), *self._others)

    def close(self) -> None:
        """Run what the program has left for its end; it loads nothing any more, and nothing keeps it."""
        self.realm.close()
        purge(self.realm, self._library)
        for one in self._leased:
            one.release()
        if self._scratch is not None:
            self._scratch.cleanup()


def running_code() -> ProgramCode | None:
    """That of the program whose code, or a thread that it has started, calls this; None for any other."""
    realm = context.current()
    return None if realm is None else _programs.get(id(realm))


def open_program(program: Path, config: Config) -> ProgramCode:
    """A realm for a program file, with its folder and what the options name behind it.

    Args:
        program: the file.
        config: of the command line; what a program sets itself comes too late.

    Raises:
        UserCodeLoadError: something is not there, or cannot be used.
        NoIsolationError: this interpreter does not allow realms.
    """
    settings = UserCodeSettings.from_config(config)
    cache = ArtifactCache(Path(tempfile.gettempdir()) / f"headgate-user-code-{os.getuid()}")
    cache.sweep(UNUSED_S)
    others = [Path(text) for text in config.get(USER_CODE_PATH)]
    locked = config.get(USER_CODE_REQUIREMENTS)
    wheels = () if locked is None else wheels_of(Path(locked), Path.home() / ".cache" / "headgate-wheels")
    paths = [program.resolve().parent, *others, *wheels]
    leased: list[Leased] = []
    try:
        realm = _opened(program.name, paths, settings, cache, leased)
        return ProgramCode(program.resolve(), paths[1:], realm, leased, settings.data_plane)
    except BaseException:
        for one in leased:
            one.release()
        raise


def _opened(
    name: str, paths: Sequence[Path], settings: UserCodeSettings, cache: ArtifactCache, leased: list[Leased]
) -> Realm:
    folders = [str(_folder(path, cache, leased)) for path in paths]
    identical, layered = _native(folders, settings)
    of_realm = RealmSettings(settings.patterns, settings.resolve_order, identical, settings.check_leaked)
    layer = _layer(layered, of_realm, leased) if layered else None
    return Realm(name, [folder for folder in folders if folder not in layered], of_realm, layer)


def _native(folders: Sequence[str], settings: UserCodeSettings) -> tuple[frozenset[str], tuple[str, ...]]:
    """Top-level modules that are the framework's, and the folders that must stay."""
    found = {folder: installed_in([folder]) for folder in folders}
    brought: dict[str, Any] = {}
    for packages in found.values():
        brought = {**packages, **brought}  # of two the first on the path
    if not any(one.is_native for one in brought.values()):
        return frozenset(), ()
    decided = plan(brought, installed_in(framework_path()), settings.native_modules, settings.data_plane)
    holding = tuple(folder for folder, packages in found.items() if packages)
    own = any(one.place is not Place.PARENT for one in decided.placements)
    return decided.identical, holding if own else ()


def _layer(folders: tuple[str, ...], settings: RealmSettings, leased: list[Leased]) -> Realm:
    """The layer of these folders, whose leases it takes along."""
    if folders not in _layers:
        staying = [one for one in leased if any(Path(path).is_relative_to(one.folder) for path in folders)]
        leased[:] = [one for one in leased if one not in staying]
        _layers[folders] = Realm("packages with compiled parts", folders, settings), staying
    return _layers[folders][0]


def _folder(path: Path, cache: ArtifactCache, leased: list[Leased]) -> Path:
    """Where the modules of a folder or an archive lie on this machine."""
    if path.is_dir():
        return (path / inside_of(path)).resolve()
    if not (path.is_file() and is_archive(path.name)):
        raise UserCodeLoadError(
            f"user code {str(path)!r} is neither a folder nor an archive; name the folder that holds a "
            "module, not its file"
        )
    leased.append(cache.lease(hash_of(path), lambda folder: unpack(path, folder)))
    return (leased[-1].folder / inside_of(path)).resolve()
